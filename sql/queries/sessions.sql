-- name: LoginUser :one
-- The user a session is to be about, by ID or by name in the organization that
-- owns a domain; only a human who can sign in now.
SELECT u.id, u.org_id::text AS org_id, u.preferred_language, u.generation FROM users u
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE u.instance_id = @instance_id AND u.user_type = 1 AND u.state = 1 AND o.state = 1 AND (
    u.id = @id::text OR (u.username_folded = @username_folded::text AND u.org_id = (
        SELECT d.org_id FROM domains d WHERE d.instance_id = @instance_id AND d.domain = @domain::text AND d.org_id IS NOT NULL AND d.is_verified)));

-- name: TryPassword :one
-- Counts a failure before the password is compared, if there is one left in this
-- period: of those that the browser has, if it has signed the user in before, else of
-- those that all strangers share (SEC-177). It is taken back when the password was
-- right. So parallel guesses are all counted (SEC-176). Where there is no user with a password, the hash is that
-- of another one, always the same for the same name: verifying it takes as long as
-- verifying hashes takes in this instance, whatever system they are from (SEC-170).
WITH tried AS (
    UPDATE users SET
        failed_password_attempts = CASE WHEN failed_password_until <= @now::timestamptz THEN 1 ELSE failed_password_attempts + 1 END,
        failed_password_until = CASE WHEN failed_password_until <= @now::timestamptz THEN @period_end::timestamptz ELSE failed_password_until END
    WHERE instance_id = @instance_id AND id = @id AND @browser::text = '' AND (failed_password_until <= @now::timestamptz OR failed_password_attempts < @attempts_limit::int)
    RETURNING id
), known AS (
    INSERT INTO browser_tries AS b (instance_id, user_id, browser, attempts, period_end)
    SELECT u.instance_id, u.id, @browser, 1, @period_end FROM users u WHERE u.instance_id = @instance_id AND u.id = @id AND @browser <> ''
    ON CONFLICT ON CONSTRAINT browser_tries_pkey DO UPDATE SET
        attempts = CASE WHEN b.period_end <= @now THEN 1 ELSE b.attempts + 1 END,
        period_end = CASE WHEN b.period_end <= @now THEN excluded.period_end ELSE b.period_end END
    WHERE b.period_end <= @now OR b.attempts < @attempts_limit
    RETURNING b.user_id AS id
), counted AS (
    SELECT tried.id FROM tried UNION ALL SELECT known.id FROM known
)
SELECT EXISTS (SELECT FROM counted) AS counted,
    EXISTS (SELECT FROM users u JOIN counted c ON c.id = u.id WHERE u.instance_id = @instance_id AND u.password_hash IS NOT NULL) AS comparable,
    coalesce(
        (SELECT password_hash FROM users u WHERE u.instance_id = @instance_id AND u.id = @id),
        (SELECT password_hash FROM users u WHERE u.instance_id = @instance_id AND u.password_hash IS NOT NULL
            AND hashtextextended(u.id, 0) >= hashtextextended(@name::text, 0) ORDER BY hashtextextended(u.id, 0) LIMIT 1),
        (SELECT password_hash FROM users u WHERE u.instance_id = @instance_id AND u.password_hash IS NOT NULL
            ORDER BY hashtextextended(u.id, 0) LIMIT 1),
        '')::text AS password_hash;

-- name: UncountPassword :exec
-- Takes back the count of a password that was not compared after all.
WITH of_browser AS (
    UPDATE browser_tries b SET attempts = greatest(b.attempts - 1, 0) WHERE b.instance_id = @instance_id AND b.user_id = @id AND b.browser = @browser::text
)
UPDATE users u SET failed_password_attempts = greatest(u.failed_password_attempts - 1, 0) WHERE u.instance_id = @instance_id AND u.id = @id AND @browser = '';

-- name: ForgivePassword :exec
WITH of_browser AS (
    DELETE FROM browser_tries b WHERE b.instance_id = @instance_id AND b.user_id = @id AND b.browser = @browser::text
)
UPDATE users u SET failed_password_attempts = 0 WHERE u.instance_id = @instance_id AND u.id = @id AND @browser = '';

-- name: SweepBrowserTries :execrows
DELETE FROM browser_tries b WHERE (b.instance_id, b.user_id, b.browser) IN (
    SELECT o.instance_id, o.user_id, o.browser FROM browser_tries o WHERE o.period_end < @before::timestamptz LIMIT @batch::int);
