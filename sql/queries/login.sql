-- name: BrowserSessions :many
-- The sessions of a browser, by the hashes of their tokens, with what decides
-- whether they are complete and what the pages show of their users. However old the plan,
-- token_key has the sessions found by the index of that, and LIMIT the others by those.
SELECT s.id, s.token_hash, s.user_id::text AS user_id, u.org_id::text AS org_id, u.display_name,
    (u.username || coalesce('@' || d.domain, ''))::text AS login_name,
    (u.user_type = 1 /* USER_TYPE_HUMAN */ AND u.state = 1 /* USER_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */)::bool AS is_active,
    u.password_change_required, u.password_changed, u.generation, u.failed_otp_attempts, u.failed_otp_until,
    s.expiration_date, s.password_verified_at, s.intent_verified_at, s.intent_auth_time, s.idp_id,
    (s.intent_verified_at IS NOT NULL AND EXISTS (
        SELECT FROM idp_links l WHERE l.instance_id = s.instance_id AND l.user_id = s.user_id AND l.idp_id = s.idp_id))::bool AS is_linked,
    s.totp_verified_at, s.otp_sms_verified_at, s.otp_email_verified_at,
    coalesce(f.has_totp, false)::bool AS has_totp, coalesce(f.sms_address, '')::text AS sms_address, coalesce(f.email_address, '')::text AS email_address
FROM sessions s
CROSS JOIN LATERAL (SELECT * FROM users n WHERE n.instance_id = s.instance_id AND n.id = s.user_id LIMIT 1) u
CROSS JOIN LATERAL (SELECT g.state FROM organizations g WHERE g.instance_id = u.instance_id AND g.id = u.org_id LIMIT 1) o
LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
LEFT JOIN LATERAL (
    SELECT bool_or(a.type = 1 /* SECOND_FACTOR_TYPE_TOTP */) AS has_totp, (array_agg(a.address ORDER BY a.creation_date, a.id) FILTER (WHERE a.type = 2 /* SECOND_FACTOR_TYPE_OTP_SMS */))[1] AS sms_address,
        (array_agg(a.address ORDER BY a.creation_date, a.id) FILTER (WHERE a.type = 3 /* SECOND_FACTOR_TYPE_OTP_EMAIL */))[1] AS email_address
    FROM authenticators a WHERE a.instance_id = s.instance_id AND a.user_id = s.user_id AND a.is_verified) f ON true
WHERE s.instance_id = @instance_id AND token_key(s.token_hash) = ANY(@hashes::bytea[]) AND (s.expiration_date IS NULL OR s.expiration_date > @now::timestamptz);

-- name: ExtendSession :exec
-- A session that is used lives on; the time it was extended to says when the next
-- time is due.
UPDATE sessions SET expiration_date = @expiration_date::timestamptz
WHERE instance_id = @instance_id AND id = @id AND expiration_date < @due::timestamptz AND expiration_date > @now::timestamptz;

-- name: LoginCandidates :many
-- Who a name can mean to the login: a login name (1), a username of the default
-- organization (2), a verified e-mail address (3), where it counts, a username that nobody else
-- has where the login is for (4). Only humans who can
-- sign in now, and only where the login is restricted to. One statement for every name,
-- so that it takes the same time (SEC-170).
SELECT named.rank::int AS rank, u.id, u.org_id::text AS org_id, u.display_name, u.preferred_language,
    u.email, u.is_email_verified, u.is_email_proven, u.generation, coalesce(u.password_hash, '')::text AS password_hash, (u.username || coalesce('@' || d.domain, ''))::text AS login_name
FROM (
    SELECT 1 AS rank, n.id FROM users n WHERE n.instance_id = @instance_id AND n.username_folded = @username_folded::text AND n.org_id = (
        SELECT dn.org_id FROM domains dn WHERE dn.instance_id = @instance_id AND dn.domain = @domain::text AND dn.org_id IS NOT NULL AND dn.is_verified)
    UNION ALL
    SELECT 2, n.id FROM users n WHERE n.instance_id = @instance_id AND n.username_folded = @name_folded::text AND n.org_id = @default_org::text
    UNION ALL
    (SELECT 3, n.id FROM users n WHERE n.instance_id = @instance_id AND n.email_folded = @name_folded::text AND n.is_email_verified AND n.email_folded <> ''
        AND (n.is_email_proven OR n.org_id = @only_org::text) LIMIT 2)
    UNION ALL
    (SELECT 4, n.id FROM users n JOIN organizations no ON no.instance_id = n.instance_id AND no.id = n.org_id AND no.state = 1 /* EFFECTIVE_STATE_ACTIVE */
        WHERE n.instance_id = @instance_id AND n.username_folded = @name_folded::text AND n.user_type = 1 /* USER_TYPE_HUMAN */ AND n.state = 1 /* USER_STATE_ACTIVE */
        AND (@only_org::text = '' OR n.org_id = @only_org) LIMIT 2)
) named
JOIN users u ON u.instance_id = @instance_id AND u.id = named.id
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
WHERE u.user_type = 1 /* USER_TYPE_HUMAN */ AND u.state = 1 /* USER_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */
  AND (@only_org::text = '' OR u.org_id = @only_org) AND (@only_user::text = '' OR u.id = @only_user)
ORDER BY named.rank, u.id;

-- name: PutUserCode :exec
-- A newer code voids the one before, of the same browser. Those of others stay, until they
-- have ended.
WITH ended AS (
    DELETE FROM user_codes WHERE instance_id = @instance_id AND user_id = @user_id AND purpose = @purpose AND browser <> @browser AND expiration_date < @now::timestamptz)
INSERT INTO user_codes (instance_id, user_id, purpose, browser, address, salt, hash, attempts, expiration_date)
VALUES (@instance_id, @user_id, @purpose, @browser, @address, @salt, @hash, 0, @expiration_date)
ON CONFLICT ON CONSTRAINT user_codes_pkey DO UPDATE
SET address = excluded.address, salt = excluded.salt, hash = excluded.hash, attempts = 0, expiration_date = excluded.expiration_date;

-- name: TryUserCode :one
-- Counts an attempt before anybody learns whether it was right, so that parallel
-- ones cannot be more than there may be (REL-027). Nodes of the release before name no browser
-- that is not known.
UPDATE user_codes SET attempts = attempts + 1
WHERE instance_id = @instance_id AND user_id = @user_id AND purpose = @purpose AND browser IN (@browser, '') AND expiration_date > @now::timestamptz AND attempts < @attempts_limit::int
RETURNING browser, address, salt, hash;

-- name: UseUserCode :execrows
-- Of parallel uses one deletes the row.
DELETE FROM user_codes WHERE instance_id = @instance_id AND user_id = @user_id AND purpose = @purpose AND browser = @browser AND hash = @hash;

-- name: CodeUser :one
-- Whom a code was made for, as the pages have to know them.
SELECT u.id, u.org_id::text AS org_id, u.state, u.email, u.is_email_verified, u.is_email_proven, u.display_name, u.preferred_language, coalesce(u.password_hash, '')::text AS password_hash,
    (u.username || coalesce('@' || d.domain, ''))::text AS login_name,
    EXISTS (SELECT FROM registrations r WHERE r.instance_id = u.instance_id AND r.user_id = u.id) AS is_registering
FROM users u LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
WHERE u.instance_id = @instance_id AND u.id = @id AND u.user_type = 1 /* USER_TYPE_HUMAN */ AND u.org_id IS NOT NULL;

-- name: Registrations :many
-- Those who registered with an address and have not verified it, in a browser or with no
-- code that ends after a time, and one that is named, but for one who stays. They are locked until
-- the transaction ends. Both rows are locked, so that whose registration has ended meanwhile
-- is not among them.
SELECT u.id, u.org_id::text AS org_id
FROM (
    SELECT n.id FROM users n WHERE n.instance_id = @instance_id AND n.email_folded = @email_folded AND NOT EXISTS (
        SELECT FROM user_codes c WHERE c.instance_id = n.instance_id AND c.user_id = n.id AND c.purpose = 1 /* LOGIN_CODE_VERIFY */
            AND c.expiration_date > @ended::timestamptz AND c.browser <> @browser::text)
    UNION SELECT @replaced::text
) named
JOIN users u ON u.instance_id = @instance_id AND u.id = named.id
JOIN registrations r ON r.instance_id = u.instance_id AND r.user_id = u.id
WHERE u.id <> @kept
ORDER BY u.id FOR UPDATE OF u, r;

-- name: AddRegistration :exec
INSERT INTO registrations (instance_id, user_id) VALUES (@instance_id, @user_id);

-- name: AbandonedRegistration :one
-- Somebody like that whose last code ended before a time, locked; not one whom another
-- node deletes right now.
SELECT u.instance_id, u.id, u.org_id::text AS org_id
FROM user_codes c
JOIN users u ON u.instance_id = c.instance_id AND u.id = c.user_id
JOIN registrations r ON r.instance_id = c.instance_id AND r.user_id = c.user_id
WHERE c.purpose = 1 /* LOGIN_CODE_VERIFY */ AND c.expiration_date < @before::timestamptz
ORDER BY c.expiration_date LIMIT 1 FOR UPDATE OF u, r SKIP LOCKED;

-- name: ReleaseUsername :exec
-- Lets another user have the username of one who is deleted in this transaction.
-- No username is like what it becomes.
UPDATE users SET username_folded = chr(1) || id WHERE instance_id = @instance_id AND id = @id;

-- name: NameIsSomebodys :one
-- Whether somebody has a name that a new user of an organization would be meant by: the username,
-- wherever it is one, or a login name that it makes there.
WITH names AS (
    SELECT @username_folded::text AS name
    UNION ALL
    SELECT @username_folded || '@' || d.domain FROM domains d WHERE d.instance_id = @instance_id AND d.org_id = @org_id::text AND d.is_verified
)
SELECT EXISTS (
    SELECT FROM names CROSS JOIN LATERAL (
        (SELECT n.id FROM users n WHERE n.instance_id = @instance_id AND n.username_folded = names.name LIMIT 1)
        UNION ALL
        (SELECT n.id FROM users n WHERE n.instance_id = @instance_id AND n.email_folded = names.name AND n.is_email_verified LIMIT 1)
    ) has)::bool;

-- name: MoveMessages :exec
-- Messages to an address count, whoever they were for; those of a user who is
-- deleted would not.
UPDATE messages SET user_id = @new_user_id, org_id = @org_id WHERE instance_id = @instance_id AND user_id = @user_id;

-- name: UserOfEmail :one
-- Who has proven an e-mail address; the oldest when there are several. Who only has
-- somebody's word for it keeps nobody from registering.
SELECT id, org_id::text AS org_id, display_name, preferred_language, email FROM users
WHERE instance_id = @instance_id AND email_folded = @email_folded AND is_email_verified AND is_email_proven AND user_type = 1 /* USER_TYPE_HUMAN */
ORDER BY creation_date, id LIMIT 1;

-- name: EndSessionsOfUser :exec
-- All but one.
DELETE FROM sessions WHERE instance_id = @instance_id AND user_id = @user_id::text AND id <> @kept;

-- name: NextGeneration :exec
-- Whatever was issued in the name of a user is no good any more. It comes before the
-- sessions are deleted: whoever begins one holds the user (HoldGeneration), so it is
-- there to be deleted, or is not begun.
UPDATE users SET generation = generation + 1 WHERE instance_id = @instance_id AND id = @id;

-- name: HoldGeneration :one
-- The user a proof was found right for; nobody ends what they are signed in to until the
-- transaction ends. Not FOR SHARE: using a proof up changes the user.
SELECT generation, state FROM users WHERE instance_id = @instance_id AND id = @id FOR NO KEY UPDATE;

-- name: DropResetCodes :exec
DELETE FROM user_codes WHERE instance_id = @instance_id AND user_id = @user_id AND purpose = 2 /* LOGIN_CODE_RESET */;

-- name: RecentMessagesOf :one
-- How many messages of a kind a user got.
SELECT count(*) FROM messages WHERE instance_id = @instance_id AND user_id = @user_id AND template = @template AND creation_date > @since::timestamptz;

-- name: RecentMessagesTo :one
-- How many messages an address got, however it was spelt: of one kind or of all, one
-- user or whomever.
SELECT count(*) FROM messages WHERE instance_id = @instance_id AND creation_date > @since::timestamptz AND lower(recipient) = lower(@recipient::text)
    AND (@template::text = '' OR template = @template) AND (@user_id::text = '' OR user_id = @user_id);
