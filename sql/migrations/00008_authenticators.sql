-- +goose Up
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
