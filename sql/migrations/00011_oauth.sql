-- +goose Up
-- What a login gave a client: the family of tokens that came from one code. Its ID
-- is that of the code, so that the primary key decides which redemption is the
-- first (SEC-033). There are no foreign keys: each login would lock the row of its
-- application, for nothing, as whoever reads a grant asks whether what it names is
-- still there, and IDs are never given again. A session that ends leaves refresh tokens
-- good (offline access) and takes the access tokens that were issued in it along.
CREATE TABLE oauth_grants (
    instance_id     text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    org_id          text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    app_id          text COLLATE "C" NOT NULL,
    session_id      text COLLATE "C",
    -- users.generation when it was made: it is good in that one only.
    user_generation integer NOT NULL DEFAULT 0,
    -- The grant that a token exchange began with, and the tokens that were exchanged for
    -- it: it ends with each of them (RFC 8693).
    parent_id       text COLLATE "C",
    origins         text[] COLLATE "C",
    scopes          text[] COLLATE "C" NOT NULL,
    audience        text[] COLLATE "C" NOT NULL,
    auth_time       timestamptz NOT NULL,
    amr             text[] COLLATE "C" NOT NULL,
    -- The claims that were asked for by name, as place:name (OpenID Connect Core,
    -- section 5.5).
    claims          text[] COLLATE "C" NOT NULL,
    -- Who acts in the name of the user (RFC 8693, section 4.1), as the claim act.
    actor           jsonb,
    revoked         boolean NOT NULL,
    -- The number of the refresh token that is good; 0: there is none.
    generation      integer NOT NULL,
    idle_date       timestamptz NOT NULL,
    expiration_date timestamptz NOT NULL,
    creation_date   timestamptz NOT NULL,
    CONSTRAINT oauth_grants_pkey PRIMARY KEY (instance_id, id)
) WITH (fillfactor = 80); -- a refresh changes no index
CREATE INDEX oauth_grants_by_user ON oauth_grants (instance_id, user_id);
CREATE INDEX oauth_grants_by_expiration_date ON oauth_grants (expiration_date);
CREATE INDEX oauth_grants_by_parent ON oauth_grants (instance_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX oauth_grants_by_origin ON oauth_grants USING gin (origins) WHERE origins IS NOT NULL;

-- Access tokens that were revoked before their time, by their IDs (SEC-079).
CREATE TABLE revoked_tokens (
    instance_id     text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    expiration_date timestamptz NOT NULL,
    CONSTRAINT revoked_tokens_pkey PRIMARY KEY (instance_id, id)
);
CREATE INDEX revoked_tokens_by_expiration_date ON revoked_tokens (expiration_date);

-- Assertions that were used, by the hash of issuer and jti (SEC-057).
CREATE TABLE used_assertions (
    instance_id     text COLLATE "C" NOT NULL,
    hash            bytea NOT NULL,
    expiration_date timestamptz NOT NULL,
    CONSTRAINT used_assertions_pkey PRIMARY KEY (instance_id, hash)
);
CREATE INDEX used_assertions_by_expiration_date ON used_assertions (expiration_date);

-- Whom tokens are about, if they can be about them now: what is told of users, and
-- nothing that only the server may know.
CREATE VIEW subjects AS
SELECT instance_id, id, coalesce(org_id, '')::text AS org_id, user_type, username, generation,
    given_name, family_name, middle_name, nick_name, display_name, preferred_language, profile_url, picture_url, website_url,
    gender, birthdate, zoneinfo, street_address, locality, region, postal_code, country,
    email, is_email_verified, is_email_proven, phone, is_phone_verified, change_date
FROM users WHERE state = 1;

-- What some tokens tell beside. Functions of plpgsql, because what a statement may read it
-- sets up whether it reads it or not: these cost where they are called, nothing elsewhere.
-- +goose StatementBegin
CREATE FUNCTION roles_of(instance text, of_user text, projects text[]) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((
        SELECT jsonb_agg(jsonb_build_object('project', ug.project_id, 'org', ug.org_id, 'domain', coalesce(d.domain, ''), 'keys', ug.role_keys))
        FROM user_grants ug
        JOIN projects p ON p.instance_id = ug.instance_id AND p.id = ug.project_id AND p.state = 1
        LEFT JOIN project_grants pg ON pg.instance_id = ug.instance_id AND pg.id = ug.project_grant_id
        LEFT JOIN domains d ON d.instance_id = ug.instance_id AND d.org_id = ug.org_id AND d.is_primary
        WHERE ug.instance_id = instance AND ug.user_id = of_user AND ug.state = 1 AND (ug.project_grant_id IS NULL OR pg.state = 1)
          AND ug.project_id = ANY (projects)), '[]');
END
$$;
CREATE FUNCTION metadata_of(instance text, of_user text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT jsonb_object_agg(m.id, translate(encode(m.value, 'base64'), E'+/=\n', '-_'))
        FROM user_metadata m WHERE m.instance_id = instance AND m.user_id = of_user);
END
$$;
-- +goose StatementEnd
