-- +goose Up
CREATE TABLE instances (
    id                        text COLLATE "C" PRIMARY KEY,
    name                      text COLLATE "C" NOT NULL,
    name_folded               text COLLATE "C" NOT NULL,
    default_org               text COLLATE "C" NOT NULL DEFAULT '',
    -- The limits that the system sets.
    blocked                   boolean NOT NULL DEFAULT false,
    audit_log_retention_nanos bigint NOT NULL DEFAULT 0,
    -- Whether people may register themselves at the login.
    allow_registration        boolean NOT NULL DEFAULT false,
    sequence                  bigint NOT NULL,
    creation_date             timestamptz NOT NULL,
    change_date               timestamptz NOT NULL,
    CONSTRAINT instances_name_key UNIQUE (name),
    CONSTRAINT instances_id_check CHECK (id <> '')
);

CREATE TABLE organizations (
    instance_id   text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id            text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    name_folded   text COLLATE "C" NOT NULL,
    state         smallint NOT NULL DEFAULT 1,
    sequence      bigint NOT NULL,
    creation_date timestamptz NOT NULL,
    change_date   timestamptz NOT NULL,
    CONSTRAINT organizations_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT organizations_name_key UNIQUE (instance_id, name)
);
CREATE INDEX organizations_by_creation_date ON organizations (instance_id, creation_date, id);
CREATE INDEX organizations_by_change_date ON organizations (instance_id, change_date, id);
CREATE INDEX organizations_by_name_folded ON organizations (instance_id, name_folded);
CREATE INDEX organizations_name_trigrams ON organizations USING gin (name_folded gin_trgm_ops);
CREATE TRIGGER organizations_counted AFTER INSERT ON organizations
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER organizations_uncounted AFTER DELETE ON organizations
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

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
-- Hosts are unique over the system, domains of organizations in their instance.
CREATE UNIQUE INDEX domains_host_key ON domains (domain) WHERE org_id IS NULL AND is_verified;
CREATE UNIQUE INDEX domains_org_domain_key ON domains (instance_id, domain) WHERE org_id IS NOT NULL AND is_verified;
CREATE UNIQUE INDEX domains_primary_key ON domains (instance_id, org_id) NULLS NOT DISTINCT WHERE is_primary;
CREATE INDEX domains_by_domain ON domains (instance_id, domain);
CREATE INDEX domains_by_creation_date ON domains (instance_id, creation_date, id);
-- Login names end in domains.
CREATE INDEX domains_domain_trigrams ON domains USING gin (domain_folded gin_trgm_ops);
CREATE TRIGGER domains_counted AFTER INSERT ON domains
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER domains_uncounted AFTER DELETE ON domains
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
