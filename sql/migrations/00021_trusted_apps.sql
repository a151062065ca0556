-- +goose Up
-- Whether an application may act at the resource API with all the rights of those who
-- sign in to it; else tokens of it are good within its organization only (SEC-235).
ALTER TABLE apps ADD COLUMN trusted boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE apps DROP COLUMN trusted;
