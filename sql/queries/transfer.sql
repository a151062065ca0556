-- name: OrganizationIDs :many
-- The organizations that an export is about, without those that are left out.
SELECT id FROM organizations WHERE instance_id = @instance_id AND (cardinality(@org_ids::text[]) = 0 OR id = ANY (@org_ids::text[])) AND id <> ALL (@excluded::text[])
ORDER BY id;

-- name: UnknownOrganizations :many
-- Those of a list that there are not.
SELECT n.id::text FROM unnest(@ids::text[]) AS n (id)
WHERE NOT EXISTS (SELECT FROM organizations o WHERE o.instance_id = @instance_id AND o.id = n.id) ORDER BY 1;

-- name: CredentialsBehind :many
-- What document 2 leaves out of exports, by organization.
SELECT b.kind::text AS kind, b.org_id::text AS org_id, count(*) AS count FROM (
    SELECT 'machineKeys' AS kind, k.org_id FROM machine_keys k WHERE k.instance_id = @instance_id
    UNION ALL SELECT 'personalAccessTokens', t.org_id FROM personal_access_tokens t WHERE t.instance_id = @instance_id
    UNION ALL SELECT 'appKeys', a.org_id FROM app_keys a WHERE a.instance_id = @instance_id
) b WHERE b.org_id = ANY (@org_ids::text[]) GROUP BY 1, 2 ORDER BY 1, 2;

-- name: LockImports :one
-- Imports into an instance are one after the other.
SELECT pg_try_advisory_xact_lock(hashtextextended('import/' || @instance_id::text, 0))::bool AS is_free;

-- name: LongTransaction :exec
-- One of much work, whose statements are planned for what there is and may take long. Plans
-- are kept all the same: a foreign key is checked by a statement for each row.
SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
    set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('work_mem', '32MB', true), set_config('gin_pending_list_limit', '65536', true);

-- name: RowsOf :one
-- About how many rows of some tables an instance has.
SELECT coalesce(sum(n), 0)::bigint FROM row_counts WHERE instance_id = @instance_id AND resource = ANY (@tables::text[]);

-- name: OwnerOfToken :one
SELECT user_type, access_token_type FROM users WHERE instance_id = @instance_id AND id = @id;

-- name: AddOperation :one
-- Without operations: items, total, size, is_canceled, outcome, error_reason, error_message: nothing has happened yet.
INSERT INTO operations (instance_id, id, type, state, creator, lease_end, creation_date, change_date, expiration_date)
VALUES (@instance_id, @id, @type, 1 /* OPERATION_STATE_RUNNING */, @creator, clock_timestamp() + make_interval(secs => @seconds::float8), @now, @now, @expiration_date)
RETURNING *;

-- name: Operation :one
SELECT * FROM operations WHERE instance_id = @instance_id AND id = @id;

-- name: BeatOperation :one
-- Tells how far it is, and that its node is there; whether it is to end.
UPDATE operations SET items = @items, total = @total, change_date = @now, lease_end = clock_timestamp() + make_interval(secs => @seconds::float8)
WHERE instance_id = @instance_id AND id = @id AND state = 1 /* OPERATION_STATE_RUNNING */ RETURNING is_canceled;

-- name: CancelOperation :one
UPDATE operations SET is_canceled = true WHERE instance_id = @instance_id AND id = @id RETURNING *;

-- name: EndOperation :execrows
UPDATE operations SET state = @state, items = @items, total = @total, size = @size, outcome = @outcome, error_reason = @error_reason, error_message = @error_message,
    change_date = @now, expiration_date = @expiration_date
WHERE instance_id = @instance_id AND id = @id AND state = 1 /* OPERATION_STATE_RUNNING */;

-- name: AddOperationChunk :exec
INSERT INTO operation_chunks (instance_id, operation_id, number, content) VALUES (@instance_id, @operation_id, @number, @content);

-- name: OperationChunk :one
SELECT content FROM operation_chunks WHERE instance_id = @instance_id AND operation_id = @operation_id AND number = @number;

-- name: SweepOperations :execrows
-- Those that are over, and those whose node went away in the middle, which left nothing.
WITH gone AS (
    UPDATE operations SET state = 3 /* OPERATION_STATE_FAILED */, error_reason = 'NODE_GONE', error_message = 'the node that ran it went away; it left nothing', change_date = @now
    WHERE state = 1 /* OPERATION_STATE_RUNNING */ AND lease_end < clock_timestamp() RETURNING instance_id, id
), forgotten AS (
    DELETE FROM operation_chunks c USING gone g WHERE c.instance_id = g.instance_id AND c.operation_id = g.id
)
DELETE FROM operations o WHERE o.expiration_date < @now AND o.state <> 1 /* OPERATION_STATE_RUNNING */;

-- name: ImportedOrganizations :many
SELECT o.id, o.name, coalesce(d.domain, '')::text AS domain FROM organizations o
LEFT JOIN domains d ON d.instance_id = o.instance_id AND d.org_id = o.id AND d.is_primary
WHERE o.instance_id = @instance_id AND o.id = ANY (@ids::text[]) ORDER BY o.name, o.id;
