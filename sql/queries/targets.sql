-- name: CreateTarget :one
-- State and event in one statement: one round trip, one commit. The unique
-- constraint targets_name_key decides races for a name.
INSERT INTO targets (
    instance_id, id, name, name_folded, target_type, url, timeout_nanos, is_async, interrupt_on_error,
    sequence, creation_date, change_date
) VALUES (
    @instance_id, @id, @name, @name_folded, @target_type, @url, @timeout_nanos, @is_async, @interrupt_on_error,
    append_event(@instance_id, 'target', @id, @event_type, @payload, @creator, 2::smallint, @instance_id, @now::timestamptz),
    @now, @now
) RETURNING sequence;

-- name: GetTarget :one
SELECT * FROM targets WHERE instance_id = @instance_id AND id = @id;

-- name: LockTarget :one
-- Targets are locked before executions, everywhere: a fixed lock order (REL-026).
SELECT * FROM targets WHERE instance_id = @instance_id AND id = @id FOR UPDATE;

-- name: UpdateTarget :exec
UPDATE targets SET
    name = @name, name_folded = @name_folded, target_type = @target_type, url = @url, timeout_nanos = @timeout_nanos,
    is_async = @is_async, interrupt_on_error = @interrupt_on_error, sequence = @sequence, change_date = @change_date
WHERE instance_id = @instance_id AND id = @id;

-- name: DeleteTarget :exec
DELETE FROM targets WHERE instance_id = @instance_id AND id = @id;

-- name: LockTargets :many
-- Which of the targets exist; they cannot be deleted before this transaction ends.
SELECT id FROM targets WHERE instance_id = @instance_id AND id = ANY(@ids::text[]) ORDER BY id FOR KEY SHARE;

-- name: SearchTargets :many
-- One static statement for all filters, columns and directions. It must run
-- with plan_cache_mode = force_custom_plan: then the planner sees the values,
-- drops the filters and sort keys that do not apply and uses an index.
-- total is exact: known from the page, from row_counts, or counted.
WITH matching AS NOT MATERIALIZED (
    SELECT id, name, target_type, url, timeout_nanos, is_async, interrupt_on_error, sequence, creation_date, change_date
    FROM targets
    WHERE instance_id = @instance_id
      AND (sqlc.narg(ids)::text[] IS NULL OR id = ANY(sqlc.narg(ids)::text[]))
      AND (sqlc.narg(name_like)::text IS NULL OR name LIKE sqlc.narg(name_like)::text)
      AND (sqlc.narg(folded_like)::text IS NULL OR name_folded LIKE sqlc.narg(folded_like)::text)
      AND (cardinality(@more_name_likes::text[]) = 0 OR name LIKE ALL(@more_name_likes::text[]))
      AND (cardinality(@more_folded_likes::text[]) = 0 OR name_folded LIKE ALL(@more_folded_likes::text[]))
), page AS (
    SELECT id, name, target_type, url, timeout_nanos, is_async, interrupt_on_error, sequence, change_date
    FROM matching
    ORDER BY
        CASE WHEN @sorting::text = 'creation_date' AND @ascending::bool THEN creation_date END,
        CASE WHEN @sorting::text = 'creation_date' AND NOT @ascending::bool THEN creation_date END DESC,
        CASE WHEN @sorting::text = 'change_date' AND @ascending::bool THEN change_date END,
        CASE WHEN @sorting::text = 'change_date' AND NOT @ascending::bool THEN change_date END DESC,
        CASE WHEN @sorting::text = 'name' AND @ascending::bool THEN name END,
        CASE WHEN @sorting::text = 'name' AND NOT @ascending::bool THEN name END DESC,
        CASE WHEN @sorting::text = 'target_type' AND @ascending::bool THEN target_type END,
        CASE WHEN @sorting::text = 'target_type' AND NOT @ascending::bool THEN target_type END DESC,
        CASE WHEN @sorting::text = 'url' AND @ascending::bool THEN url END,
        CASE WHEN @sorting::text = 'url' AND NOT @ascending::bool THEN url END DESC,
        CASE WHEN @sorting::text = 'timeout' AND @ascending::bool THEN timeout_nanos END,
        CASE WHEN @sorting::text = 'timeout' AND NOT @ascending::bool THEN timeout_nanos END DESC,
        CASE WHEN @sorting::text = 'async' AND @ascending::bool THEN coalesce(is_async, false) END,
        CASE WHEN @sorting::text = 'async' AND NOT @ascending::bool THEN coalesce(is_async, false) END DESC,
        CASE WHEN @sorting::text = 'interrupt_on_error' AND @ascending::bool THEN coalesce(interrupt_on_error, false) END,
        CASE WHEN @sorting::text = 'interrupt_on_error' AND NOT @ascending::bool THEN coalesce(interrupt_on_error, false) END DESC,
        CASE WHEN @ascending::bool THEN id END,
        CASE WHEN NOT @ascending::bool THEN id END DESC
    LIMIT @page_limit::int OFFSET @page_offset::bigint
)
SELECT
    id, name, target_type, url, timeout_nanos, is_async, interrupt_on_error, sequence, change_date,
    CASE
        WHEN (SELECT count(*) FROM page) < @page_limit::int THEN (SELECT count(*) FROM page) + @page_offset::bigint
        WHEN @unfiltered::bool THEN (SELECT sum(n)::bigint FROM row_counts c WHERE c.instance_id = @instance_id AND resource = 'targets')
        ELSE (SELECT count(*) FROM matching)
    END::bigint AS total
FROM page;
