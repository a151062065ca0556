-- +goose Up
-- Failed checks are counted on the user, so that neither another name, session or
-- factor nor starting again gives more tries (SEC-174, SEC-175). Second factors
-- have their own count, which starts again at failed_otp_until.
ALTER TABLE users
    ADD COLUMN failed_password_attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN failed_otp_attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN failed_otp_until timestamptz NOT NULL DEFAULT 'epoch';

-- What a user can prove to be themselves with besides a password. Their events
-- belong to the user, so user.removed tells of their end too.
CREATE TABLE authenticators (
    instance_id   text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    org_id        text COLLATE "C" NOT NULL,
    user_id       text COLLATE "C" NOT NULL,
    type          smallint NOT NULL CHECK (type BETWEEN 1 AND 3),
    -- Where codes go: a phone number or an e-mail address; '' for TOTP.
    address       text COLLATE "C" NOT NULL,
    is_verified   boolean NOT NULL,
    -- Of TOTP: the sealed secret, and the last time step that was used (SEC-178).
    secret        bytea,
    last_step     bigint NOT NULL,
    sequence      bigint NOT NULL,
    creation_date timestamptz NOT NULL,
    change_date   timestamptz NOT NULL,
    CONSTRAINT authenticators_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT authenticators_address_key UNIQUE (instance_id, user_id, type, address),
    CONSTRAINT authenticators_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX authenticators_by_user ON authenticators (instance_id, user_id, creation_date, id);
CREATE TRIGGER authenticators_counted AFTER INSERT ON authenticators
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER authenticators_uncounted AFTER DELETE ON authenticators
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

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
CREATE TRIGGER sessions_gone AFTER DELETE ON sessions REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('session', 'session.terminated', 'id');

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

-- Messages to be sent. A worker that takes one moves next_attempt past the time
-- it may need, so that another one takes over if it dies. What holds a code is
-- blanked as soon as it is sent or given up.
CREATE TABLE messages (
    instance_id   text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id            text COLLATE "C" NOT NULL,
    org_id        text COLLATE "C" NOT NULL,
    user_id       text COLLATE "C" NOT NULL,
    kind          smallint NOT NULL CHECK (kind IN (1, 2)), -- e-mail, SMS
    template      text COLLATE "C" NOT NULL,
    recipient     text COLLATE "C" NOT NULL,
    language      text COLLATE "C" NOT NULL,
    payload       jsonb NOT NULL,
    state         smallint NOT NULL CHECK (state BETWEEN 1 AND 3), -- queued, sent, failed
    attempts      integer NOT NULL,
    next_attempt  timestamptz NOT NULL,
    creation_date timestamptz NOT NULL,
    sent_date     timestamptz,
    CONSTRAINT messages_pkey PRIMARY KEY (instance_id, id),
    FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX messages_due ON messages (next_attempt) WHERE state = 1;
CREATE INDEX messages_by_user ON messages (instance_id, user_id, creation_date);
CREATE INDEX messages_by_creation_date ON messages (creation_date, id);

-- Going back would lose what the tables hold.
-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
