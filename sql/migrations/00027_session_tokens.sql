-- +goose NO TRANSACTION
-- +goose Up
-- A browser is found by the hashes of its tokens (BrowserSessions). A plan that is made while
-- the table is empty takes any index that begins with the instance, and then reads all
-- sessions of the instance for each page until the table is analyzed. So what is looked for
-- is what a function makes of the hash, which is called expensive: a plan that computes it
-- instead of finding it in the index never is the cheapest. It is no SQL function, because
-- those are looked through.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION token_key(hash bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 100000 AS $$
BEGIN
    RETURN hash;
END
$$;
-- +goose StatementEnd
DROP INDEX CONCURRENTLY IF EXISTS sessions_by_token;
-- Nodes of the release before use sessions_token_key; a later migration drops it.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS sessions_by_token ON sessions (instance_id, token_key(token_hash));
