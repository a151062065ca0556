-- name: AppConsent :one
-- What a user handed over to an application at the resource API, and whether the
-- settings leave roles to applications that are trusted: what is said above is not loosened below.
-- There is always a row.
SELECT coalesce(c.roles, '{}')::text[] AS roles, c.creation_date,
    coalesce((SELECT bool_or((s.properties -> 'rolesNeedTrust' ->> 'value')::bool) FROM settings s
        WHERE s.instance_id IN (@instance_id::text, '') AND s.org_id IN (@org_id::text, '') AND s.subject = 'applications'), false)::bool AS roles_need_trust
FROM (SELECT) one
LEFT JOIN app_consents c ON c.instance_id = @instance_id AND c.user_id = @user_id AND c.app_id = @app_id;

-- name: RolesInOrganization :many
-- The roles that a user holds in an organization, with the name of what each is held on.
SELECT m.object_id, m.roles, coalesce(p.name, o.name)::text AS place
FROM memberships m
JOIN organizations o ON o.instance_id = m.instance_id AND o.id = m.org_id
LEFT JOIN projects p ON p.instance_id = m.instance_id AND p.id = m.project_id
WHERE m.instance_id = @instance_id AND m.user_id = @user_id AND m.org_id = @org_id::text
ORDER BY m.level, m.object_id;

-- name: GiveConsent :exec
-- What was issued since the first time is good still.
INSERT INTO app_consents (instance_id, user_id, app_id, roles, creation_date) VALUES (@instance_id, @user_id, @app_id, @roles, @now::timestamptz)
ON CONFLICT ON CONSTRAINT app_consents_pkey DO UPDATE SET roles = excluded.roles;

-- name: ConsentsOfUser :many
SELECT c.app_id, a.name, a.client_id, c.roles, c.creation_date FROM app_consents c
JOIN apps a ON a.instance_id = c.instance_id AND a.id = c.app_id
WHERE c.instance_id = @instance_id AND c.user_id = @user_id ORDER BY c.creation_date, c.app_id LIMIT 1000;

-- name: TakeConsentBack :execrows
DELETE FROM app_consents WHERE instance_id = @instance_id AND user_id = @user_id AND app_id = @app_id;

-- name: RevokeConsented :many
-- Ends the families of tokens that an application got for a user and an audience, with the
-- events, in the order of locks of RevokeGrant.
WITH RECURSIVE family AS (
    SELECT g.id FROM oauth_grants g WHERE g.instance_id = @instance_id AND g.user_id = @user_id AND g.app_id = @app_id AND @audience::text = ANY (g.audience)
    UNION
    SELECT g.id FROM family f JOIN oauth_grants g ON g.instance_id = @instance_id AND g.parent_id = f.id
), locked AS MATERIALIZED (
    SELECT g.instance_id, g.id FROM oauth_grants g WHERE g.instance_id = @instance_id AND g.id IN (SELECT f.id FROM family f) AND NOT g.revoked
    ORDER BY g.instance_id, g.id FOR UPDATE
), revoked AS (
    UPDATE oauth_grants g SET revoked = true FROM locked l WHERE g.instance_id = l.instance_id AND g.id = l.id
    RETURNING g.instance_id, g.id, g.org_id, g.user_id
), recorded AS (
    INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
    SELECT r.instance_id, 'oidc_session', r.id, @event_type::text, @payload::jsonb, @creator::text, 3 /* OWNER_TYPE_ORG */, r.org_id, @now::timestamptz, @client_address, @traceparent FROM revoked r
)
SELECT revoked.id FROM revoked;
