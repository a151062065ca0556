-- +goose Up
-- Feature flags a level has decided; a flag that is absent is undecided. They go
-- with the instance they are of, even when they are set while that is deleted; ''
-- stands for the system, which no foreign key knows.
CREATE TABLE features (
    instance_id text COLLATE "C" PRIMARY KEY,
    flags       jsonb NOT NULL,
    sequence    bigint NOT NULL,
    change_date timestamptz NOT NULL,
    of_instance text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED,
    CONSTRAINT features_instance_fkey FOREIGN KEY (of_instance) REFERENCES instances ON DELETE CASCADE
);

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
