-- +goose Up
CREATE TABLE sessions (
    instance_id           text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id                    text COLLATE "C" NOT NULL,
    -- The user and their organization, once the user is known.
    org_id                text COLLATE "C",
    user_id               text COLLATE "C",
    creator               text COLLATE "C" NOT NULL,
    token_hash            bytea NOT NULL,
    expiration_date       timestamptz,
    fingerprint_id        text COLLATE "C" NOT NULL,
    ip                    text COLLATE "C" NOT NULL,
    description           text COLLATE "C" NOT NULL,
    metadata              jsonb NOT NULL,
    user_verified_at      timestamptz,
    password_verified_at  timestamptz,
    totp_verified_at      timestamptz,
    otp_sms_verified_at   timestamptz,
    otp_email_verified_at timestamptz,
    sequence              bigint NOT NULL,
    creation_date         timestamptz NOT NULL,
    change_date           timestamptz NOT NULL,
    CONSTRAINT sessions_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT sessions_token_key UNIQUE (instance_id, token_hash),
    CONSTRAINT sessions_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE,
    CONSTRAINT sessions_user_check CHECK ((user_id IS NULL) = (user_verified_at IS NULL))
);
CREATE INDEX sessions_by_creation_date ON sessions (instance_id, creation_date, id);
CREATE INDEX sessions_by_change_date ON sessions (instance_id, change_date, id);
CREATE INDEX sessions_by_expiration_date ON sessions (instance_id, expiration_date, id) WHERE expiration_date IS NOT NULL;
CREATE INDEX sessions_by_user ON sessions (instance_id, user_id, creation_date, id) WHERE user_id IS NOT NULL;
CREATE INDEX sessions_by_org ON sessions (instance_id, org_id, creation_date, id) WHERE org_id IS NOT NULL;
CREATE INDEX sessions_by_creator ON sessions (instance_id, creator, creation_date, id);
CREATE INDEX sessions_by_fingerprint ON sessions (instance_id, fingerprint_id, creation_date, id) WHERE fingerprint_id <> '';
CREATE TRIGGER sessions_counted AFTER INSERT ON sessions
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER sessions_uncounted AFTER DELETE ON sessions
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- A code that was sent and can be used once, for one purpose and one subject: the
-- registration of an authenticator (1), or the challenge of a session by SMS (2)
-- or e-mail (3). A newer code takes the place of the one before (SEC-172).
CREATE TABLE one_time_codes (
    instance_id      text COLLATE "C" NOT NULL,
    purpose          smallint NOT NULL,
    subject_id       text COLLATE "C" NOT NULL,
    authenticator_id text COLLATE "C" NOT NULL,
    session_id       text COLLATE "C",
    salt             bytea NOT NULL,
    hash             bytea NOT NULL,
    attempts         integer NOT NULL,
    expiration_date  timestamptz NOT NULL,
    CONSTRAINT one_time_codes_pkey PRIMARY KEY (instance_id, purpose, subject_id),
    FOREIGN KEY (instance_id, authenticator_id) REFERENCES authenticators ON DELETE CASCADE,
    FOREIGN KEY (instance_id, session_id) REFERENCES sessions ON DELETE CASCADE
);
CREATE INDEX one_time_codes_by_authenticator ON one_time_codes (instance_id, authenticator_id);
CREATE INDEX one_time_codes_by_session ON one_time_codes (instance_id, session_id) WHERE session_id IS NOT NULL;

-- A code that was sent to a user and can be used once: to verify the e-mail
-- address it went to (1), or to set a new password (2). A newer one takes the
-- place of the one before (SEC-172), but for what a browser asked for that the user
-- knows (browser_tries): what strangers ask for does not void that.
CREATE TABLE user_codes (
    instance_id     text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    purpose         smallint NOT NULL CHECK (purpose IN (1, 2)),
    browser         text COLLATE "C" NOT NULL DEFAULT '',
    address         text COLLATE "C" NOT NULL,
    salt            bytea NOT NULL,
    hash            bytea NOT NULL,
    attempts        integer NOT NULL,
    expiration_date timestamptz NOT NULL,
    CONSTRAINT user_codes_pkey PRIMARY KEY (instance_id, user_id, purpose, browser),
    CONSTRAINT user_codes_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
-- The sweeper looks for those who registered and never came back.
CREATE INDEX user_codes_by_expiration_date ON user_codes (expiration_date) WHERE purpose = 1;

-- The wrong passwords that a browser gave which has signed the user in before: it has
-- tries of its own, which no stranger can use up (SEC-177).
CREATE TABLE browser_tries (
    instance_id text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    browser     text COLLATE "C" NOT NULL,
    attempts    integer NOT NULL,
    period_end  timestamptz NOT NULL,
    CONSTRAINT browser_tries_pkey PRIMARY KEY (instance_id, user_id, browser),
    CONSTRAINT browser_tries_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX browser_tries_by_period_end ON browser_tries (period_end);
