-- +goose Up
-- What the system (instance_id ''), instances (org_id '') and organizations say
-- themselves about a subject: languages, branding, message_texts/otp_email/de. A property
-- that is not there is inherited.
CREATE TABLE settings (
    instance_id text COLLATE "C" NOT NULL,
    org_id      text COLLATE "C" NOT NULL,
    subject     text COLLATE "C" NOT NULL,
    properties  jsonb NOT NULL,
    sequence    bigint NOT NULL,
    change_date timestamptz NOT NULL,
    -- The context as foreign keys, so that its word goes with it; null above.
    of_instance text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED REFERENCES instances ON DELETE CASCADE,
    of_org      text COLLATE "C" GENERATED ALWAYS AS (nullif(org_id, '')) STORED,
    CONSTRAINT settings_pkey PRIMARY KEY (instance_id, org_id, subject),
    CONSTRAINT settings_org_fkey FOREIGN KEY (instance_id, of_org) REFERENCES organizations ON DELETE CASCADE
);

INSERT INTO settings (instance_id, org_id, subject, properties, sequence, change_date)
SELECT instance_id, org_id, 'languages', jsonb_strip_nulls(jsonb_build_object(
    'defaultLanguage', CASE WHEN default_language IS NOT NULL THEN jsonb_build_object('key', default_language) END,
    'restrictedLanguages', CASE WHEN restricted_languages IS NOT NULL THEN jsonb_build_object('languages',
        (SELECT jsonb_agg(jsonb_build_object('key', key) ORDER BY at) FROM unnest(restricted_languages) WITH ORDINALITY AS r (key, at))) END
)), sequence, change_date FROM language_settings;
-- squawk-ignore ban-drop-table
DROP TABLE language_settings;

-- The pictures of branding, as they are served: by what is in them.
CREATE TABLE setting_images (
    instance_id text COLLATE "C" NOT NULL,
    org_id      text COLLATE "C" NOT NULL,
    subject     text COLLATE "C" NOT NULL,
    property    text COLLATE "C" NOT NULL,
    digest      text COLLATE "C" NOT NULL,
    content     bytea NOT NULL,
    CONSTRAINT setting_images_pkey PRIMARY KEY (instance_id, org_id, subject, property),
    CONSTRAINT setting_images_setting_fkey FOREIGN KEY (instance_id, org_id, subject) REFERENCES settings ON DELETE CASCADE
);
CREATE INDEX setting_images_by_digest ON setting_images (digest, instance_id);
