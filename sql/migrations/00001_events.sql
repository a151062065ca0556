-- +goose Up
-- Conventions of every table:
--   * the primary key and every unique key start with instance_id, so the
--     database can be partitioned or sharded by tenant; '' is the system itself;
--   * text is compared by code point (COLLATE "C"), so order and uniqueness do
--     not depend on the locale of the database, and LIKE prefixes use b-trees;
--   * sequence and change_date are those of the object's last event.
--
-- What package resource expects of a table (impl/core/resource/table.go): the columns
-- instance_id, id, sequence, creation_date and change_date; org_id, project_id
-- and so on where the object is in one; states and enums as the numbers of the
-- contract; beside a text with a text filter its twin x_folded, folded by Unicode
-- in Go, so that no database locale decides; durations as x_nanos. Objects go with
-- what they belong to (ON DELETE CASCADE).

-- Trigram indexes answer "contains" and "ends with". A trusted extension: no
-- superuser is needed.
CREATE EXTENSION IF NOT EXISTS pg_trgm;

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
-- Sweeping old events looks for the oldest ones of an instance.
CREATE INDEX events_by_age ON events (instance_id, created_at);

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

-- count_values keeps totals by value for the columns of its arguments, where a few
-- values are shared by most rows (Spec.Counted): row_counts has a row for
-- table/column/value. One statement-level trigger counts new and deleted rows, a
-- row-level one those whose value changes.
-- +goose StatementBegin
CREATE FUNCTION count_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0 .. TG_NARGS - 1 LOOP
        INSERT INTO row_counts AS c (instance_id, resource, slot, n)
        SELECT r ->> 'instance_id', TG_TABLE_NAME || '/' || TG_ARGV[i] || '/' || coalesce(r ->> TG_ARGV[i], ''), pg_backend_pid() % 64,
            CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END
        FROM (SELECT to_jsonb(changed) AS r FROM changed_rows changed) rows
        GROUP BY 1, 2
        ON CONFLICT ON CONSTRAINT row_counts_pkey DO UPDATE SET n = c.n + excluded.n;
    END LOOP;
    RETURN NULL;
END
$$;

CREATE FUNCTION recount_value() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO row_counts AS c (instance_id, resource, slot, n)
    SELECT NEW.instance_id, TG_TABLE_NAME || '/' || TG_ARGV[0] || '/' || change.value, pg_backend_pid() % 64, change.n
    FROM (VALUES (to_jsonb(OLD) ->> TG_ARGV[0], -1), (to_jsonb(NEW) ->> TG_ARGV[0], 1)) change (value, n)
    ON CONFLICT ON CONSTRAINT row_counts_pkey DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
