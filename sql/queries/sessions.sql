-- name: LoginUser :one
-- The user a session is to be about, by ID or by name in the organization that
-- owns a domain; only a human who can sign in now.
SELECT u.id, u.org_id::text AS org_id, u.preferred_language FROM users u
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE u.instance_id = @instance_id AND u.user_type = 1 AND u.state = 1 AND o.state = 1 AND (
    u.id = @id::text OR (u.username_folded = @username_folded::text AND u.org_id = (
        SELECT d.org_id FROM domains d WHERE d.instance_id = @instance_id AND d.domain = @domain::text AND d.org_id IS NOT NULL AND d.is_verified)));

-- name: TryPassword :one
-- Counts a failure before the password is compared, and takes it back when it was
-- right: so parallel guesses are all counted (SEC-176). A limit of 0 is none.
UPDATE users SET failed_password_attempts = failed_password_attempts + 1
WHERE instance_id = @instance_id AND id = @id AND (@attempts_limit::int = 0 OR failed_password_attempts < @attempts_limit::int)
RETURNING coalesce(password_hash, '')::text AS password_hash;

-- name: UncountPassword :exec
-- Takes back the count of a password that was not compared after all.
UPDATE users SET failed_password_attempts = greatest(failed_password_attempts - 1, 0) WHERE instance_id = @instance_id AND id = @id;

-- name: ForgivePassword :exec
UPDATE users SET failed_password_attempts = 0 WHERE instance_id = @instance_id AND id = @id;
