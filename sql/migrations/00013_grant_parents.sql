-- +goose Up
-- The grant that a token exchange began with: what comes of the exchange ends with it.
ALTER TABLE oauth_grants ADD COLUMN parent_id text COLLATE "C";
CREATE INDEX oauth_grants_by_parent ON oauth_grants (instance_id, parent_id) WHERE parent_id IS NOT NULL;

-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
