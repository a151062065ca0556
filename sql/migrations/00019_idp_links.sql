-- +goose Up
-- Accounts at identity providers that sign users in. Who somebody is there is one person
-- here, or nobody (SEC-201). idp_instance_id is the instance of the provider, '' for one of
-- the system.
CREATE TABLE idp_links (
    instance_id       text COLLATE "C" NOT NULL,
    id                text COLLATE "C" NOT NULL,
    org_id            text COLLATE "C" NOT NULL,
    user_id           text COLLATE "C" NOT NULL,
    idp_instance_id   text COLLATE "C" NOT NULL,
    idp_id            text COLLATE "C" NOT NULL,
    external_user_id  text COLLATE "C" NOT NULL,
    external_username text COLLATE "C" NOT NULL,
    sequence          bigint NOT NULL,
    creation_date     timestamptz NOT NULL,
    change_date       timestamptz NOT NULL,
    CONSTRAINT idp_links_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT idp_links_external_key UNIQUE (instance_id, idp_id, external_user_id),
    CONSTRAINT idp_links_instance_check CHECK (idp_instance_id IN ('', instance_id)),
    CONSTRAINT idp_links_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE,
    CONSTRAINT idp_links_idp_fkey FOREIGN KEY (idp_instance_id, idp_id) REFERENCES idps ON DELETE CASCADE
);
CREATE INDEX idp_links_by_user ON idp_links (instance_id, user_id, creation_date, id);
CREATE INDEX idp_links_by_idp ON idp_links (idp_instance_id, idp_id);
CREATE TRIGGER idp_links_counted AFTER INSERT ON idp_links
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER idp_links_uncounted AFTER DELETE ON idp_links
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- The identity provider that the user of a session signed in with, since when, and when they
-- authenticated there.
ALTER TABLE sessions
    ADD COLUMN intent_verified_at timestamptz,
    ADD COLUMN intent_auth_time timestamptz,
    ADD COLUMN idp_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE VIEW session_rows AS SELECT t.instance_id, t.id, t.org_id, t.user_id, t.creator, t.token_hash, t.expiration_date,
    t.fingerprint_id, t.ip, t.description, t.metadata, t.user_verified_at, t.password_verified_at, t.totp_verified_at,
    t.otp_sms_verified_at, t.otp_email_verified_at, t.sequence, t.creation_date, t.change_date,
    coalesce((SELECT u.username || coalesce('@' || d.domain, '') FROM users u LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
        WHERE u.instance_id = t.instance_id AND u.id = t.user_id), '')::text AS login_name,
    coalesce((SELECT u.display_name FROM users u WHERE u.instance_id = t.instance_id AND u.id = t.user_id), '')::text AS display_name,
    t.intent_verified_at, t.intent_auth_time, t.idp_id
FROM sessions t;
