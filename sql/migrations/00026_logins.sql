-- +goose Up
-- What a log-in costs the database.

-- The wrong passwords that strangers gave are those of the browser '': a log-in does not
-- change the user's row, which is wide and has twenty indexes. What nodes of the release
-- before count while they still run stands in failed_password_attempts of users, which
-- nobody else reads: until they are gone there are tries on both sides.
ALTER TABLE browser_tries SET (fillfactor = 70);

-- A log-in makes a session: it locks neither the instance, as the key of every session
-- would, nor the user for longer than it takes to see that they may sign in (BeginSession).
-- What the keys removed with an instance or a user these triggers remove, and the events of
-- that are those of every removal (sessions_gone).
-- squawk-ignore ban-drop-constraint
ALTER TABLE sessions DROP CONSTRAINT sessions_instance_id_fkey, DROP CONSTRAINT sessions_user_fkey;
-- +goose StatementBegin
CREATE FUNCTION end_sessions_of_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sessions s USING gone_rows u WHERE s.instance_id = u.instance_id AND s.user_id = u.id;
    RETURN NULL;
END
$$;
CREATE FUNCTION end_sessions_of_instances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sessions s USING gone_rows i WHERE s.instance_id = i.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER users_end_sessions AFTER DELETE ON users REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION end_sessions_of_users();
CREATE TRIGGER instances_end_sessions AFTER DELETE ON instances REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION end_sessions_of_instances();
