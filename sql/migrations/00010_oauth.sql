-- +goose Up
-- What the OpenID provider needs beside keys, apps and sessions.

-- The standard claims of OpenID Connect (Core, section 5.1) that users lacked.
ALTER TABLE users
    ADD COLUMN middle_name text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN profile_url text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN picture_url text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN website_url text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN gender text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN birthdate text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN zoneinfo text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN street_address text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN locality text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN region text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN postal_code text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN country text COLLATE "C" NOT NULL DEFAULT '';

-- Whether people may register themselves at the login.
ALTER TABLE instances ADD COLUMN allow_registration boolean NOT NULL DEFAULT false;

-- The keys that opaque tokens of an instance are sealed with: 256 random bits,
-- themselves sealed by the master key. The newest seals, all open.
CREATE TABLE token_keys (
    instance_id   text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    number        smallint NOT NULL CHECK (number BETWEEN 1 AND 255),
    secret        bytea NOT NULL,
    creation_date timestamptz NOT NULL,
    CONSTRAINT token_keys_pkey PRIMARY KEY (instance_id, number)
);

-- What a login gave a client: the family of tokens that came from one code. Its ID
-- is that of the code, so that the primary key decides which redemption is the
-- first (SEC-033). There are no foreign keys: each login would lock the row of its
-- application, for nothing, as whoever reads a grant asks whether what it names is
-- still there, and IDs are never given again. A session that ends leaves refresh tokens good (offline access)
-- and takes the access tokens that were issued in it along.
CREATE TABLE oauth_grants (
    instance_id     text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    org_id          text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    app_id          text COLLATE "C" NOT NULL,
    session_id      text COLLATE "C",
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

-- Nothing is kept of the logins of users who are gone.
-- +goose StatementBegin
CREATE FUNCTION forget_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM oauth_grants g USING gone_rows u WHERE g.instance_id = u.instance_id AND g.user_id = u.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER users_grants_gone AFTER DELETE ON users REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION forget_grants();

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

-- A code that was sent to a user and can be used once: to verify the e-mail
-- address it went to (1), or to set a new password (2). A newer one takes the
-- place of the one before (SEC-172).
CREATE TABLE user_codes (
    instance_id     text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    purpose         smallint NOT NULL CHECK (purpose IN (1, 2)),
    address         text COLLATE "C" NOT NULL,
    salt            bytea NOT NULL,
    hash            bytea NOT NULL,
    attempts        integer NOT NULL,
    expiration_date timestamptz NOT NULL,
    CONSTRAINT user_codes_pkey PRIMARY KEY (instance_id, user_id, purpose),
    CONSTRAINT user_codes_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);

-- The origins of browsers that may call the endpoints on behalf of a client: those
-- of its redirect URIs on the web, and those it names (package redirect, Origin).
-- +goose StatementBegin
CREATE FUNCTION web_origins(uris text[], origins text[]) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT regexp_replace(regexp_replace(lower(substring(uri FROM '^[hH][tT][tT][pP][sS]?://[^/?#]+')), '^(https://.*):443$', '\1'), '^(http://.*):80$', '\1') COLLATE "C"), '{}')
    FROM unnest(uris || origins) AS uri WHERE uri ~* '^https?://[^/?#*]+(/|\?|$)'
$$;
-- +goose StatementEnd
CREATE INDEX apps_by_origin ON apps USING gin (web_origins(redirect_uris, additional_origins));

-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
