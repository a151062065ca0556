-- +goose Up
-- An application that is trusted within its organization: by whoever may give away everything there.
ALTER TABLE apps ADD COLUMN IF NOT EXISTS trusted_in_organization boolean NOT NULL DEFAULT false;

-- Applications that users let act for them at the resource API, with the roles that they handed over,
-- each as role@object; roles that they got since are not among them. Only tokens that were issued
-- since creation_date count, so that a consent that was taken back and given again revives none.
CREATE TABLE IF NOT EXISTS app_consents (
    instance_id   text COLLATE "C" NOT NULL,
    user_id       text COLLATE "C" NOT NULL,
    app_id        text COLLATE "C" NOT NULL,
    roles         text[] COLLATE "C" NOT NULL,
    creation_date timestamptz NOT NULL,
    CONSTRAINT app_consents_pkey PRIMARY KEY (instance_id, user_id, app_id),
    CONSTRAINT app_consents_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE,
    CONSTRAINT app_consents_app_fkey FOREIGN KEY (instance_id, app_id) REFERENCES apps ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS app_consents_by_app ON app_consents (instance_id, app_id);
