-- name: ClearPrimaryDomain :exec
UPDATE domains SET is_primary = false WHERE instance_id = @instance_id AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND is_primary;

-- name: LockUsersOfDomain :many
-- The users of other organizations whose names end in a domain (suffix is a LIKE
-- pattern without the first %).
SELECT u.id, u.org_id::text AS org_id, u.display_name, u.preferred_language, (CASE WHEN u.is_email_verified THEN u.email ELSE '' END)::text AS verified_email, u.is_email_proven,
    coalesce((SELECT '@' || d.domain FROM domains d WHERE d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary), '')::text AS login_suffix
FROM users u
WHERE u.instance_id = @instance_id AND u.org_id <> @org_id AND u.username_folded LIKE ('%' || @suffix::text)
ORDER BY u.id FOR NO KEY UPDATE OF u;

-- name: RenameUser :exec
UPDATE users SET username = @username, username_folded = @username_folded, sequence = @sequence, change_date = @now::timestamptz
WHERE instance_id = @instance_id AND id = @id;
