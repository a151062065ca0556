-- +goose Up
-- What contexts say of reusable resources that they inherit: instances (org_id '') of
-- those of the system, organizations of those of both. What nobody speaks of is
-- inherited. kind is the table of the resource, resource_instance_id where that is from.
CREATE TABLE state_policies (
    instance_id          text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    org_id               text COLLATE "C" NOT NULL,
    kind                 text COLLATE "C" NOT NULL,
    resource_instance_id text COLLATE "C" NOT NULL,
    resource_id          text COLLATE "C" NOT NULL,
    state_policy         smallint NOT NULL CHECK (state_policy BETWEEN 1 AND 3), -- activate, deactivate, inherit
    sequence             bigint NOT NULL,
    change_date          timestamptz NOT NULL,
    -- The organization as a foreign key, so that its word goes with it; null above.
    of_org               text COLLATE "C" GENERATED ALWAYS AS (nullif(org_id, '')) STORED,
    CONSTRAINT state_policies_pkey PRIMARY KEY (instance_id, org_id, kind, resource_instance_id, resource_id),
    CONSTRAINT state_policies_org_fkey FOREIGN KEY (instance_id, of_org) REFERENCES organizations ON DELETE CASCADE
);
-- A resource that is deleted takes along what was said of it, wherever that was.
CREATE INDEX state_policies_by_resource ON state_policies (kind, resource_instance_id, resource_id);

-- is_effective says whether a reusable resource is active in a context: where it is defined
-- by its own policy, and below it step by step; the first that deactivates it ends it for
-- everything below (document 1, "Reusable resources"; impl/core/resource/reusable.go says the same).
-- +goose StatementBegin
CREATE FUNCTION is_effective(p_kind text, p_instance_id text, p_org_id text, p_id text, p_policy smallint, at_instance_id text, at_org_id text)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN p_instance_id = '' AND at_instance_id <> '' AND i.state_policy = 2 THEN false
        WHEN p_org_id IS NULL AND at_org_id <> '' AND o.state_policy <> 3 THEN o.state_policy = 1
        WHEN p_instance_id = '' AND at_instance_id <> '' AND i.state_policy = 1 THEN true
        ELSE p_policy <> 2
    END
    FROM (SELECT 1) one
    LEFT JOIN state_policies i ON i.instance_id = at_instance_id AND i.org_id = '' AND i.kind = p_kind AND i.resource_instance_id = p_instance_id AND i.resource_id = p_id
    LEFT JOIN state_policies o ON o.instance_id = at_instance_id AND o.org_id = at_org_id AND o.kind = p_kind AND o.resource_instance_id = p_instance_id AND o.resource_id = p_id
$$;
-- +goose StatementEnd

-- Identity providers of the system (instance_id ''), of instances (org_id null) and of
-- organizations. A column that the type of a provider does not have is empty.
CREATE TABLE idps (
    instance_id            text COLLATE "C" NOT NULL,
    id                     text COLLATE "C" NOT NULL,
    org_id                 text COLLATE "C",
    type                   smallint NOT NULL CHECK (type BETWEEN 1 AND 12),
    name                   text COLLATE "C" NOT NULL,
    name_folded            text COLLATE "C" NOT NULL,
    state_policy           smallint NOT NULL CHECK (state_policy BETWEEN 1 AND 3),
    is_linking_allowed     boolean NOT NULL,
    is_creation_allowed    boolean NOT NULL,
    is_auto_creation       boolean NOT NULL,
    is_auto_update         boolean NOT NULL,
    auto_linking           smallint NOT NULL CHECK (auto_linking BETWEEN 0 AND 2),
    client_id              text COLLATE "C" NOT NULL,
    client_secret          bytea NOT NULL, -- sealed; empty: none
    scopes                 text[] NOT NULL,
    issuer                 text COLLATE "C" NOT NULL,
    is_id_token_mapping    boolean NOT NULL,
    authorization_endpoint text COLLATE "C" NOT NULL,
    token_endpoint         text COLLATE "C" NOT NULL,
    user_endpoint          text COLLATE "C" NOT NULL,
    id_attribute           text COLLATE "C" NOT NULL,
    tenant                 text COLLATE "C" NOT NULL,
    is_email_verified      boolean NOT NULL,
    team_id                text COLLATE "C" NOT NULL,
    key_id                 text COLLATE "C" NOT NULL,
    private_key            bytea NOT NULL, -- sealed; empty: none
    sequence               bigint NOT NULL,
    creation_date          timestamptz NOT NULL,
    change_date            timestamptz NOT NULL,
    of_instance            text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED REFERENCES instances ON DELETE CASCADE,
    CONSTRAINT idps_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT idps_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE
);
CREATE INDEX idps_by_org ON idps (instance_id, org_id);
CREATE INDEX idps_by_creation_date ON idps (instance_id, creation_date, id);
CREATE INDEX idps_by_name ON idps (instance_id, name, id);
CREATE INDEX idps_by_of_instance ON idps (of_instance);
