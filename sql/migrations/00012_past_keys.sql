-- +goose Up
-- A key that left the key set stays for a while, without its private part: the ID
-- tokens it signed are hints at logout long after they ended.
ALTER TABLE signing_keys DROP CONSTRAINT signing_keys_state_check;
ALTER TABLE signing_keys ADD CONSTRAINT signing_keys_state_check CHECK (state BETWEEN 1 AND 4);

-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
