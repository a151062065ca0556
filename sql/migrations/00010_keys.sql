-- +goose Up
-- The keys that the tokens of an instance are signed with. One is active, at most
-- one is next: published, so that verifiers know it before it signs. The unique
-- indexes decide this for all nodes (REL-062). A key that left the key set stays for a
-- while, without its private part: the ID tokens it signed are hints at logout long
-- after they ended.
CREATE TABLE signing_keys (
    instance_id   text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id            text COLLATE "C" NOT NULL,
    algorithm     text COLLATE "C" NOT NULL CHECK (algorithm IN ('RS256', 'ES256', 'EdDSA')),
    state         smallint NOT NULL CHECK (state BETWEEN 1 AND 4), -- next, active, retired, past
    public_key    jsonb NOT NULL, -- as a JWK
    private_key   bytea NOT NULL, -- PKCS #8, sealed by the master key
    creation_date timestamptz NOT NULL,
    -- When a next key signs, an active one began to, a retired one is forgotten.
    due_date      timestamptz NOT NULL,
    CONSTRAINT signing_keys_pkey PRIMARY KEY (instance_id, id)
);
CREATE UNIQUE INDEX signing_keys_next_key ON signing_keys (instance_id) WHERE state = 1;
CREATE UNIQUE INDEX signing_keys_active_key ON signing_keys (instance_id) WHERE state = 2;

-- The keys that opaque tokens of an instance are sealed with: 256 random bits,
-- themselves sealed by the master key. The newest seals, all open.
CREATE TABLE token_keys (
    instance_id   text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    number        smallint NOT NULL CHECK (number BETWEEN 1 AND 255),
    secret        bytea NOT NULL,
    creation_date timestamptz NOT NULL,
    CONSTRAINT token_keys_pkey PRIMARY KEY (instance_id, number)
);
