-- +goose Up
-- How long what an application gets is good; 0 is what the settings say. Nodes of the release before
-- go by their constants, and leave these as they are.
ALTER TABLE apps
    ADD COLUMN access_token_lifetime_nanos bigint NOT NULL DEFAULT 0,
    ADD COLUMN id_token_lifetime_nanos bigint NOT NULL DEFAULT 0,
    ADD COLUMN refresh_token_idle_lifetime_nanos bigint NOT NULL DEFAULT 0,
    ADD COLUMN refresh_token_lifetime_nanos bigint NOT NULL DEFAULT 0;
