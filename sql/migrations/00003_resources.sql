-- +goose Up
-- What package resource expects of a table (impl/resource/table.go): the columns
-- instance_id, id, sequence, creation_date and change_date; org_id, project_id
-- and so on where the object is in one; states and enums as the numbers of the
-- contract; beside a text with a text filter its twin x_folded; durations as
-- x_nanos. Objects go with what they belong to (ON DELETE CASCADE).

-- append_removed appends the events of rows that go because what they belong to
-- is deleted, so that nothing disappears without an event. Arguments: aggregate,
-- event, column of the aggregate's ID, then pairs of payload key and column. What
-- is deleted directly is recorded by the command that does it: it says in
-- writ.deletes from which table, in writ.actor and writ.now who and when. (The
-- depth of triggers does not tell the two apart: those of a cascade run after the
-- statement that started it, on the same level.)
-- +goose StatementBegin
CREATE FUNCTION append_removed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    gone    jsonb;
    payload jsonb;
BEGIN
    IF coalesce(current_setting('writ.deletes', true), '') IN ('', TG_TABLE_NAME) THEN
        RETURN NULL;
    END IF;
    FOR gone IN SELECT to_jsonb(g) FROM gone_rows g LOOP
        payload := '{}';
        FOR i IN 3 .. TG_NARGS - 2 BY 2 LOOP
            payload := payload || jsonb_build_object(TG_ARGV[i], gone -> TG_ARGV[i + 1]);
        END LOOP;
        PERFORM append_event(
            gone ->> 'instance_id', TG_ARGV[0], gone ->> TG_ARGV[2], TG_ARGV[1], payload,
            coalesce(current_setting('writ.actor', true), 'system'),
            (CASE WHEN gone ->> 'org_id' IS NULL THEN 2 ELSE 3 END)::smallint,
            coalesce(gone ->> 'org_id', gone ->> 'instance_id'),
            coalesce(nullif(current_setting('writ.now', true), '')::timestamptz, now()));
    END LOOP;
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

-- Instances: block and retention are the limits that the system sets.
ALTER TABLE instances
    ADD COLUMN name_folded text COLLATE "C",
    ADD COLUMN blocked boolean NOT NULL DEFAULT false,
    ADD COLUMN audit_log_retention_nanos bigint NOT NULL DEFAULT 0;
UPDATE instances SET name_folded = lower(name), default_org = coalesce(default_org, '');
ALTER TABLE instances ALTER COLUMN name_folded SET NOT NULL, ALTER COLUMN default_org SET NOT NULL, ALTER COLUMN default_org SET DEFAULT '';

ALTER TABLE organizations
    ADD COLUMN name_folded text COLLATE "C",
    ADD COLUMN state smallint NOT NULL DEFAULT 1;
UPDATE organizations SET name_folded = lower(name);
ALTER TABLE organizations ALTER COLUMN name_folded SET NOT NULL;
CREATE INDEX organizations_by_creation_date ON organizations (instance_id, creation_date, id);
CREATE INDEX organizations_by_change_date ON organizations (instance_id, change_date, id);
CREATE INDEX organizations_by_name_folded ON organizations (instance_id, name_folded);
CREATE INDEX organizations_name_trigrams ON organizations USING gin (name_folded gin_trgm_ops);
CREATE TRIGGER organizations_counted AFTER INSERT ON organizations
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER organizations_uncounted AFTER DELETE ON organizations
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'organizations', 0, count(*) FROM organizations GROUP BY 1;

-- Domains of instances (org_id is null) and of organizations. Anybody may claim
-- a domain; only one can prove it, and only what is proven counts (SEC-222).
CREATE TABLE domains (
    instance_id      text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id               text COLLATE "C" NOT NULL,
    org_id           text COLLATE "C",
    domain           text COLLATE "C" NOT NULL,
    domain_folded    text COLLATE "C" NOT NULL,
    is_verified      boolean NOT NULL,
    is_primary       boolean NOT NULL,
    validation_type  smallint NOT NULL,
    validation_token text COLLATE "C" NOT NULL,
    sequence         bigint NOT NULL,
    creation_date    timestamptz NOT NULL,
    change_date      timestamptz NOT NULL,
    CONSTRAINT domains_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT domains_domain_key UNIQUE NULLS NOT DISTINCT (instance_id, org_id, domain),
    CONSTRAINT domains_primary_check CHECK (is_verified OR NOT is_primary),
    CONSTRAINT domains_domain_check CHECK (domain = lower(domain) AND domain <> ''),
    CONSTRAINT domains_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE
);
INSERT INTO domains
SELECT d.instance_id, gen_random_uuid()::text, NULL, d.domain, d.domain, true, d.is_primary, 0, '', i.sequence, i.creation_date, i.change_date
FROM instance_domains d JOIN instances i ON i.id = d.instance_id;
INSERT INTO domains
SELECT d.instance_id, gen_random_uuid()::text, d.org_id, d.domain, d.domain, true, d.is_primary, 0, '', o.sequence, o.creation_date, o.change_date
FROM org_domains d JOIN organizations o ON o.instance_id = d.instance_id AND o.id = d.org_id;
DROP TABLE instance_domains, org_domains;
-- Hosts are unique over the system, domains of organizations in their instance.
CREATE UNIQUE INDEX domains_host_key ON domains (domain) WHERE org_id IS NULL AND is_verified;
CREATE UNIQUE INDEX domains_org_domain_key ON domains (instance_id, domain) WHERE org_id IS NOT NULL AND is_verified;
CREATE UNIQUE INDEX domains_primary_key ON domains (instance_id, org_id) NULLS NOT DISTINCT WHERE is_primary;
CREATE INDEX domains_by_domain ON domains (instance_id, domain);
CREATE INDEX domains_by_creation_date ON domains (instance_id, creation_date, id);
CREATE TRIGGER domains_counted AFTER INSERT ON domains
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER domains_uncounted AFTER DELETE ON domains
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'domains', 0, count(*) FROM domains GROUP BY 1;

-- Users. A login name is username@primary domain of the organization and never
-- stored: changing the primary domain changes them all at once. org_id is null
-- for users of the system (instance_id '') only.
ALTER TABLE users DROP CONSTRAINT users_kind_check, DROP CONSTRAINT users_state_check, DROP CONSTRAINT users_login_name_key;
ALTER TABLE users
    ALTER COLUMN org_id DROP NOT NULL,
    ALTER COLUMN state DROP DEFAULT,
    ALTER COLUMN state TYPE smallint USING CASE state WHEN 'active' THEN 1 WHEN 'inactive' THEN 2 ELSE 4 END,
    ALTER COLUMN state SET DEFAULT 1,
    ADD COLUMN user_type smallint,
    ADD COLUMN username text COLLATE "C",
    ADD COLUMN username_folded text COLLATE "C",
    ADD COLUMN given_name text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN family_name text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN nick_name text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN display_name text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN display_name_folded text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN preferred_language text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN email_folded text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN is_email_verified boolean NOT NULL DEFAULT false,
    ADD COLUMN phone text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN is_phone_verified boolean NOT NULL DEFAULT false,
    ADD COLUMN password_changed timestamptz,
    ADD COLUMN password_change_required boolean NOT NULL DEFAULT false,
    ADD COLUMN description text COLLATE "C" NOT NULL DEFAULT '',
    -- Access tokens of a service user: 0 opaque, 1 JWT.
    ADD COLUMN access_token_type smallint NOT NULL DEFAULT 0,
    -- SHA-256 of the client secret, and of the one before it while both are good.
    ADD COLUMN secret_hash bytea,
    ADD COLUMN old_secret_hash bytea,
    ADD COLUMN old_secret_until timestamptz,
    ADD COLUMN schema_id text COLLATE "C",
    ADD COLUMN schema_revision integer NOT NULL DEFAULT 0,
    ADD COLUMN data jsonb;
UPDATE users u SET
    org_id = nullif(org_id, ''),
    user_type = CASE kind WHEN 'human' THEN 1 ELSE 2 END,
    username = coalesce((SELECT left(u.login_name, -length(d.domain) - 1) FROM domains d
        WHERE d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary AND right(u.login_name, length(d.domain) + 1) = '@' || d.domain), u.login_name),
    email = coalesce(email, ''), email_folded = lower(coalesce(email, '')),
    display_name = login_name, display_name_folded = login_name_key;
UPDATE users SET username_folded = lower(username);
ALTER TABLE users
    DROP COLUMN kind, DROP COLUMN login_name, DROP COLUMN login_name_key,
    ALTER COLUMN user_type SET NOT NULL, ALTER COLUMN username SET NOT NULL, ALTER COLUMN username_folded SET NOT NULL,
    ALTER COLUMN email SET NOT NULL, ALTER COLUMN email SET DEFAULT '',
    ADD CONSTRAINT users_username_key UNIQUE NULLS NOT DISTINCT (instance_id, org_id, username_folded),
    ADD CONSTRAINT users_org_check CHECK ((org_id IS NULL) = (instance_id = '')),
    ADD CONSTRAINT users_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE;
CREATE INDEX users_by_creation_date ON users (instance_id, creation_date, id);
CREATE INDEX users_by_change_date ON users (instance_id, change_date, id);
CREATE INDEX users_by_username ON users (instance_id, username, id);
CREATE INDEX users_by_username_folded ON users (instance_id, username_folded, id);
CREATE INDEX users_by_email ON users (instance_id, email, id);
CREATE INDEX users_by_email_folded ON users (instance_id, email_folded, id);
CREATE INDEX users_by_display_name ON users (instance_id, display_name, id);
CREATE INDEX users_by_display_name_folded ON users (instance_id, display_name_folded, id);
CREATE INDEX users_by_phone ON users (instance_id, phone, id) WHERE phone <> '';
CREATE INDEX users_by_org ON users (instance_id, org_id, creation_date, id);
CREATE INDEX users_by_state ON users (instance_id, state, id);
CREATE INDEX users_by_type ON users (instance_id, user_type, id);
CREATE INDEX users_username_trigrams ON users USING gin (username_folded gin_trgm_ops);
CREATE INDEX users_email_trigrams ON users USING gin (email_folded gin_trgm_ops);
CREATE INDEX users_display_name_trigrams ON users USING gin (display_name_folded gin_trgm_ops);
CREATE TRIGGER users_counted AFTER INSERT ON users
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER users_uncounted AFTER DELETE ON users
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'users', 0, count(*) FROM users GROUP BY 1;
CREATE TRIGGER users_values_counted AFTER INSERT ON users
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_values('state', 'user_type', 'org_id');
CREATE TRIGGER users_values_uncounted AFTER DELETE ON users
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_values('state', 'user_type', 'org_id');
CREATE TRIGGER users_state_recounted AFTER UPDATE OF state ON users
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION recount_value('state');
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'users/state/' || state, 0, count(*) FROM users GROUP BY instance_id, state;
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'users/user_type/' || user_type, 0, count(*) FROM users GROUP BY instance_id, user_type;
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'users/org_id/' || org_id, 0, count(*) FROM users WHERE org_id IS NOT NULL GROUP BY instance_id, org_id;
CREATE TRIGGER users_gone AFTER DELETE ON users REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('user', 'user.removed', 'id');

-- Personal access tokens become objects like the others.
ALTER TABLE personal_access_tokens
    ADD COLUMN org_id text COLLATE "C",
    ADD COLUMN sequence bigint NOT NULL DEFAULT 0,
    ADD COLUMN change_date timestamptz;
UPDATE personal_access_tokens t SET change_date = creation_date,
    org_id = (SELECT u.org_id FROM users u WHERE u.instance_id = t.instance_id AND u.id = t.user_id);
ALTER TABLE personal_access_tokens
    ALTER COLUMN change_date SET NOT NULL,
    DROP CONSTRAINT personal_access_tokens_pkey,
    DROP CONSTRAINT personal_access_tokens_id_key,
    ADD CONSTRAINT personal_access_tokens_pkey PRIMARY KEY (instance_id, id),
    ADD CONSTRAINT personal_access_tokens_token_key UNIQUE (instance_id, token_hash);

-- A membership gives a user roles on one object: the system (level 1), the
-- instance (2), an organization (3), a project (4) or the grant of a project (5).
-- org_id, project_id and project_grant_id say where that object is.
ALTER TABLE memberships
    ADD COLUMN id text COLLATE "C",
    ADD COLUMN org_id text COLLATE "C",
    ADD COLUMN project_id text COLLATE "C",
    ADD COLUMN project_grant_id text COLLATE "C",
    ADD COLUMN sequence bigint NOT NULL DEFAULT 0,
    ADD COLUMN creation_date timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN change_date timestamptz NOT NULL DEFAULT now();
UPDATE memberships SET id = gen_random_uuid()::text, org_id = CASE level WHEN 3 THEN object_id END;
ALTER TABLE memberships
    ALTER COLUMN id SET NOT NULL, ALTER COLUMN creation_date DROP DEFAULT, ALTER COLUMN change_date DROP DEFAULT,
    DROP CONSTRAINT memberships_pkey, DROP CONSTRAINT memberships_level_check,
    ADD CONSTRAINT memberships_pkey PRIMARY KEY (instance_id, id),
    ADD CONSTRAINT memberships_user_key UNIQUE (instance_id, user_id, level, object_id),
    ADD CONSTRAINT memberships_level_check CHECK (level BETWEEN 1 AND 5),
    ADD CONSTRAINT memberships_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE;
CREATE INDEX memberships_by_creation_date ON memberships (instance_id, creation_date, id);
CREATE INDEX memberships_by_object ON memberships (instance_id, level, object_id);
CREATE INDEX memberships_by_org ON memberships (instance_id, org_id);
CREATE TRIGGER memberships_counted AFTER INSERT ON memberships
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER memberships_uncounted AFTER DELETE ON memberships
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'memberships', 0, count(*) FROM memberships GROUP BY 1;
CREATE TRIGGER memberships_gone AFTER DELETE ON memberships REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('membership', 'membership.removed', 'id', 'userId', 'user_id');

-- Going back would lose what the new columns hold.
-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
