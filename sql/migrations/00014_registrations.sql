-- +goose Up
-- Who registered and has not verified their address yet is an inactive user who has a
-- code for it (user_codes, purpose 1): only registering makes such codes. For that to
-- be the proof, the code has to go when the user becomes active, however that comes
-- about: whom an administrator deactivates later is no registration any more, which
-- another one could replace or its own code finish.
DELETE FROM user_codes c USING users u WHERE c.purpose = 1 AND u.instance_id = c.instance_id AND u.id = c.user_id AND u.state <> 2;
-- +goose StatementBegin
CREATE FUNCTION end_registration() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM user_codes WHERE instance_id = NEW.instance_id AND user_id = NEW.id AND purpose = 1;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER users_registered AFTER UPDATE OF state ON users
    FOR EACH ROW WHEN (OLD.state = 2 AND NEW.state <> 2) EXECUTE FUNCTION end_registration();

-- The sweeper looks for those who never came back.
CREATE INDEX user_codes_by_expiration_date ON user_codes (expiration_date) WHERE purpose = 1;

-- +goose Down
DROP INDEX user_codes_by_expiration_date;
DROP TRIGGER users_registered ON users;
DROP FUNCTION end_registration;
