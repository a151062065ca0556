-- +goose Up
-- What ServiceUsers needs beyond 00003. Tables of what belongs to a user are only
-- searched within that user, so no totals are kept for them.

-- Access tokens of a service user: 1 opaque, 2 JWT, as in the contract.
UPDATE users SET access_token_type = access_token_type + 1;
ALTER TABLE users ALTER COLUMN access_token_type SET DEFAULT 1;

-- Not partial: a condition with LIKE does not imply phone <> ''.
DROP INDEX users_by_phone;
CREATE INDEX users_by_phone ON users (instance_id, phone, id);
CREATE INDEX users_phone_trigrams ON users USING gin (phone gin_trgm_ops);
-- E-mail addresses are looked for by their domain; all trigrams of one are common.
CREATE INDEX users_by_email_end ON users (instance_id, reverse(email_folded), id);
-- Login names end in domains.
CREATE INDEX domains_domain_trigrams ON domains USING gin (domain_folded gin_trgm_ops);

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
CREATE TRIGGER user_metadata_gone AFTER DELETE ON user_metadata REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('user', 'user.metadata.removed', 'user_id', 'key', 'id');

CREATE INDEX personal_access_tokens_by_user ON personal_access_tokens (instance_id, user_id, creation_date, id);
CREATE TRIGGER personal_access_tokens_gone AFTER DELETE ON personal_access_tokens REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('user', 'user.pat.removed', 'user_id', 'tokenId', 'id');

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
CREATE TRIGGER machine_keys_gone AFTER DELETE ON machine_keys REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('user', 'user.machine.key.removed', 'user_id', 'keyId', 'id');

-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
