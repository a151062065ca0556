-- +goose Up
-- Whether a verified address counts in the whole instance: its user read a code there,
-- or who vouches for it has a say there, or over its domain. The word of somebody else
-- counts in the user's own organization (SEC-174).
ALTER TABLE users ADD COLUMN is_email_proven boolean NOT NULL DEFAULT false;
UPDATE users SET is_email_proven = is_email_verified;

-- +goose Down
ALTER TABLE users DROP COLUMN is_email_proven;
