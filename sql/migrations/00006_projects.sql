-- +goose Up
-- Projects, their roles, who may use them, and their applications. What is below
-- a project carries the organization of the project (org_id); the keys that name
-- both keep it the same.
CREATE TABLE projects (
    instance_id            text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id                     text COLLATE "C" NOT NULL,
    org_id                 text COLLATE "C" NOT NULL,
    name                   text COLLATE "C" NOT NULL,
    name_folded            text COLLATE "C" NOT NULL,
    project_role_assertion boolean NOT NULL,
    project_role_check     boolean NOT NULL,
    has_project_check      boolean NOT NULL,
    state                  smallint NOT NULL,
    sequence               bigint NOT NULL,
    creation_date          timestamptz NOT NULL,
    change_date            timestamptz NOT NULL,
    CONSTRAINT projects_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT projects_in_org UNIQUE (instance_id, id, org_id),
    CONSTRAINT projects_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE
);
-- Names that differ in case only would be mistaken for one another (SEC-298).
CREATE UNIQUE INDEX projects_name_key ON projects (instance_id, org_id, name_folded);
CREATE INDEX projects_by_creation_date ON projects (instance_id, creation_date, id);
CREATE INDEX projects_by_change_date ON projects (instance_id, change_date, id);
CREATE INDEX projects_by_name ON projects (instance_id, name, id);
CREATE INDEX projects_by_name_folded ON projects (instance_id, name_folded, id);
CREATE INDEX projects_by_state ON projects (instance_id, state, id);
CREATE INDEX projects_name_trigrams ON projects USING gin (name_folded gin_trgm_ops);
CREATE TRIGGER projects_counted AFTER INSERT ON projects
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER projects_uncounted AFTER DELETE ON projects
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

CREATE TABLE project_roles (
    instance_id         text COLLATE "C" NOT NULL,
    id                  text COLLATE "C" NOT NULL,
    org_id              text COLLATE "C" NOT NULL,
    project_id          text COLLATE "C" NOT NULL,
    key                 text COLLATE "C" NOT NULL,
    key_folded          text COLLATE "C" NOT NULL,
    display_name        text COLLATE "C" NOT NULL,
    display_name_folded text COLLATE "C" NOT NULL,
    "group"             text COLLATE "C" NOT NULL,
    sequence            bigint NOT NULL,
    creation_date       timestamptz NOT NULL,
    change_date         timestamptz NOT NULL,
    CONSTRAINT project_roles_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT project_roles_key_key UNIQUE (instance_id, project_id, key),
    CONSTRAINT project_roles_project_fkey FOREIGN KEY (instance_id, project_id, org_id) REFERENCES projects (instance_id, id, org_id) ON DELETE CASCADE
);
CREATE INDEX project_roles_by_creation_date ON project_roles (instance_id, creation_date, id);
CREATE INDEX project_roles_by_change_date ON project_roles (instance_id, change_date, id);
CREATE INDEX project_roles_by_key ON project_roles (instance_id, key, id);
CREATE INDEX project_roles_by_key_folded ON project_roles (instance_id, key_folded, id);
CREATE INDEX project_roles_by_display_name ON project_roles (instance_id, display_name, id);
CREATE INDEX project_roles_by_display_name_folded ON project_roles (instance_id, display_name_folded, id);
CREATE INDEX project_roles_by_group ON project_roles (instance_id, "group", id);
CREATE INDEX project_roles_key_trigrams ON project_roles USING gin (key_folded gin_trgm_ops);
CREATE INDEX project_roles_display_name_trigrams ON project_roles USING gin (display_name_folded gin_trgm_ops);
CREATE TRIGGER project_roles_counted AFTER INSERT ON project_roles
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER project_roles_uncounted AFTER DELETE ON project_roles
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- role_keys names roles of the project. No foreign key can say so of an array:
-- who writes them holds the row of the project, who takes a role away locks it
-- (sql/queries/grants.sql).
CREATE TABLE project_grants (
    instance_id    text COLLATE "C" NOT NULL,
    id             text COLLATE "C" NOT NULL,
    org_id         text COLLATE "C" NOT NULL,
    project_id     text COLLATE "C" NOT NULL,
    granted_org_id text COLLATE "C" NOT NULL,
    role_keys      text[] COLLATE "C" NOT NULL,
    state          smallint NOT NULL,
    sequence       bigint NOT NULL,
    creation_date  timestamptz NOT NULL,
    change_date    timestamptz NOT NULL,
    CONSTRAINT project_grants_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT project_grants_granted_org_key UNIQUE (instance_id, project_id, granted_org_id),
    CONSTRAINT project_grants_to_org UNIQUE (instance_id, id, project_id, granted_org_id),
    CONSTRAINT project_grants_org_check CHECK (org_id <> granted_org_id),
    CONSTRAINT project_grants_project_fkey FOREIGN KEY (instance_id, project_id, org_id) REFERENCES projects (instance_id, id, org_id) ON DELETE CASCADE,
    CONSTRAINT project_grants_granted_org_fkey FOREIGN KEY (instance_id, granted_org_id) REFERENCES organizations ON DELETE CASCADE
);
CREATE INDEX project_grants_by_creation_date ON project_grants (instance_id, creation_date, id);
CREATE INDEX project_grants_by_change_date ON project_grants (instance_id, change_date, id);
CREATE INDEX project_grants_by_state ON project_grants (instance_id, state, id);
CREATE INDEX project_grants_by_org ON project_grants (instance_id, org_id, id);
CREATE INDEX project_grants_by_granted_org ON project_grants (instance_id, granted_org_id, id);
CREATE INDEX project_grants_role_keys ON project_grants USING gin (role_keys);
CREATE TRIGGER project_grants_counted AFTER INSERT ON project_grants
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER project_grants_uncounted AFTER DELETE ON project_grants
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- org_id is where the grant is made: the organization of the project, or the one
-- the project is granted to.
CREATE TABLE user_grants (
    instance_id      text COLLATE "C" NOT NULL,
    id               text COLLATE "C" NOT NULL,
    org_id           text COLLATE "C" NOT NULL,
    user_id          text COLLATE "C" NOT NULL,
    project_id       text COLLATE "C" NOT NULL,
    project_grant_id text COLLATE "C",
    role_keys        text[] COLLATE "C" NOT NULL,
    state            smallint NOT NULL,
    sequence         bigint NOT NULL,
    creation_date    timestamptz NOT NULL,
    change_date      timestamptz NOT NULL,
    CONSTRAINT user_grants_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT user_grants_user_key UNIQUE NULLS NOT DISTINCT (instance_id, user_id, project_id, project_grant_id),
    CONSTRAINT user_grants_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE,
    CONSTRAINT user_grants_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE,
    CONSTRAINT user_grants_project_fkey FOREIGN KEY (instance_id, project_id) REFERENCES projects ON DELETE CASCADE,
    CONSTRAINT user_grants_project_grant_fkey FOREIGN KEY (instance_id, project_grant_id, project_id, org_id)
        REFERENCES project_grants (instance_id, id, project_id, granted_org_id) ON DELETE CASCADE
);
CREATE INDEX user_grants_by_creation_date ON user_grants (instance_id, creation_date, id);
CREATE INDEX user_grants_by_change_date ON user_grants (instance_id, change_date, id);
CREATE INDEX user_grants_by_state ON user_grants (instance_id, state, id);
CREATE INDEX user_grants_by_org ON user_grants (instance_id, org_id, id);
CREATE INDEX user_grants_by_project ON user_grants (instance_id, project_id, id);
CREATE INDEX user_grants_by_project_grant ON user_grants (instance_id, project_grant_id, id);
CREATE INDEX user_grants_role_keys ON user_grants USING gin (role_keys);
CREATE TRIGGER user_grants_counted AFTER INSERT ON user_grants
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER user_grants_uncounted AFTER DELETE ON user_grants
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- The origins of browsers that may call the endpoints on behalf of a client: those
-- of its redirect URIs on the web, and those it names (package redirect, Origin).
-- +goose StatementBegin
CREATE FUNCTION web_origins(uris text[], origins text[]) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT regexp_replace(regexp_replace(lower(substring(uri FROM '^[hH][tT][tT][pP][sS]?://[^/?#]+')), '^(https://.*):443$', '\1'), '^(http://.*):80$', '\1') COLLATE "C"), '{}')
    FROM unnest(uris || origins) AS uri WHERE uri ~* '^https?://[^/?#*]+(/|\?|$)'
$$;
-- +goose StatementEnd

-- An application is an OpenID client (type 1) or an API that checks tokens (2);
-- an API uses only the columns of client authentication.
CREATE TABLE apps (
    instance_id                 text COLLATE "C" NOT NULL,
    id                          text COLLATE "C" NOT NULL,
    org_id                      text COLLATE "C" NOT NULL,
    project_id                  text COLLATE "C" NOT NULL,
    name                        text COLLATE "C" NOT NULL,
    name_folded                 text COLLATE "C" NOT NULL,
    type                        smallint NOT NULL CHECK (type IN (1, 2)),
    state                       smallint NOT NULL,
    client_id                   text COLLATE "C" NOT NULL,
    auth_method_type            smallint NOT NULL,
    -- SHA-256 of the client secret (256 random bits), and of the one before it
    -- while both are good.
    secret_hash                 bytea,
    old_secret_hash             bytea,
    old_secret_until            timestamptz,
    redirect_uris               text[] COLLATE "C" NOT NULL,
    post_logout_redirect_uris   text[] COLLATE "C" NOT NULL,
    response_types              smallint[] NOT NULL,
    grant_types                 smallint[] NOT NULL,
    application_type            smallint NOT NULL,
    development_mode            boolean NOT NULL,
    access_token_type           smallint NOT NULL,
    access_token_role_assertion boolean NOT NULL,
    id_token_role_assertion     boolean NOT NULL,
    id_token_userinfo_assertion boolean NOT NULL,
    clock_skew_nanos            bigint NOT NULL,
    additional_origins          text[] COLLATE "C" NOT NULL,
    -- Whether it may act at the resource API with all the rights of those who sign in to
    -- it; else tokens of it are good within its organization only (SEC-235).
    trusted                     boolean NOT NULL DEFAULT false,
    -- The header typ of its access tokens is JWT, not at+jwt.
    plain_jwt_type              boolean NOT NULL DEFAULT false,
    sequence                    bigint NOT NULL,
    creation_date               timestamptz NOT NULL,
    change_date                 timestamptz NOT NULL,
    CONSTRAINT apps_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT apps_client_id_key UNIQUE (instance_id, client_id),
    CONSTRAINT apps_project_fkey FOREIGN KEY (instance_id, project_id, org_id) REFERENCES projects (instance_id, id, org_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX apps_name_key ON apps (instance_id, project_id, name_folded);
CREATE INDEX apps_by_creation_date ON apps (instance_id, creation_date, id);
CREATE INDEX apps_by_change_date ON apps (instance_id, change_date, id);
CREATE INDEX apps_by_name ON apps (instance_id, name, id);
CREATE INDEX apps_by_name_folded ON apps (instance_id, name_folded, id);
CREATE INDEX apps_by_state ON apps (instance_id, state, id);
CREATE INDEX apps_by_type ON apps (instance_id, type, id);
CREATE INDEX apps_by_origin ON apps USING gin (web_origins(redirect_uris, additional_origins));
CREATE INDEX apps_name_trigrams ON apps USING gin (name_folded gin_trgm_ops);
CREATE TRIGGER apps_counted AFTER INSERT ON apps
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER apps_uncounted AFTER DELETE ON apps
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- Public keys that assertions of a client are checked with.
CREATE TABLE app_keys (
    instance_id     text COLLATE "C" NOT NULL,
    id              text COLLATE "C" NOT NULL,
    org_id          text COLLATE "C" NOT NULL,
    project_id      text COLLATE "C" NOT NULL,
    app_id          text COLLATE "C" NOT NULL,
    public_key      text COLLATE "C" NOT NULL,
    expiration_date timestamptz,
    sequence        bigint NOT NULL,
    creation_date   timestamptz NOT NULL,
    change_date     timestamptz NOT NULL,
    CONSTRAINT app_keys_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT app_keys_app_fkey FOREIGN KEY (instance_id, app_id) REFERENCES apps ON DELETE CASCADE
);
CREATE INDEX app_keys_by_app ON app_keys (instance_id, app_id, creation_date, id);
CREATE TRIGGER app_keys_counted AFTER INSERT ON app_keys
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER app_keys_uncounted AFTER DELETE ON app_keys
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
