-- name: LockTargets :many
-- Which of the targets exist; they cannot be deleted before this transaction ends.
SELECT id FROM targets WHERE instance_id = @instance_id AND id = ANY(@ids::text[]) ORDER BY id FOR KEY SHARE;

-- name: SealedTargets :many
SELECT instance_id, id, signing_key, old_signing_key FROM targets
WHERE (instance_id, id) > (@instance_id::text, @id::text) AND signing_key <> ''
ORDER BY instance_id, id LIMIT @page_limit::int;

-- name: ResealTarget :execrows
-- Only if the keys are still those that were read.
UPDATE targets SET signing_key = @sealed, old_signing_key = sqlc.narg(old_sealed)
WHERE instance_id = @instance_id AND id = @id AND signing_key = @was AND old_signing_key IS NOT DISTINCT FROM sqlc.narg(old_was);
