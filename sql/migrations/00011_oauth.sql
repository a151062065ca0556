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
