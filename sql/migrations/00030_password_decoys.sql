-- +goose Up
-- Finds, for a name that nobody has, somebody whose password is compared instead, so
-- that it takes as long as for a name that somebody has (SEC-170).
CREATE INDEX users_password_decoy ON users (instance_id, hashtextextended(id, 0)) WHERE password_hash IS NOT NULL;

-- +goose Down
DROP INDEX users_password_decoy;
