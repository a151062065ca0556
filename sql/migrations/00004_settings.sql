-- +goose Up
ALTER TABLE memberships RENAME CONSTRAINT memberships_instance_id_user_id_fkey TO memberships_user_fkey;

-- Words of the system (instance_id ''), of instances (org_id '') and of
-- organizations about languages; what is null is inherited.
CREATE TABLE language_settings (
    instance_id          text COLLATE "C" NOT NULL,
    org_id               text COLLATE "C" NOT NULL,
    default_language     text COLLATE "C",
    restricted_languages text[],
    sequence             bigint NOT NULL,
    change_date          timestamptz NOT NULL,
    -- The context as foreign keys, so that its word goes with it; null above.
    of_instance          text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED REFERENCES instances ON DELETE CASCADE,
    of_org               text COLLATE "C" GENERATED ALWAYS AS (nullif(org_id, '')) STORED,
    CONSTRAINT language_settings_pkey PRIMARY KEY (instance_id, org_id),
    CONSTRAINT language_settings_org_fkey FOREIGN KEY (instance_id, of_org) REFERENCES organizations ON DELETE CASCADE
);

CREATE TABLE user_schemas (
    instance_id             text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id                      text COLLATE "C" NOT NULL,
    type                    text COLLATE "C" NOT NULL,
    type_folded             text COLLATE "C" NOT NULL,
    schema                  jsonb NOT NULL,
    revision                integer NOT NULL,
    possible_authenticators smallint[] NOT NULL,
    state                   smallint NOT NULL,
    sequence                bigint NOT NULL,
    creation_date           timestamptz NOT NULL,
    change_date             timestamptz NOT NULL,
    CONSTRAINT user_schemas_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT user_schemas_type_key UNIQUE (instance_id, type)
);
CREATE INDEX user_schemas_by_creation_date ON user_schemas (instance_id, creation_date, id);
CREATE TRIGGER user_schemas_counted AFTER INSERT ON user_schemas
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER user_schemas_uncounted AFTER DELETE ON user_schemas
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- Users stay on the revision their data was checked with.
CREATE TABLE user_schema_revisions (
    instance_id text COLLATE "C" NOT NULL,
    schema_id   text COLLATE "C" NOT NULL,
    revision    integer NOT NULL,
    schema      jsonb NOT NULL,
    CONSTRAINT user_schema_revisions_pkey PRIMARY KEY (instance_id, schema_id, revision),
    CONSTRAINT user_schema_revisions_schema_fkey FOREIGN KEY (instance_id, schema_id) REFERENCES user_schemas ON DELETE CASCADE
);
-- No cascade: a schema that users have stays.
ALTER TABLE users ADD CONSTRAINT users_schema_fkey FOREIGN KEY (instance_id, schema_id) REFERENCES user_schemas;
CREATE INDEX users_by_schema ON users (instance_id, schema_id) WHERE schema_id IS NOT NULL;

-- Sweeping old events looks for the oldest ones of an instance.
CREATE INDEX events_by_age ON events (instance_id, created_at);

-- +goose Down
DROP INDEX events_by_age;
ALTER TABLE users DROP CONSTRAINT users_schema_fkey;
DROP TABLE user_schema_revisions, user_schemas, language_settings;
