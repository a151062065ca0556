-- name: PutCode :exec
-- A newer code voids the one before.
INSERT INTO one_time_codes (instance_id, purpose, subject_id, authenticator_id, session_id, salt, hash, attempts, expiration_date)
VALUES (@instance_id, @purpose, @subject_id, @authenticator_id, sqlc.narg(session_id), @salt, @hash, 0, @expiration_date)
ON CONFLICT ON CONSTRAINT one_time_codes_pkey DO UPDATE
SET authenticator_id = excluded.authenticator_id, salt = excluded.salt, hash = excluded.hash, attempts = 0, expiration_date = excluded.expiration_date;

-- name: TryCode :one
-- Counts an attempt before anybody learns whether it was right, so that parallel
-- ones cannot be more than there may be (REL-027).
UPDATE one_time_codes SET attempts = attempts + 1
WHERE instance_id = @instance_id AND purpose = @purpose AND subject_id = @subject_id AND expiration_date > @now::timestamptz AND attempts < @attempts_limit::int
RETURNING salt, hash;

-- name: UseCode :execrows
-- Of parallel uses one deletes the row.
DELETE FROM one_time_codes WHERE instance_id = @instance_id AND purpose = @purpose AND subject_id = @subject_id AND hash = @hash;

-- name: TrySecondFactor :execrows
-- Counts a try of any second factor, if the user has one left in this period.
UPDATE users SET
    failed_otp_attempts = CASE WHEN failed_otp_until <= @now::timestamptz THEN 1 ELSE failed_otp_attempts + 1 END,
    failed_otp_until = CASE WHEN failed_otp_until <= @now::timestamptz THEN @period_end::timestamptz ELSE failed_otp_until END
WHERE instance_id = @instance_id AND id = @id AND (failed_otp_until <= @now::timestamptz OR failed_otp_attempts < @attempts_limit::int);

-- name: ForgiveSecondFactor :exec
UPDATE users SET failed_otp_attempts = 0 WHERE instance_id = @instance_id AND id = @id;

-- name: UseStep :execrows
-- A time step counts once, and none before it (SEC-178): of parallel uses one
-- changes the row.
UPDATE authenticators SET last_step = @step WHERE instance_id = @instance_id AND id = @id AND last_step < @step;

-- name: VerifiedAuthenticator :one
-- The oldest verified one of a type, or the one that is named.
SELECT * FROM authenticators
WHERE instance_id = @instance_id AND user_id = @user_id AND type = @type AND is_verified AND (@id::text = '' OR id = @id)
ORDER BY creation_date, id LIMIT 1;

-- name: LoginNameOfUser :one
SELECT (u.username || coalesce('@' || d.domain, ''))::text FROM users u
LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
WHERE u.instance_id = @instance_id AND u.id = @id;

-- name: SameAuthenticator :many
SELECT id, is_verified FROM authenticators WHERE instance_id = @instance_id AND user_id = @user_id AND type = @type AND address = @address;

-- name: MessageUser :one
SELECT preferred_language, display_name FROM users WHERE instance_id = @instance_id AND id = @id;
