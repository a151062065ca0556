-- name: LockIncludes :exec
-- Changes of the include graph of an instance happen one after the other:
-- cycles and depth are rules over several rows, which no constraint can hold.
SELECT pg_advisory_xact_lock(hashtextextended('execution_includes/' || @instance_id::text, 0));

-- name: PutExecution :one
-- Of any number of parallel firsts exactly one inserts the row and sees
-- created (REL-022); the others wait for it and continue with the row locked.
INSERT INTO executions AS e (instance_id, id, condition_type, sequence, creation_date, change_date)
VALUES (@instance_id, @id, @condition_type, 0, @now::timestamptz, @now::timestamptz)
ON CONFLICT ON CONSTRAINT executions_pkey DO UPDATE SET condition_type = e.condition_type
RETURNING e.sequence, e.change_date, (e.xmax = 0)::bool AS created;

-- name: LockExecutions :many
-- NO KEY: a transaction that is about to include one of them need not wait.
SELECT id FROM executions WHERE instance_id = @instance_id AND id = ANY(@ids::text[]) ORDER BY id FOR NO KEY UPDATE;

-- name: ExistingExecutions :many
SELECT id FROM executions WHERE instance_id = @instance_id AND id = ANY(@ids::text[]);

-- name: TouchExecution :exec
UPDATE executions SET sequence = @sequence, change_date = @change_date WHERE instance_id = @instance_id AND id = @id;

-- name: DeleteExecution :exec
DELETE FROM executions WHERE instance_id = @instance_id AND id = @id;

-- name: ExecutionElements :one
SELECT
    ARRAY(SELECT t.target_id FROM execution_targets t WHERE t.instance_id = @instance_id AND t.execution_id = @id ORDER BY t.position)::text[] AS targets,
    ARRAY(SELECT i.include_id FROM execution_includes i WHERE i.instance_id = @instance_id AND i.execution_id = @id ORDER BY i.position)::text[] AS includes;

-- name: ClearExecutionTargets :exec
DELETE FROM execution_targets WHERE instance_id = @instance_id AND execution_id = @id;

-- name: AddExecutionTargets :exec
INSERT INTO execution_targets (instance_id, execution_id, position, target_id)
SELECT @instance_id, @id, position, target_id FROM unnest(@targets::text[]) WITH ORDINALITY AS list (target_id, position);

-- name: ClearExecutionIncludes :exec
DELETE FROM execution_includes WHERE instance_id = @instance_id AND execution_id = @id;

-- name: AddExecutionIncludes :exec
INSERT INTO execution_includes (instance_id, execution_id, position, include_id)
SELECT @instance_id, @id, position, include_id FROM unnest(@includes::text[]) WITH ORDINALITY AS list (include_id, position);

-- name: ExecutionsOfTarget :many
SELECT DISTINCT execution_id FROM execution_targets WHERE instance_id = @instance_id AND target_id = @target_id ORDER BY execution_id;

-- name: ExecutionsIncluding :many
SELECT DISTINCT execution_id FROM execution_includes WHERE instance_id = @instance_id AND include_id = @include_id ORDER BY execution_id;

-- name: RemoveTargetFromExecutions :exec
DELETE FROM execution_targets WHERE instance_id = @instance_id AND target_id = @target_id;

-- name: RemoveIncludeFromExecutions :exec
DELETE FROM execution_includes WHERE instance_id = @instance_id AND include_id = @include_id;

-- name: IncludeEdges :many
-- The include graph of one condition type; it is bounded by what conditions can
-- name, a few hundred.
SELECT i.execution_id, i.include_id FROM execution_includes i
JOIN executions e ON e.instance_id = i.instance_id AND e.id = i.execution_id
WHERE i.instance_id = @instance_id AND e.condition_type = @condition_type
ORDER BY i.execution_id, i.position;

-- name: SearchExecutions :many
-- Several filters on targets or includes must all be met.
WITH matching AS NOT MATERIALIZED (
    SELECT e.instance_id, e.id, e.sequence, e.creation_date, e.change_date
    FROM executions e
    WHERE e.instance_id = @instance_id
      AND (sqlc.narg(ids)::text[] IS NULL OR e.id = ANY(sqlc.narg(ids)::text[]))
      AND (sqlc.narg(condition_type)::text IS NULL OR e.condition_type = sqlc.narg(condition_type)::text)
      AND (cardinality(@targets::text[]) = 0 OR cardinality(@targets::text[]) = (
          SELECT count(DISTINCT t.target_id) FROM execution_targets t
          WHERE t.instance_id = e.instance_id AND t.execution_id = e.id AND t.target_id = ANY(@targets::text[])))
      AND (cardinality(@includes::text[]) = 0 OR cardinality(@includes::text[]) = (
          SELECT count(DISTINCT i.include_id) FROM execution_includes i
          WHERE i.instance_id = e.instance_id AND i.execution_id = e.id AND i.include_id = ANY(@includes::text[])))
), page AS (
    SELECT instance_id, id, sequence, change_date
    FROM matching
    ORDER BY
        CASE WHEN @ascending::bool THEN creation_date END,
        CASE WHEN NOT @ascending::bool THEN creation_date END DESC,
        CASE WHEN @ascending::bool THEN id END,
        CASE WHEN NOT @ascending::bool THEN id END DESC
    LIMIT @page_limit::int OFFSET @page_offset::bigint
)
SELECT
    page.id, page.sequence, page.change_date,
    ARRAY(SELECT t.target_id FROM execution_targets t WHERE t.instance_id = page.instance_id AND t.execution_id = page.id ORDER BY t.position)::text[] AS targets,
    ARRAY(SELECT i.include_id FROM execution_includes i WHERE i.instance_id = page.instance_id AND i.execution_id = page.id ORDER BY i.position)::text[] AS includes,
    CASE
        WHEN (SELECT count(*) FROM page) < @page_limit::int THEN (SELECT count(*) FROM page) + @page_offset::bigint
        WHEN @unfiltered::bool THEN (SELECT sum(n)::bigint FROM row_counts c WHERE c.instance_id = @instance_id AND resource = 'executions')
        ELSE (SELECT count(*) FROM matching)
    END::bigint AS total
FROM page;

-- name: ExecutionsStamp :one
-- Differs whenever an execution was added, changed or removed, or a target of one changed:
-- an object's sequence only grows. What no execution names is not looked at.
SELECT concat_ws('/', e.n, e.of, t.n, t.of)::text AS stamp
FROM (SELECT count(*) AS n, sum(x.sequence) AS of FROM executions x WHERE x.instance_id = @instance_id) e,
    (SELECT count(*) AS n, sum(x.sequence) AS of FROM execution_targets l
        JOIN targets x ON x.instance_id = l.instance_id AND x.id = l.target_id WHERE l.instance_id = @instance_id) t;

-- name: AllExecutions :many
SELECT e.id,
    ARRAY(SELECT t.target_id FROM execution_targets t WHERE t.instance_id = e.instance_id AND t.execution_id = e.id ORDER BY t.position)::text[] AS targets,
    ARRAY(SELECT i.include_id FROM execution_includes i WHERE i.instance_id = e.instance_id AND i.execution_id = e.id ORDER BY i.position)::text[] AS includes
FROM executions e WHERE e.instance_id = @instance_id;

-- name: TargetsOfExecutions :many
SELECT * FROM targets t WHERE t.instance_id = @instance_id
    AND t.id = ANY (ARRAY(SELECT DISTINCT l.target_id FROM execution_targets l WHERE l.instance_id = @instance_id));

-- name: TargetCounts :many
-- How many targets the executions of one condition type have themselves.
SELECT t.execution_id, count(*) AS targets FROM execution_targets t
JOIN executions e ON e.instance_id = t.instance_id AND e.id = t.execution_id
WHERE t.instance_id = @instance_id AND e.condition_type = @condition_type
GROUP BY t.execution_id;
