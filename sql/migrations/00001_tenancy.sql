-- +goose Up
-- Conventions of every table:
--   * the primary key and every unique key start with instance_id, so the
--     database can be partitioned or sharded by tenant; '' is the system itself;
--   * text is compared by code point (COLLATE "C"), so order and uniqueness do
--     not depend on the locale of the database, and LIKE prefixes use b-trees;
--   * sequence and change_date are those of the object's last event.

-- One sequence for all events of the installation: ever increasing, never reused.
CREATE SEQUENCE events_sequence;

CREATE TABLE events (
    instance_id    text COLLATE "C" NOT NULL,
    sequence       bigint NOT NULL DEFAULT nextval('events_sequence'),
    aggregate_type text COLLATE "C" NOT NULL,
    aggregate_id   text COLLATE "C" NOT NULL,
    event_type     text COLLATE "C" NOT NULL,
    payload        jsonb NOT NULL,
    creator        text COLLATE "C" NOT NULL,
    owner_type     smallint NOT NULL,
    owner_id       text COLLATE "C" NOT NULL,
    created_at     timestamptz NOT NULL,
    -- The writing transaction. A reader of all events orders by (xid, sequence)
    -- and stops below the oldest running transaction: sequence alone is taken
    -- before commit, so a slow writer's event would be passed over (REL-035).
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT events_pkey PRIMARY KEY (instance_id, sequence)
);
CREATE INDEX events_commit_order ON events (xid, sequence);
CREATE INDEX events_by_aggregate ON events (instance_id, aggregate_type, aggregate_id, sequence);

-- append_event is how every statement that changes state appends its event in
-- the same transaction (and mostly in the same statement). plpgsql, because it
-- keeps the plan of the INSERT between calls.
-- +goose StatementBegin
CREATE FUNCTION append_event(
    p_instance_id text, p_aggregate_type text, p_aggregate_id text, p_event_type text,
    p_payload jsonb, p_creator text, p_owner_type smallint, p_owner_id text, p_created_at timestamptz
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    appended bigint;
BEGIN
    INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at)
    VALUES (p_instance_id, p_aggregate_type, p_aggregate_id, p_event_type, p_payload, p_creator, p_owner_type, p_owner_id, p_created_at)
    RETURNING sequence INTO appended;
    RETURN appended;
END
$$;
-- +goose StatementEnd

-- Exact totals of unfiltered searches without counting rows. A table joins by
-- attaching the trigger below; slots keep concurrent writers off one row.
CREATE TABLE row_counts (
    instance_id text COLLATE "C" NOT NULL,
    resource    text COLLATE "C" NOT NULL,
    slot        smallint NOT NULL,
    n           bigint NOT NULL,
    CONSTRAINT row_counts_pkey PRIMARY KEY (instance_id, resource, slot)
) WITH (fillfactor = 50);

-- +goose StatementBegin
CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO row_counts AS c (instance_id, resource, slot, n)
    SELECT instance_id, TG_TABLE_NAME, pg_backend_pid() % 64, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END
    FROM changed_rows GROUP BY instance_id
    ON CONFLICT ON CONSTRAINT row_counts_pkey DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TABLE instances (
    id            text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL,
    default_org   text COLLATE "C",
    sequence      bigint NOT NULL,
    creation_date timestamptz NOT NULL,
    change_date   timestamptz NOT NULL,
    CONSTRAINT instances_name_key UNIQUE (name),
    CONSTRAINT instances_id_check CHECK (id <> '')
);

-- Domains find the instance of a request; they are unique over the system and
-- stored in lower case.
CREATE TABLE instance_domains (
    instance_id text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    domain      text COLLATE "C" NOT NULL,
    is_primary  boolean NOT NULL,
    CONSTRAINT instance_domains_pkey PRIMARY KEY (instance_id, domain),
    CONSTRAINT instance_domains_domain_key UNIQUE (domain),
    CONSTRAINT instance_domains_domain_check CHECK (domain = lower(domain) AND domain <> '')
);

-- Feature flags a level has decided; a flag that is absent is undecided.
CREATE TABLE features (
    instance_id text COLLATE "C" PRIMARY KEY,
    flags       jsonb NOT NULL,
    sequence    bigint NOT NULL,
    change_date timestamptz NOT NULL
);

CREATE TABLE organizations (
    instance_id   text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id            text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    sequence      bigint NOT NULL,
    creation_date timestamptz NOT NULL,
    change_date   timestamptz NOT NULL,
    CONSTRAINT organizations_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT organizations_name_key UNIQUE (instance_id, name)
);

CREATE TABLE org_domains (
    instance_id text COLLATE "C" NOT NULL,
    org_id      text COLLATE "C" NOT NULL,
    domain      text COLLATE "C" NOT NULL,
    is_primary  boolean NOT NULL,
    CONSTRAINT org_domains_pkey PRIMARY KEY (instance_id, domain),
    CONSTRAINT org_domains_domain_check CHECK (domain = lower(domain) AND domain <> ''),
    FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE
);

-- Users of an instance belong to an organization; users of the system
-- (instance_id '') to none.
CREATE TABLE users (
    instance_id      text COLLATE "C" NOT NULL,
    id               text COLLATE "C" NOT NULL,
    org_id           text COLLATE "C" NOT NULL,
    kind             text COLLATE "C" NOT NULL CHECK (kind IN ('human', 'machine')),
    state            text COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'inactive', 'locked')),
    login_name       text COLLATE "C" NOT NULL,
    -- The canonical form that makes login names unique: case folded in Go.
    login_name_key   text COLLATE "C" NOT NULL,
    email            text COLLATE "C",
    password_hash    text COLLATE "C",
    sequence         bigint NOT NULL,
    creation_date    timestamptz NOT NULL,
    change_date      timestamptz NOT NULL,
    CONSTRAINT users_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT users_login_name_key UNIQUE (instance_id, login_name_key)
);

-- A personal access token is 256 random bits, so one SHA-256 keeps it (no
-- password hash). The token itself is shown once.
CREATE TABLE personal_access_tokens (
    instance_id     text COLLATE "C" NOT NULL,
    token_hash      bytea NOT NULL,
    id              text COLLATE "C" NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    expiration_date timestamptz,
    creation_date   timestamptz NOT NULL,
    CONSTRAINT personal_access_tokens_pkey PRIMARY KEY (instance_id, token_hash),
    CONSTRAINT personal_access_tokens_id_key UNIQUE (instance_id, id),
    CONSTRAINT personal_access_tokens_name_key UNIQUE (instance_id, user_id, name),
    FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);

-- Roles of a user on a level: 1 system, 2 instance, 3 organization (object_id).
CREATE TABLE memberships (
    instance_id text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    level       smallint NOT NULL CHECK (level IN (1, 2, 3)),
    object_id   text COLLATE "C" NOT NULL,
    roles       text[] NOT NULL,
    CONSTRAINT memberships_pkey PRIMARY KEY (instance_id, user_id, level, object_id),
    FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);

-- +goose Down
DROP TABLE memberships, personal_access_tokens, users, org_domains, organizations, features, instance_domains, instances, row_counts, events;
DROP FUNCTION count_rows, append_event;
DROP SEQUENCE events_sequence;
