-- name: LinkableIDP :one
-- The provider of an ID that users of an organization can have: one of theirs, their
-- instance or the system; and which of these it is.
SELECT p.instance_id FROM idps p
WHERE p.id = @id AND p.instance_id IN ('', @instance_id) AND (p.org_id IS NULL OR p.org_id = @org_id::text)
ORDER BY p.instance_id DESC LIMIT 1;

-- name: LinkedUser :one
-- Whom an account at a provider signs in, if they are people. Whether they may is asked of
-- their session.
SELECT l.id AS link_id, l.external_username, u.id, u.org_id::text AS org_id, u.state, o.state AS org_state, u.generation, u.email,
    (u.username || coalesce('@' || d.domain, ''))::text AS login_name,
    EXISTS (SELECT FROM registrations r WHERE r.instance_id = u.instance_id AND r.user_id = u.id) AS is_registering
FROM idp_links l
JOIN users u ON u.instance_id = l.instance_id AND u.id = l.user_id
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
WHERE l.instance_id = @instance_id AND l.idp_id = @idp_id AND l.external_user_id = @external_user_id AND u.user_type = 1 /* USER_TYPE_HUMAN */;

-- name: HoldLink :one
-- The link by which a user signs in; nobody removes it until the transaction ends.
SELECT id FROM idp_links
WHERE instance_id = @instance_id AND idp_id = @idp_id AND external_user_id = @external_user_id AND user_id = @user_id FOR SHARE;

-- name: LinkCandidates :many
-- Whom somebody at an identity provider may be: who has proven the same address, or has the
-- same username in an organization. Only humans who can sign in now.
SELECT u.id, u.org_id::text AS org_id, (u.username || coalesce('@' || d.domain, ''))::text AS login_name
FROM users u
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
WHERE u.instance_id = @instance_id AND u.user_type = 1 /* USER_TYPE_HUMAN */ AND u.state = 1 /* USER_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */
  AND (@only_org::text = '' OR u.org_id = @only_org) AND (@only_user::text = '' OR u.id = @only_user)
  AND (u.email_folded = @email_folded::text AND u.email_folded <> '' AND u.is_email_verified AND (u.is_email_proven OR u.org_id = @only_org)
    OR @username_folded::text <> '' AND u.username_folded = @username_folded AND u.org_id = @default_org::text)
ORDER BY u.id LIMIT 2;

-- name: TakeIDP :exec
-- Keeps new links to a provider waiting until the transaction ends.
SELECT FROM idps WHERE instance_id = @instance_id AND id = @id FOR UPDATE;

-- name: HasLinks :one
SELECT EXISTS (SELECT FROM idp_links l WHERE l.idp_instance_id = @idp_instance_id AND l.idp_id = @idp_id)::bool AS has;
