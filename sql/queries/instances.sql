-- name: ForgetInstance :exec
-- What has no foreign key to the instance: the totals, which its deletion counts,
-- and what is written with each token.
WITH a AS (DELETE FROM oauth_grants g WHERE g.instance_id = @instance_id),
    b AS (DELETE FROM revoked_tokens t WHERE t.instance_id = @instance_id),
    c AS (DELETE FROM used_assertions t WHERE t.instance_id = @instance_id)
DELETE FROM row_counts c WHERE c.instance_id = @instance_id;

-- name: InstancesWithRetention :many
SELECT id, audit_log_retention_nanos FROM instances i
WHERE i.audit_log_retention_nanos > 0 AND NOT EXISTS (SELECT FROM moved_instances m WHERE m.instance_id = i.id) ORDER BY id;

-- name: SweepEvents :execrows
-- Deletes some events older than an instance keeps them. The newest stays,
-- because answers name it, and so do deletions, which keep an ID from being
-- given again (SEC-219); their payload is empty.
DELETE FROM events e WHERE e.instance_id = @instance_id AND e.sequence IN (
    SELECT o.sequence FROM events o
    WHERE o.instance_id = @instance_id AND o.created_at < @before::timestamptz AND o.event_type NOT LIKE '%.removed'
      AND o.sequence < (SELECT max(n.sequence) FROM events n WHERE n.instance_id = @instance_id)
    ORDER BY o.created_at LIMIT @batch::int
);

-- name: AddSchemaRevision :exec
INSERT INTO user_schema_revisions (instance_id, schema_id, revision, schema) VALUES (@instance_id, @schema_id, @revision, @schema)
ON CONFLICT DO NOTHING;

-- name: DeferConstraints :exec
-- For a transaction that deletes what refers to one another, in whatever order.
SET CONSTRAINTS ALL DEFERRED;
