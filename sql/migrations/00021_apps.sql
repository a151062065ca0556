-- +goose Up
ALTER TABLE apps
    -- Whether it may act at the resource API with all the rights of those who sign in to
    -- it; else tokens of it are good within its organization only (SEC-235).
    ADD COLUMN trusted boolean NOT NULL DEFAULT false,
    -- The header typ of its access tokens is JWT, not at+jwt.
    ADD COLUMN plain_jwt_type boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE apps DROP COLUMN trusted, DROP COLUMN plain_jwt_type;
