-- name: LockTargets :many
-- Which of the targets exist; they cannot be deleted before this transaction ends.
SELECT id FROM targets WHERE instance_id = @instance_id AND id = ANY(@ids::text[]) ORDER BY id FOR KEY SHARE;
