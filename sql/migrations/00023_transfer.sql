-- +goose Up
-- Users were counted by making JSON of each new row three times over, which was most of the
-- work of importing them: their three columns are grouped once.
-- +goose StatementBegin
CREATE FUNCTION count_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO row_counts AS c (instance_id, resource, slot, n)
    SELECT g.instance_id, 'users/' || v.value, pg_backend_pid() % 64, sum(g.n) * CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END
    FROM (SELECT instance_id, state, user_type, org_id, count(*) AS n FROM changed_rows GROUP BY 1, 2, 3, 4) g,
        LATERAL (VALUES ('state/' || g.state), ('user_type/' || g.user_type), ('org_id/' || coalesce(g.org_id, ''))) v (value)
    GROUP BY 1, 2
    ON CONFLICT ON CONSTRAINT row_counts_pkey DO UPDATE SET n = c.n + excluded.n;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER users_values_counted AFTER INSERT ON users
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_users();
CREATE OR REPLACE TRIGGER users_values_uncounted AFTER DELETE ON users
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_users();

-- Exports and imports that run by themselves, on the node that was asked, which renews its
-- lease (of the database's clock) while it does. outcome is what they came to.
CREATE TABLE operations (
    instance_id     text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id              text COLLATE "C" NOT NULL,
    type            smallint NOT NULL CHECK (type BETWEEN 1 AND 2),
    state           smallint NOT NULL CHECK (state BETWEEN 1 AND 4),
    items           bigint NOT NULL DEFAULT 0,
    total           bigint NOT NULL DEFAULT 0,
    size            bigint NOT NULL DEFAULT 0,
    creator         text COLLATE "C" NOT NULL,
    is_canceled     boolean NOT NULL DEFAULT false,
    lease_end       timestamptz NOT NULL,
    outcome         jsonb,
    error_reason    text COLLATE "C" NOT NULL DEFAULT '',
    error_message   text COLLATE "C" NOT NULL DEFAULT '',
    creation_date   timestamptz NOT NULL,
    change_date     timestamptz NOT NULL,
    expiration_date timestamptz NOT NULL,
    CONSTRAINT operations_pkey PRIMARY KEY (instance_id, id)
);

-- What was exported, in parts of one length, compressed and sealed.
CREATE TABLE operation_chunks (
    instance_id  text COLLATE "C" NOT NULL,
    operation_id text COLLATE "C" NOT NULL,
    number       bigint NOT NULL,
    content      bytea NOT NULL,
    CONSTRAINT operation_chunks_pkey PRIMARY KEY (instance_id, operation_id, number),
    CONSTRAINT operation_chunks_operation_fkey FOREIGN KEY (instance_id, operation_id) REFERENCES operations ON DELETE CASCADE
);
