-- +goose NO TRANSACTION
-- +goose Up
-- What tokens for an application are signed with; 0 is what the instance signs with.
ALTER TABLE apps ADD COLUMN IF NOT EXISTS id_token_signed_response_alg smallint NOT NULL DEFAULT 0;
DROP INDEX CONCURRENTLY IF EXISTS apps_by_algorithm;
CREATE INDEX CONCURRENTLY IF NOT EXISTS apps_by_algorithm ON apps (instance_id, id_token_signed_response_alg) WHERE id_token_signed_response_alg <> 0;
-- Keys for applications that ask for another algorithm than the instance's. Their life is all
-- in their times, so they need no states: such a key is in the state retired, with which it is in
-- the key set of nodes of the release before, too, and they verify by it and put it away at
-- its due date. It signs from here until that date less the life of what it signed.
ALTER TABLE signing_keys ADD COLUMN IF NOT EXISTS signs_from timestamptz;
