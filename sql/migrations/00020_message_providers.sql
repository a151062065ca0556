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

-- What became of messages is seen, and what was given up sent again. sequence is that of
-- the last replay; a code is good until expiration_date.
ALTER TABLE messages
    ADD COLUMN sequence bigint NOT NULL DEFAULT 0,
    ADD COLUMN change_date timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN dead_reason smallint NOT NULL DEFAULT 0, -- attempts, expired, refused
    ADD COLUMN all_attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN expiration_date timestamptz;
-- Nobody has many messages yet: until now there was nobody to carry them on.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX messages_by_instance ON messages (instance_id, creation_date, id);
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX messages_by_org ON messages (instance_id, org_id, creation_date, id);
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX messages_by_recipient ON messages (instance_id, lower(recipient), creation_date);
INSERT INTO row_counts (instance_id, resource, slot, n) SELECT instance_id, 'messages', 0, count(*) FROM messages GROUP BY instance_id;
CREATE TRIGGER messages_counted AFTER INSERT ON messages
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER messages_uncounted AFTER DELETE ON messages
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- Attempts to hand a message over are kept with those of deliveries, under its ID.
ALTER TABLE delivery_attempts ADD COLUMN provider text COLLATE "C" NOT NULL DEFAULT '';
-- +goose StatementBegin
CREATE FUNCTION attempts_of_gone_messages() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM delivery_attempts a USING gone_rows g WHERE a.instance_id = g.instance_id AND a.delivery = g.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER attempts_of_gone_messages AFTER DELETE ON messages
    REFERENCING OLD TABLE AS gone_rows FOR EACH STATEMENT EXECUTE FUNCTION attempts_of_gone_messages();

-- Whether the senders of e-mails have to be at a verified domain.
ALTER TABLE instances ADD COLUMN smtp_sender_address_matches_instance_domain boolean NOT NULL DEFAULT false;
CREATE OR REPLACE VIEW instance_rows AS SELECT t.id, t.name, t.name_folded, t.default_org, t.blocked, t.audit_log_retention_nanos, t.allow_registration,
    t.sequence, t.creation_date, t.change_date,
    coalesce((SELECT d.domain FROM domains d WHERE d.instance_id = t.id AND d.org_id IS NULL AND d.is_primary), '')::text AS primary_domain,
    t.smtp_sender_address_matches_instance_domain
FROM instances t;
