-- +goose Up
-- How often everything that a user was signed in to was ended: by another password, a
-- factor or a credential that was removed, a lock, a deactivation (package signout).
-- What was issued before names the generation it was issued in and is good in that
-- one only, however late it is written: no statement that ends things has to find
-- what others are about to add (SEC-097).
ALTER TABLE users ADD COLUMN generation integer NOT NULL DEFAULT 0;
ALTER TABLE oauth_grants
    ADD COLUMN user_generation integer NOT NULL DEFAULT 0,
    -- The tokens that were exchanged for it: it ends with each of them (RFC 8693).
    ADD COLUMN origins text[] COLLATE "C";
-- What was revoked before stays so; what is good now is of the first generation.
CREATE INDEX oauth_grants_by_origin ON oauth_grants USING gin (origins) WHERE origins IS NOT NULL;

-- A personal access token that is deleted is a token that was revoked, for those that
-- it was exchanged for; they live no longer than a day.
-- +goose StatementBegin
CREATE FUNCTION revoke_deleted_tokens() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO revoked_tokens (instance_id, id, expiration_date)
    SELECT g.instance_id, g.id, now() + interval '1 day' FROM gone_rows g ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER personal_access_tokens_revoked AFTER DELETE ON personal_access_tokens REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION revoke_deleted_tokens();

-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
