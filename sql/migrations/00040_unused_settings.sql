-- +goose Up
-- They were accepted and did nothing.
ALTER TABLE apps DROP COLUMN skip_native_app_success_page, DROP COLUMN back_channel_logout_uri;
ALTER TABLE projects DROP COLUMN private_labeling_setting;

-- +goose Down
ALTER TABLE apps
    ADD COLUMN skip_native_app_success_page boolean NOT NULL DEFAULT false,
    ADD COLUMN back_channel_logout_uri text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE projects ADD COLUMN private_labeling_setting smallint NOT NULL DEFAULT 0;
