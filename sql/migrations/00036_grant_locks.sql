-- +goose Up
-- The grants of users who are gone are locked in the order of their IDs, as everywhere
-- (RevokeGrant): else this and a rotation could wait for each other.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM oauth_grants g WHERE (g.instance_id, g.user_id) IN (SELECT u.instance_id, u.id FROM gone_rows u) ORDER BY g.instance_id, g.id FOR UPDATE;
    DELETE FROM oauth_grants g USING gone_rows u WHERE g.instance_id = u.instance_id AND g.user_id = u.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
