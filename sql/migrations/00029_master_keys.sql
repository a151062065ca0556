-- +goose Up
-- The master keys that seal what is in this database, by the IDs that Tink gives them: the
-- first node claims it with its key. Each row holds a text that its key sealed, so a node
-- with another key finds out before it serves, and before it seals anything. While the key
-- is exchanged there are two.
CREATE TABLE master_keys (
    id bigint CONSTRAINT master_keys_pkey PRIMARY KEY,
    proof bytea NOT NULL
);
