-- name: LoginUser :one
-- The user a session is to be about, by ID or by name in the organization that
-- owns a domain; only a human who can sign in now.
SELECT u.id, u.org_id::text AS org_id, u.preferred_language, u.generation, coalesce(u.password_hash, '')::text AS password_hash FROM users u
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE u.instance_id = @instance_id AND u.user_type = 1 /* USER_TYPE_HUMAN */ AND u.state = 1 /* USER_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND (
    u.id = @id::text OR (u.username_folded = @username_folded::text AND u.org_id = (
        SELECT d.org_id FROM domains d WHERE d.instance_id = @instance_id AND d.domain = @domain::text AND d.org_id IS NOT NULL AND d.is_verified)));

-- name: PasswordDecoy :one
-- The hash that is compared where there is none: that of somebody else of the instance,
-- always the same for the same name, so that it takes as long as verifying hashes takes in
-- this instance, whatever system they are from (SEC-170).
SELECT coalesce(
    (SELECT password_hash FROM users u WHERE u.instance_id = @instance_id AND u.password_hash IS NOT NULL
        AND hashtextextended(u.id, 0) >= hashtextextended(@name::text, 0) ORDER BY hashtextextended(u.id, 0) LIMIT 1),
    (SELECT password_hash FROM users u WHERE u.instance_id = @instance_id AND u.password_hash IS NOT NULL
        ORDER BY hashtextextended(u.id, 0) LIMIT 1),
    '')::text;

-- name: CountWrongPassword :execrows
-- Counts a wrong password, if there is one left in this period: of those that the browser
-- has, if it has signed the user in before, else ('') of those that all strangers share
-- (SEC-177). Of parallel ones each finds what the one before left.
INSERT INTO browser_tries AS b (instance_id, user_id, browser, attempts, period_end)
SELECT u.instance_id, u.id, @browser::text, 1, @period_end::timestamptz FROM users u WHERE u.instance_id = @instance_id AND u.id = @id
ON CONFLICT ON CONSTRAINT browser_tries_pkey DO UPDATE SET
    attempts = CASE WHEN b.period_end <= @now::timestamptz THEN 1 ELSE b.attempts + 1 END,
    period_end = CASE WHEN b.period_end <= @now THEN excluded.period_end ELSE b.period_end END
WHERE b.period_end <= @now OR b.attempts < @attempts_limit::int;

-- name: AcceptPassword :one
-- Judges a right password: it is good while there is a try left, and takes back what was
-- counted before.
WITH spent AS (
    SELECT FROM browser_tries b WHERE b.instance_id = @instance_id AND b.user_id = @id AND b.browser = @browser::text
        AND b.attempts >= @attempts_limit::int AND b.period_end > @now::timestamptz
), forgiven AS (
    DELETE FROM browser_tries b WHERE b.instance_id = @instance_id AND b.user_id = @id AND b.browser = @browser AND NOT EXISTS (SELECT FROM spent)
)
SELECT NOT EXISTS (SELECT FROM spent) AS accepted;

-- name: ForgivePasswords :exec
-- A new password begins with all tries.
DELETE FROM browser_tries b WHERE b.instance_id = @instance_id AND b.user_id = @id;

-- name: BeginSession :one
-- Takes a row of sessions.
-- Begins a session with a right password, which it judges as AcceptPassword does, and
-- appends the events of that: in one statement, the one commit of a password page. The lock
-- keeps the generation of the user from ending before the session is there (HoldGeneration);
-- there is none when it has ended since the password was compared, or there was no try left.
WITH held AS (
    SELECT u.id FROM users u WHERE u.instance_id = @instance_id AND u.id = @user_id::text AND u.generation = @generation AND u.state = 1 /* USER_STATE_ACTIVE */ FOR SHARE
), spent AS (
    SELECT FROM browser_tries b WHERE b.instance_id = @instance_id AND b.user_id = @user_id AND b.browser = @browser::text
        AND b.attempts >= @attempts_limit::int AND b.period_end > @now::timestamptz
), good AS (
    SELECT held.id FROM held WHERE NOT EXISTS (SELECT FROM spent)
), forgiven AS (
    DELETE FROM browser_tries b WHERE b.instance_id = @instance_id AND b.user_id = @user_id AND b.browser = @browser AND EXISTS (SELECT FROM good)
), appended AS (
    INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
    SELECT @instance_id, 'session', @id, unnest(@event_types::text[]), unnest(@payloads::text[])::jsonb, @creator,
        unnest(@owner_types::smallint[]), unnest(@owner_ids::text[]), unnest(@created_ats::timestamptz[]), @client_address, @traceparent
    FROM good
    RETURNING sequence
), made AS (
    INSERT INTO sessions (instance_id, id, org_id, user_id, creator, token_hash, expiration_date, fingerprint_id, ip, description, metadata,
        user_verified_at, password_verified_at, totp_verified_at, otp_sms_verified_at, otp_email_verified_at, intent_verified_at, intent_auth_time, idp_id,
        sequence, creation_date, change_date)
    SELECT @instance_id, @id, sqlc.narg(org_id)::text, g.id, @creator, @token_hash, sqlc.narg(expiration_date), @fingerprint_id, @ip, @description, @metadata,
        sqlc.narg(user_verified_at)::timestamptz, sqlc.narg(password_verified_at)::timestamptz, sqlc.narg(totp_verified_at)::timestamptz, sqlc.narg(otp_sms_verified_at)::timestamptz,
        sqlc.narg(otp_email_verified_at)::timestamptz, sqlc.narg(intent_verified_at)::timestamptz, sqlc.narg(intent_auth_time)::timestamptz, @idp_id,
        (SELECT max(a.sequence) FROM appended a), @creation_date, @change_date
    FROM good g
    RETURNING sequence
)
SELECT coalesce((SELECT m.sequence FROM made m), 0)::bigint AS sequence, EXISTS (SELECT FROM spent) AS spent;

-- name: SweepBrowserTries :execrows
DELETE FROM browser_tries b WHERE (b.instance_id, b.user_id, b.browser) IN (
    SELECT o.instance_id, o.user_id, o.browser FROM browser_tries o WHERE o.period_end < @before::timestamptz LIMIT @batch::int);
