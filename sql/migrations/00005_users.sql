-- +goose Up
CREATE TABLE user_schemas (
    instance_id             text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id                      text COLLATE "C" NOT NULL,
    type                    text COLLATE "C" NOT NULL,
    type_folded             text COLLATE "C" NOT NULL,
    schema                  jsonb NOT NULL,
    revision                integer NOT NULL,
    possible_authenticators smallint[] NOT NULL,
    state                   smallint NOT NULL,
    sequence                bigint NOT NULL,
    creation_date           timestamptz NOT NULL,
    change_date             timestamptz NOT NULL,
    CONSTRAINT user_schemas_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT user_schemas_type_key UNIQUE (instance_id, type)
);
CREATE INDEX user_schemas_by_creation_date ON user_schemas (instance_id, creation_date, id);
CREATE TRIGGER user_schemas_counted AFTER INSERT ON user_schemas
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER user_schemas_uncounted AFTER DELETE ON user_schemas
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- Users stay on the revision their data was checked with.
CREATE TABLE user_schema_revisions (
    instance_id text COLLATE "C" NOT NULL,
    schema_id   text COLLATE "C" NOT NULL,
    revision    integer NOT NULL,
    schema      jsonb NOT NULL,
    CONSTRAINT user_schema_revisions_pkey PRIMARY KEY (instance_id, schema_id, revision),
    CONSTRAINT user_schema_revisions_schema_fkey FOREIGN KEY (instance_id, schema_id) REFERENCES user_schemas ON DELETE CASCADE
);

-- Users of an instance belong to an organization; users of the system (instance_id
-- '', org_id null) to none. A login name is username@primary domain of the
-- organization and never stored: changing the primary domain changes them all at once.
CREATE TABLE users (
    instance_id              text COLLATE "C" NOT NULL,
    id                       text COLLATE "C" NOT NULL,
    org_id                   text COLLATE "C",
    user_type                smallint NOT NULL,
    state                    smallint NOT NULL DEFAULT 1,
    username                 text COLLATE "C" NOT NULL,
    username_folded          text COLLATE "C" NOT NULL,
    -- Of people: the standard claims of OpenID Connect (Core, section 5.1).
    given_name               text COLLATE "C" NOT NULL DEFAULT '',
    family_name              text COLLATE "C" NOT NULL DEFAULT '',
    middle_name              text COLLATE "C" NOT NULL DEFAULT '',
    nick_name                text COLLATE "C" NOT NULL DEFAULT '',
    display_name             text COLLATE "C" NOT NULL DEFAULT '',
    display_name_folded      text COLLATE "C" NOT NULL DEFAULT '',
    preferred_language       text COLLATE "C" NOT NULL DEFAULT '',
    profile_url              text COLLATE "C" NOT NULL DEFAULT '',
    picture_url              text COLLATE "C" NOT NULL DEFAULT '',
    website_url              text COLLATE "C" NOT NULL DEFAULT '',
    gender                   text COLLATE "C" NOT NULL DEFAULT '',
    birthdate                text COLLATE "C" NOT NULL DEFAULT '',
    zoneinfo                 text COLLATE "C" NOT NULL DEFAULT '',
    street_address           text COLLATE "C" NOT NULL DEFAULT '',
    locality                 text COLLATE "C" NOT NULL DEFAULT '',
    region                   text COLLATE "C" NOT NULL DEFAULT '',
    postal_code              text COLLATE "C" NOT NULL DEFAULT '',
    country                  text COLLATE "C" NOT NULL DEFAULT '',
    email                    text COLLATE "C" NOT NULL DEFAULT '',
    email_folded             text COLLATE "C" NOT NULL DEFAULT '',
    is_email_verified        boolean NOT NULL DEFAULT false,
    -- Whether a verified address counts in the whole instance: its user read a code
    -- there, or who vouches for it has a say there, or over its domain. The word of
    -- somebody else counts in the user's own organization (SEC-174).
    is_email_proven          boolean NOT NULL DEFAULT false,
    phone                    text COLLATE "C" NOT NULL DEFAULT '',
    is_phone_verified        boolean NOT NULL DEFAULT false,
    password_hash            text COLLATE "C",
    password_changed         timestamptz,
    password_change_required boolean NOT NULL DEFAULT false,
    -- Failed checks are counted on the user, so that neither another name, session or
    -- factor nor starting again gives more tries (SEC-174, SEC-175). Passwords and
    -- second factors have a count each, in a period that ends by itself: nobody can
    -- keep a user out for good (SEC-177).
    failed_password_attempts integer NOT NULL DEFAULT 0,
    failed_password_until    timestamptz NOT NULL DEFAULT 'epoch',
    failed_otp_attempts      integer NOT NULL DEFAULT 0,
    failed_otp_until         timestamptz NOT NULL DEFAULT 'epoch',
    -- How often everything that a user was signed in to was ended: by another password,
    -- a factor or a credential that was removed, a lock, a deactivation (package
    -- signout). What was issued before names the generation it was issued in and is good
    -- in that one only, however late it is written: no statement that ends things has to
    -- find what others are about to add (SEC-097).
    generation               integer NOT NULL DEFAULT 0,
    -- Of service users. Access tokens: 1 opaque, 2 JWT, as in the contract.
    description              text COLLATE "C" NOT NULL DEFAULT '',
    access_token_type        smallint NOT NULL DEFAULT 1,
    -- SHA-256 of the client secret, and of the one before it while both are good.
    secret_hash              bytea,
    old_secret_hash          bytea,
    old_secret_until         timestamptz,
    schema_id                text COLLATE "C",
    schema_revision          integer NOT NULL DEFAULT 0,
    data                     jsonb,
    sequence                 bigint NOT NULL,
    creation_date            timestamptz NOT NULL,
    change_date              timestamptz NOT NULL,
    CONSTRAINT users_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT users_username_key UNIQUE NULLS NOT DISTINCT (instance_id, org_id, username_folded),
    CONSTRAINT users_org_check CHECK ((org_id IS NULL) = (instance_id = '')),
    CONSTRAINT users_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE,
    -- No cascade: a schema that users have stays. The deletion of an instance, with
    -- which both go, checks this when it is done.
    CONSTRAINT users_schema_fkey FOREIGN KEY (instance_id, schema_id) REFERENCES user_schemas DEFERRABLE INITIALLY IMMEDIATE
);
CREATE INDEX users_by_creation_date ON users (instance_id, creation_date, id);
CREATE INDEX users_by_change_date ON users (instance_id, change_date, id);
CREATE INDEX users_by_username ON users (instance_id, username, id);
CREATE INDEX users_by_username_folded ON users (instance_id, username_folded, id);
CREATE INDEX users_by_email ON users (instance_id, email, id);
CREATE INDEX users_by_email_folded ON users (instance_id, email_folded, id);
-- E-mail addresses are looked for by their domain; all trigrams of one are common.
CREATE INDEX users_by_email_end ON users (instance_id, reverse(email_folded), id);
CREATE INDEX users_by_display_name ON users (instance_id, display_name, id);
CREATE INDEX users_by_display_name_folded ON users (instance_id, display_name_folded, id);
-- Not partial: a condition with LIKE does not imply phone <> ''.
CREATE INDEX users_by_phone ON users (instance_id, phone, id);
CREATE INDEX users_by_org ON users (instance_id, org_id, creation_date, id);
CREATE INDEX users_by_state ON users (instance_id, state, id);
CREATE INDEX users_by_type ON users (instance_id, user_type, id);
CREATE INDEX users_by_schema ON users (instance_id, schema_id) WHERE schema_id IS NOT NULL;
CREATE INDEX users_username_trigrams ON users USING gin (username_folded gin_trgm_ops);
CREATE INDEX users_email_trigrams ON users USING gin (email_folded gin_trgm_ops);
CREATE INDEX users_display_name_trigrams ON users USING gin (display_name_folded gin_trgm_ops);
CREATE INDEX users_phone_trigrams ON users USING gin (phone gin_trgm_ops);
-- Finds, for a name that nobody has, somebody whose password is compared instead, so
-- that it takes as long as for a name that somebody has (SEC-170).
CREATE INDEX users_password_decoy ON users (instance_id, hashtextextended(id, 0)) WHERE password_hash IS NOT NULL;
CREATE TRIGGER users_counted AFTER INSERT ON users
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER users_uncounted AFTER DELETE ON users
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER users_values_counted AFTER INSERT ON users
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_values('state', 'user_type', 'org_id');
CREATE TRIGGER users_values_uncounted AFTER DELETE ON users
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_values('state', 'user_type', 'org_id');
CREATE TRIGGER users_state_recounted AFTER UPDATE OF state ON users
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION recount_value('state');

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

-- Who registered and has not verified their address yet: inactive users, whom another one
-- who registers with the address replaces.
CREATE TABLE registrations (
    instance_id text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    CONSTRAINT registrations_pkey PRIMARY KEY (instance_id, user_id),
    CONSTRAINT registrations_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);

-- A registration ends with the user becoming active and with another word about the
-- address, however that comes about: whom an administrator deactivates later is none any
-- more, which another one could replace or its own code finish.
-- +goose StatementBegin
CREATE FUNCTION end_registration() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM registrations WHERE instance_id = NEW.instance_id AND user_id = NEW.id;
    DELETE FROM user_codes WHERE instance_id = NEW.instance_id AND user_id = NEW.id AND purpose = 1;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER users_registered AFTER UPDATE OF state, email, is_email_verified ON users
    FOR EACH ROW WHEN (OLD.state = 2 AND (NEW.state <> 2 OR NEW.is_email_verified OR NEW.email <> OLD.email)) EXECUTE FUNCTION end_registration();

-- Metadata: id is the key, unique in the user. Values are compared by their hash,
-- because an index entry holds less than a value may.
CREATE TABLE user_metadata (
    instance_id   text COLLATE "C" NOT NULL,
    user_id       text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    id_folded     text COLLATE "C" NOT NULL,
    org_id        text COLLATE "C",
    value         bytea NOT NULL,
    sequence      bigint NOT NULL,
    creation_date timestamptz NOT NULL,
    change_date   timestamptz NOT NULL,
    CONSTRAINT user_metadata_pkey PRIMARY KEY (instance_id, user_id, id),
    CONSTRAINT user_metadata_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX user_metadata_by_key ON user_metadata (instance_id, id, user_id);
CREATE INDEX user_metadata_by_key_folded ON user_metadata (instance_id, id_folded, user_id);
CREATE INDEX user_metadata_key_trigrams ON user_metadata USING gin (id_folded gin_trgm_ops);
CREATE INDEX user_metadata_by_value ON user_metadata (instance_id, id, sha256(value), user_id);

-- A personal access token is 256 random bits, so one SHA-256 keeps it (no
-- password hash). The token itself is shown once.
CREATE TABLE personal_access_tokens (
    instance_id     text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    org_id          text COLLATE "C",
    user_id         text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    token_hash      bytea NOT NULL,
    expiration_date timestamptz,
    sequence        bigint NOT NULL DEFAULT 0,
    creation_date   timestamptz NOT NULL,
    change_date     timestamptz NOT NULL,
    CONSTRAINT personal_access_tokens_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT personal_access_tokens_token_key UNIQUE (instance_id, token_hash),
    CONSTRAINT personal_access_tokens_name_key UNIQUE (instance_id, user_id, name),
    FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX personal_access_tokens_by_user ON personal_access_tokens (instance_id, user_id, creation_date, id);

-- A personal access token that is deleted is a token that was revoked, for those that
-- it was exchanged for; they live no longer than a day.
-- +goose StatementBegin
CREATE FUNCTION revoke_deleted_tokens() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO revoked_tokens (instance_id, id, expiration_date)
    SELECT g.instance_id, g.id, now() + interval '1 day' FROM gone_rows g ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER personal_access_tokens_revoked AFTER DELETE ON personal_access_tokens REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION revoke_deleted_tokens();

-- Public keys of service users, in PEM (PUBLIC KEY).
CREATE TABLE machine_keys (
    instance_id     text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    org_id          text COLLATE "C",
    user_id         text COLLATE "C" NOT NULL,
    public_key      text COLLATE "C" NOT NULL,
    expiration_date timestamptz,
    sequence        bigint NOT NULL,
    creation_date   timestamptz NOT NULL,
    change_date     timestamptz NOT NULL,
    CONSTRAINT machine_keys_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT machine_keys_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX machine_keys_by_user ON machine_keys (instance_id, user_id, creation_date, id);
