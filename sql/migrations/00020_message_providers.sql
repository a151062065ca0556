-- +goose Up
-- Who carries e-mails on: of the system (instance_id ''), of instances (org_id null) and of
-- organizations. A column that the type of a provider does not have is empty.
CREATE TABLE smtp_providers (
    instance_id           text COLLATE "C" NOT NULL,
    id                    text COLLATE "C" NOT NULL,
    org_id                text COLLATE "C",
    provider_type         text COLLATE "C" NOT NULL CHECK (provider_type IN ('smtp', 'http')),
    name                  text COLLATE "C" NOT NULL,
    name_folded           text COLLATE "C" NOT NULL,
    description           text COLLATE "C" NOT NULL,
    state_policy          smallint NOT NULL CHECK (state_policy BETWEEN 1 AND 3),
    sender_address        text COLLATE "C" NOT NULL,
    sender_name           text COLLATE "C" NOT NULL,
    reply_to_address      text COLLATE "C" NOT NULL,
    host                  text COLLATE "C" NOT NULL,
    tls                   smallint NOT NULL CHECK (tls BETWEEN 0 AND 3),
    auth                  smallint NOT NULL CHECK (auth BETWEEN 0 AND 5),
    username              text COLLATE "C" NOT NULL,
    password              bytea NOT NULL, -- sealed; empty: none
    token_endpoint        text COLLATE "C" NOT NULL,
    client_id             text COLLATE "C" NOT NULL,
    client_secret         bytea NOT NULL, -- sealed; empty: none
    scopes                text[] NOT NULL,
    endpoint              text COLLATE "C" NOT NULL,
    signing_key           bytea NOT NULL, -- sealed; empty: none
    old_signing_key       bytea,
    old_signing_key_until timestamptz,
    sequence              bigint NOT NULL,
    creation_date         timestamptz NOT NULL,
    change_date           timestamptz NOT NULL,
    of_instance           text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED REFERENCES instances ON DELETE CASCADE,
    CONSTRAINT smtp_providers_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT smtp_providers_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE
);
CREATE INDEX smtp_providers_by_org ON smtp_providers (instance_id, org_id);
CREATE INDEX smtp_providers_by_creation_date ON smtp_providers (instance_id, creation_date, id);
CREATE INDEX smtp_providers_by_name ON smtp_providers (instance_id, name, id);
CREATE INDEX smtp_providers_by_of_instance ON smtp_providers (of_instance);

-- Who carries text messages on: of instances. org_id is null; the mechanism of reusable
-- resources has it.
CREATE TABLE sms_providers (
    instance_id           text COLLATE "C" NOT NULL,
    id                    text COLLATE "C" NOT NULL,
    org_id                text COLLATE "C",
    provider_type         text COLLATE "C" NOT NULL CHECK (provider_type IN ('twilio', 'http')),
    name                  text COLLATE "C" NOT NULL,
    name_folded           text COLLATE "C" NOT NULL,
    description           text COLLATE "C" NOT NULL,
    state_policy          smallint NOT NULL CHECK (state_policy BETWEEN 1 AND 3),
    sid                   text COLLATE "C" NOT NULL,
    token                 bytea NOT NULL, -- sealed; empty: none
    sender_number         text COLLATE "C",
    messaging_service_sid text COLLATE "C",
    endpoint              text COLLATE "C" NOT NULL,
    signing_key           bytea NOT NULL, -- sealed; empty: none
    old_signing_key       bytea,
    old_signing_key_until timestamptz,
    sequence              bigint NOT NULL,
    creation_date         timestamptz NOT NULL,
    change_date           timestamptz NOT NULL,
    of_instance           text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED REFERENCES instances ON DELETE CASCADE,
    CONSTRAINT sms_providers_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT sms_providers_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE,
    CONSTRAINT sms_providers_sender_check CHECK (sender_number IS NULL OR messaging_service_sid IS NULL)
);
CREATE INDEX sms_providers_by_org ON sms_providers (instance_id, org_id);
CREATE INDEX sms_providers_by_creation_date ON sms_providers (instance_id, creation_date, id);
CREATE INDEX sms_providers_by_name ON sms_providers (instance_id, name, id);
CREATE INDEX sms_providers_by_of_instance ON sms_providers (of_instance);
