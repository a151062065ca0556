-- name: ClearPrimaryDomain :exec
UPDATE domains SET is_primary = false WHERE instance_id = @instance_id AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND is_primary;

-- name: LockUsersOfDomain :many
-- The users of other organizations whose names end in a domain (suffix is a LIKE
-- pattern without the first %).
SELECT id, org_id::text AS org_id FROM users
WHERE instance_id = @instance_id AND org_id <> @org_id AND username_folded LIKE ('%' || @suffix::text)
ORDER BY id FOR NO KEY UPDATE;

-- name: RenameUser :exec
UPDATE users SET username = @username, username_folded = @username_folded, sequence = @sequence, change_date = @now::timestamptz
WHERE instance_id = @instance_id AND id = @id;
