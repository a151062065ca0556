-- name: OAuthClient :one
-- An application as a client, with what its project says and all of its keys.
SELECT sqlc.embed(a), p.project_role_assertion, p.project_role_check, p.has_project_check,
    (a.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND p.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */)::bool AS active,
    ARRAY(SELECT r.key FROM project_roles r WHERE r.instance_id = a.instance_id AND r.project_id = a.project_id ORDER BY r.key LIMIT 5000)::text[] AS role_keys,
    coalesce((SELECT jsonb_agg(jsonb_build_object('id', k.id, 'key', k.public_key, 'until', k.expiration_date)) FROM app_keys k WHERE k.instance_id = a.instance_id AND k.app_id = a.id), '[]')::jsonb AS keys
FROM apps a
JOIN projects p ON p.instance_id = a.instance_id AND p.id = a.project_id
JOIN organizations o ON o.instance_id = a.instance_id AND o.id = a.org_id
WHERE a.instance_id = @instance_id AND a.client_id = @client_id;

-- name: OAuthOrg :one
-- An active organization, with what login names in it end in.
SELECT o.name, coalesce(d.domain, '')::text AS domain FROM organizations o
LEFT JOIN domains d ON d.instance_id = o.instance_id AND d.org_id = o.id AND d.is_primary
WHERE o.instance_id = @instance_id AND o.id = @id AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */;

-- name: Subjects :many
-- What tokens are about, many at once: lists that belong together, and n is the place in
-- them. Of a question is no row whose user, token, grant or session is not good now; '' is
-- none, and a generation below 0 any. What came from a grant is good in the generation of
-- the user that the grant was made in. Roles are those in the projects that are named, in a
-- text with the unit separator between; metadata is read for all or none.
WITH asked AS (
    SELECT unnest(@ns::int[]) AS n,
        unnest(@instance_ids::text[]) AS instance_id,
        unnest(@user_ids::text[]) AS user_id,
        unnest(@generations::int[]) AS generation,
        unnest(@token_ids::text[]) AS token_id,
        unnest(@grant_ids::text[]) AS grant_id,
        unnest(@session_ids::text[]) AS session_id,
        unnest(@project_lists::text[]) AS projects
)
SELECT q.n::int AS n, sqlc.embed(s), coalesce(g.claims, '{}')::text[] AS claims,
    (CASE WHEN q.projects <> '' THEN (
        SELECT jsonb_agg(jsonb_build_object('project', ug.project_id, 'org', ug.org_id, 'domain', coalesce(d.domain, ''), 'keys', ug.role_keys))
        FROM user_grants ug
        JOIN projects p ON p.instance_id = ug.instance_id AND p.id = ug.project_id AND p.state = 1 /* EFFECTIVE_STATE_ACTIVE */
        LEFT JOIN project_grants pg ON pg.instance_id = ug.instance_id AND pg.id = ug.project_grant_id
        LEFT JOIN domains d ON d.instance_id = ug.instance_id AND d.org_id = ug.org_id AND d.is_primary
        WHERE ug.instance_id = s.instance_id AND ug.user_id = s.id AND ug.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND (ug.project_grant_id IS NULL OR pg.state = 1 /* EFFECTIVE_STATE_ACTIVE */)
          AND ug.project_id = ANY (string_to_array(q.projects, E'\x1f'))) END)::jsonb AS roles,
    (CASE WHEN @with_metadata::bool THEN metadata_of(s.instance_id, s.id) END)::jsonb AS metadata
FROM asked q
JOIN subjects s ON s.instance_id = q.instance_id AND s.id = q.user_id
LEFT JOIN oauth_grants g ON g.instance_id = q.instance_id AND g.id = q.grant_id
LEFT JOIN sessions n ON n.instance_id = q.instance_id AND n.id = q.session_id
LEFT JOIN revoked_tokens t ON t.instance_id = q.instance_id AND t.id = q.token_id
-- Whose they are stands here: in the joins a plan could find them by their user.
WHERE (q.generation < 0 OR s.generation = q.generation) AND t.id IS NULL
  AND (q.grant_id = '' OR g.user_id = s.id AND g.user_generation = s.generation AND NOT g.revoked)
  AND (q.session_id = '' OR n.user_id = s.id AND (n.expiration_date IS NULL OR n.expiration_date > @now::timestamptz));

-- name: GrantSubjects :many
-- Grants that refresh tokens are of, and their users, many at once as Subjects. Their
-- sessions count while they live.
WITH asked AS (
    SELECT unnest(@ns::int[]) AS n,
        unnest(@instance_ids::text[]) AS instance_id, unnest(@user_ids::text[]) AS user_id, unnest(@grant_ids::text[]) AS grant_id
)
SELECT q.n::int AS n, sqlc.embed(s), sqlc.embed(g), coalesce(n.id, '')::text AS live_session_id
FROM asked q
JOIN subjects s ON s.instance_id = q.instance_id AND s.id = q.user_id
JOIN oauth_grants g ON g.instance_id = q.instance_id AND g.id = q.grant_id AND g.user_generation = s.generation AND NOT g.revoked
LEFT JOIN sessions n ON n.instance_id = q.instance_id AND n.id = g.session_id AND (n.expiration_date IS NULL OR n.expiration_date > @now::timestamptz)
WHERE (g.user_id = s.id) IS TRUE; -- not as a condition that a plan could find grants by

-- name: ServiceClients :many
-- The service users that a client ID may mean: a username, which is unique within
-- an organization only, so that the secret decides, or a login name.
SELECT u.id, u.org_id::text AS org_id, u.username, u.generation, u.access_token_type, u.secret_hash, u.old_secret_hash, u.old_secret_until
FROM users u
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
WHERE u.instance_id = @instance_id AND u.user_type = 2 /* USER_TYPE_SERVICE */ AND u.state = 1 /* USER_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND u.secret_hash IS NOT NULL
  AND (u.username_folded = @client_id::text OR u.username_folded = @username::text AND d.domain = @domain::text)
ORDER BY u.id LIMIT 50;

-- name: ServiceKey :one
-- A key of a service user who can act now.
SELECT k.user_id, k.public_key, k.expiration_date, u.org_id::text AS org_id, u.username, u.generation, u.access_token_type
FROM machine_keys k
JOIN users u ON u.instance_id = k.instance_id AND u.id = k.user_id
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE k.instance_id = @instance_id AND k.id = @id AND u.user_type = 2 /* USER_TYPE_SERVICE */ AND u.state = 1 /* USER_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */;

-- name: AddGrants :many
-- Redeems codes, each with its event: of parallel redemptions one makes the row
-- (SEC-033), and is among those that are returned. A code whose proof was wrong
-- makes one that is revoked (SEC-034). None is made below one that was revoked, and none
-- for a user or in a session that has ended since the code was made (SEC-097). Lists that
-- belong together; lists in them are texts with the unit separator between.
WITH asked AS (
    SELECT unnest(@instance_ids::text[]) AS instance_id,
        unnest(@ids::text[]) AS id,
        unnest(@org_ids::text[]) AS org_id,
        unnest(@user_ids::text[]) AS user_id,
        unnest(@user_generations::int[]) AS user_generation,
        unnest(@app_ids::text[]) AS app_id,
        unnest(@session_ids::text[]) AS session_id,
        unnest(@parent_ids::text[]) AS parent_id,
        unnest(@scope_lists::text[]) AS scopes,
        unnest(@audiences::text[]) AS audience,
        unnest(@claim_lists::text[]) AS claims,
        unnest(@auth_times::timestamptz[]) AS auth_time,
        unnest(@amrs::text[]) AS amr,
        unnest(@actors::text[]) AS actor,
        unnest(@origin_lists::text[]) AS origins,
        unnest(@revocations::bool[]) AS revoked,
        unnest(@generations::int[]) AS generation,
        unnest(@idle_dates::timestamptz[]) AS idle_date,
        unnest(@expiration_dates::timestamptz[]) AS expiration_date,
        unnest(@event_types::text[]) AS event_type,
        unnest(@payloads::text[]) AS payload,
        unnest(@client_addresses::text[]) AS client_address,
        unnest(@traceparents::text[]) AS traceparent
), parents AS MATERIALIZED (
    -- The locks make RevokeGrant wait, which then finds the rows.
    SELECT p.instance_id, p.id FROM oauth_grants p
    WHERE (p.instance_id, p.id) IN (SELECT q.instance_id, q.parent_id FROM asked q WHERE q.parent_id <> '') AND NOT p.revoked
    ORDER BY p.instance_id, p.id FOR SHARE
), made AS (
    INSERT INTO oauth_grants (instance_id, id, org_id, user_id, user_generation, app_id, session_id, parent_id, scopes, audience, claims, auth_time, amr, actor, origins, revoked, generation, idle_date, expiration_date, creation_date)
    SELECT q.instance_id, q.id, q.org_id, q.user_id, q.user_generation, q.app_id, nullif(q.session_id, ''), nullif(q.parent_id, ''), string_to_array(q.scopes, E'\x1f'), string_to_array(q.audience, E'\x1f'), string_to_array(q.claims, E'\x1f'),
        q.auth_time, string_to_array(q.amr, E'\x1f'), nullif(q.actor, '')::jsonb, string_to_array(nullif(q.origins, ''), E'\x1f'), q.revoked, q.generation, q.idle_date, q.expiration_date, @now::timestamptz
    FROM asked q
    WHERE q.revoked OR (
        EXISTS (SELECT FROM users u WHERE u.instance_id = q.instance_id AND u.id = q.user_id AND u.generation = q.user_generation AND u.state = 1 /* USER_STATE_ACTIVE */)
        AND (q.session_id = '' OR EXISTS (SELECT FROM sessions s WHERE s.instance_id = q.instance_id AND s.id = q.session_id))
        AND (q.parent_id = '' OR EXISTS (SELECT FROM parents p WHERE p.instance_id = q.instance_id AND p.id = q.parent_id)))
    ON CONFLICT DO NOTHING RETURNING oauth_grants.instance_id, oauth_grants.id, oauth_grants.revoked
), recorded AS (
    INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
    SELECT m.instance_id, 'oidc_session', m.id, a.event_type, a.payload::jsonb, a.user_id, 3 /* OWNER_TYPE_ORG */, a.org_id, @now::timestamptz, a.client_address, a.traceparent
    FROM made m JOIN asked a ON a.instance_id = m.instance_id AND a.id = m.id AND a.revoked = m.revoked
)
SELECT made.instance_id, made.id, made.revoked FROM made;

-- name: RotateGrants :many
-- Uses refresh tokens, each with its event: of parallel uses one changes the row
-- (SEC-091), and is among those that are returned. Lists that belong together.
WITH asked AS (
    SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@ids::text[]) AS id, unnest(@generations::int[]) AS generation, unnest(@unused_untils::timestamptz[]) AS unused_until, unnest(@payloads::text[]) AS payload,
        unnest(@client_addresses::text[]) AS client_address, unnest(@traceparents::text[]) AS traceparent
), locked AS MATERIALIZED (
    SELECT g.instance_id, g.id, q.generation FROM asked q
    JOIN oauth_grants g ON g.instance_id = q.instance_id AND g.id = q.id AND g.generation = q.generation AND NOT g.revoked
    ORDER BY g.instance_id, g.id FOR UPDATE OF g
), rotated AS (
    UPDATE oauth_grants g SET generation = g.generation + 1, idle_date = least(q.unused_until, g.expiration_date)
    FROM asked q JOIN locked l ON l.instance_id = q.instance_id AND l.id = q.id AND l.generation = q.generation
    WHERE g.instance_id = q.instance_id AND g.id = q.id AND g.generation = q.generation AND NOT g.revoked
      AND EXISTS (SELECT FROM users u WHERE u.instance_id = g.instance_id AND u.id = g.user_id AND u.generation = g.user_generation AND u.state = 1 /* USER_STATE_ACTIVE */)
    RETURNING g.instance_id, g.id, g.org_id, g.user_id, q.payload, q.client_address, q.traceparent
), recorded AS (
    INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
    SELECT r.instance_id, 'oidc_session', r.id, @event_type::text, r.payload::jsonb, r.user_id, 3 /* OWNER_TYPE_ORG */, r.org_id, @now::timestamptz, r.client_address, r.traceparent FROM rotated r
)
SELECT rotated.instance_id, rotated.id FROM rotated;

-- name: RevokeGrant :one
-- Ends all that came from a code, and from exchanges of that, with the events. A
-- grant of another application is not touched, unless none is named. It returns how
-- many ended, and whether any was for an audience. Rows of grants are locked in the order of
-- their instance and ID, by every statement that locks several: first, and then changed.
WITH RECURSIVE family AS (
    SELECT g.id FROM oauth_grants g WHERE g.instance_id = @instance_id AND g.id = @id AND (@app_id::text = '' OR g.app_id = @app_id)
    UNION
    SELECT g.id FROM family f JOIN oauth_grants g ON g.instance_id = @instance_id AND g.parent_id = f.id
), locked AS MATERIALIZED (
    SELECT g.instance_id, g.id FROM oauth_grants g
    WHERE g.instance_id = @instance_id AND g.id IN (SELECT f.id FROM family f) AND NOT g.revoked
    ORDER BY g.instance_id, g.id FOR UPDATE
), revoked AS (
    UPDATE oauth_grants g SET revoked = true FROM locked l
    WHERE g.instance_id = l.instance_id AND g.id = l.id AND NOT g.revoked
    RETURNING g.instance_id, g.id, g.org_id, g.user_id, g.audience
), recorded AS (
    INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
    SELECT r.instance_id, 'oidc_session', r.id, @event_type::text, @payload::jsonb, r.user_id, 3 /* OWNER_TYPE_ORG */, r.org_id, @now::timestamptz, @client_address, @traceparent FROM revoked r
)
SELECT count(*) AS revoked, coalesce(bool_or(@audience::text = ANY (r.audience)), false)::bool AS has_audience FROM revoked r;

-- name: GrantUsedBefore :one
-- Whether a code had been redeemed by a time, or the refresh token of a generation used: one
-- that was used first later is no replay. An event of a use that is there no more is old.
SELECT EXISTS (SELECT FROM oauth_grants g WHERE g.instance_id = @instance_id AND g.id = @id AND g.creation_date <= @by::timestamptz
    AND (@generation::int = 0 OR g.generation > @generation AND NOT EXISTS (SELECT FROM events e
        WHERE e.instance_id = @instance_id AND e.aggregate_type = 'oidc_session' AND e.aggregate_id = @id AND e.event_type = @event_type::text
          AND e.payload = @payload::jsonb AND e.created_at > @by)))::bool;

-- name: RevokeTokens :exec
-- Ends access tokens, each with its event: lists that belong together.
WITH asked AS (
    SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@ids::text[]) AS id, unnest(@expiration_dates::timestamptz[]) AS expiration_date,
        unnest(@user_ids::text[]) AS user_id, unnest(@payloads::text[]) AS payload, unnest(@client_addresses::text[]) AS client_address, unnest(@traceparents::text[]) AS traceparent
), revoked AS (
    INSERT INTO revoked_tokens (instance_id, id, expiration_date) SELECT DISTINCT ON (q.instance_id, q.id) q.instance_id, q.id, q.expiration_date FROM asked q ORDER BY q.instance_id, q.id
    ON CONFLICT DO NOTHING RETURNING revoked_tokens.instance_id, revoked_tokens.id
)
INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
SELECT a.instance_id, 'oidc_session', a.id, @event_type::text, a.payload::jsonb, a.user_id, 3 /* OWNER_TYPE_ORG */,
    coalesce((SELECT u.org_id FROM users u WHERE u.instance_id = a.instance_id AND u.id = a.user_id), ''), @now::timestamptz, a.client_address, a.traceparent
FROM asked a JOIN revoked r ON r.instance_id = a.instance_id AND r.id = a.id;

-- name: UseAssertion :execrows
-- An assertion is good once (SEC-057).
INSERT INTO used_assertions (instance_id, hash, expiration_date) VALUES (@instance_id, @hash, @expiration_date) ON CONFLICT DO NOTHING;

-- name: ProjectsFor :many
-- Which of the projects a client of an organization may have tokens for: active
-- ones of its organization, and ones that are granted to it.
SELECT p.id FROM projects p WHERE p.instance_id = @instance_id AND p.id = ANY (@ids::text[]) AND p.state = 1 /* EFFECTIVE_STATE_ACTIVE */
  AND (p.org_id = @org_id::text OR EXISTS (SELECT FROM project_grants g WHERE g.instance_id = p.instance_id AND g.project_id = p.id AND g.granted_org_id = @org_id AND g.state = 1 /* EFFECTIVE_STATE_ACTIVE */));

-- name: MayUseProject :one
-- Whether a user may sign in to the applications of a project: with a role in it,
-- where the project asks for one, and of an organization that has the project,
-- where it asks for that.
SELECT ((NOT @role_check::bool OR EXISTS (
        SELECT FROM user_grants ug LEFT JOIN project_grants pg ON pg.instance_id = ug.instance_id AND pg.id = ug.project_grant_id
        WHERE ug.instance_id = @instance_id AND ug.user_id = @user_id AND ug.project_id = @project_id AND ug.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND (ug.project_grant_id IS NULL OR pg.state = 1 /* EFFECTIVE_STATE_ACTIVE */)))
  AND (NOT @project_check::bool OR EXISTS (SELECT FROM projects p WHERE p.instance_id = @instance_id AND p.id = @project_id AND p.org_id = @org_id::text)
     OR EXISTS (SELECT FROM project_grants g WHERE g.instance_id = @instance_id AND g.project_id = @project_id AND g.granted_org_id = @org_id AND g.state = 1 /* EFFECTIVE_STATE_ACTIVE */)))::bool;

-- name: TokenOwner :one
-- The user of a personal access token, if both are good now, and whether a client knows
-- them: of their organization, or of a project that they have roles in by the word of
-- their own organization. Being given a role by others, unasked, shows them nothing.
SELECT t.id, t.user_id, t.expiration_date, t.creation_date, u.username,
    (u.org_id = @org_id::text OR EXISTS (
        SELECT FROM user_grants ug WHERE ug.instance_id = u.instance_id AND ug.user_id = u.id AND ug.project_id = @project_id::text AND ug.org_id = u.org_id AND ug.state = 1 /* EFFECTIVE_STATE_ACTIVE */))::bool AS is_known
FROM personal_access_tokens t
JOIN users u ON u.instance_id = t.instance_id AND u.id = t.user_id
JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE t.instance_id = @instance_id AND t.token_hash = @token_hash AND u.state = 1 /* USER_STATE_ACTIVE */ AND o.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND (t.expiration_date IS NULL OR t.expiration_date > @now::timestamptz);

-- name: OriginAllowed :one
-- Whether some client of the instance is served from an origin.
SELECT EXISTS (SELECT FROM apps WHERE instance_id = @instance_id AND web_origins(redirect_uris, additional_origins) @> ARRAY[@origin::text] AND state = 1 /* EFFECTIVE_STATE_ACTIVE */)::bool;

-- name: SweepGrants :execrows
DELETE FROM oauth_grants g WHERE (g.instance_id, g.id) IN (
    SELECT o.instance_id, o.id FROM oauth_grants o WHERE o.expiration_date < @before::timestamptz LIMIT @batch::int FOR UPDATE SKIP LOCKED);

-- name: SweepRevoked :execrows
-- What came of a revoked token is revoked itself before that is forgotten.
WITH gone AS (
    DELETE FROM revoked_tokens t WHERE (t.instance_id, t.id) IN (
        SELECT o.instance_id, o.id FROM revoked_tokens o WHERE o.expiration_date < @before::timestamptz LIMIT @batch::int)
    RETURNING t.instance_id, t.id
), locked AS MATERIALIZED (
    SELECT g.instance_id, g.id FROM gone
    JOIN oauth_grants g ON g.instance_id = gone.instance_id AND g.origins @> ARRAY[gone.id] AND g.origins IS NOT NULL AND NOT g.revoked
    ORDER BY g.instance_id, g.id FOR UPDATE OF g
), ended AS (
    UPDATE oauth_grants g SET revoked = true FROM locked l WHERE g.instance_id = l.instance_id AND g.id = l.id
)
SELECT gone.id FROM gone;

-- name: OriginsEnded :one
-- Whether any of some tokens was revoked, or the grant it came from, or the user it was
-- issued to has ended it; user_ids and generations are lists that belong together.
SELECT (EXISTS (SELECT FROM revoked_tokens t WHERE t.instance_id = @instance_id AND t.id = ANY (@ids::text[]))
    OR EXISTS (
        SELECT FROM unnest(@grant_ids::text[]) AS o (id)
        LEFT JOIN oauth_grants g ON g.instance_id = @instance_id AND g.id = o.id
        LEFT JOIN users u ON u.instance_id = g.instance_id AND u.id = g.user_id
        WHERE g.id IS NULL OR g.revoked OR u.id IS NULL OR u.state <> 1 /* USER_STATE_ACTIVE */ OR u.generation <> g.user_generation)
    OR EXISTS (
        SELECT FROM (SELECT unnest(@user_ids::text[]) AS id, unnest(@generations::int[]) AS generation) o
        LEFT JOIN users u ON u.instance_id = @instance_id AND u.id = o.id
        WHERE u.id IS NULL OR u.state <> 1 /* USER_STATE_ACTIVE */ OR u.generation <> o.generation))::bool;

-- name: SweepAssertions :execrows
DELETE FROM used_assertions a WHERE (a.instance_id, a.hash) IN (
    SELECT o.instance_id, o.hash FROM used_assertions o WHERE o.expiration_date < @before::timestamptz LIMIT @batch::int);

-- name: FunctionFacts :one
-- What functions are told of a user beside the subject of a token.
SELECT u.creation_date,
    coalesce((SELECT jsonb_agg(jsonb_build_object('key', m.id, 'value', translate(encode(m.value, 'base64'), E'\n', ''))) FROM (
        SELECT m.id, m.value FROM user_metadata m WHERE m.instance_id = u.instance_id AND m.user_id = u.id ORDER BY m.id LIMIT 1000) m), '[]')::jsonb AS metadata,
    coalesce((SELECT jsonb_agg(jsonb_build_object('id', g.id, 'org_id', g.org_id, 'project_id', g.project_id, 'project_grant_id', coalesce(g.project_grant_id, ''), 'roles', g.role_keys)) FROM (
        SELECT g.* FROM user_grants g
        JOIN projects p ON p.instance_id = g.instance_id AND p.id = g.project_id AND p.state = 1 /* EFFECTIVE_STATE_ACTIVE */
        LEFT JOIN project_grants pg ON pg.instance_id = g.instance_id AND pg.id = g.project_grant_id
        WHERE g.instance_id = u.instance_id AND g.user_id = u.id AND g.state = 1 /* EFFECTIVE_STATE_ACTIVE */ AND (g.project_grant_id IS NULL OR pg.state = 1 /* EFFECTIVE_STATE_ACTIVE */)
        ORDER BY g.id LIMIT 1000) g), '[]')::jsonb AS grants
FROM users u WHERE u.instance_id = @instance_id AND u.id = @user_id;
