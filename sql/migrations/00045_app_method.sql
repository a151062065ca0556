-- +goose Up
-- An application that takes its secret either way (auth_method_type 5) has one to nodes of this
-- release. Those of the release before do not know the method, take it for one without a secret, and
-- would drop the secret with the next change of its settings.
-- +goose StatementBegin
CREATE FUNCTION keep_secret() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.secret_hash := OLD.secret_hash;
    NEW.old_secret_hash := OLD.old_secret_hash;
    NEW.old_secret_until := OLD.old_secret_until;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER keep_secret BEFORE UPDATE OF secret_hash ON apps FOR EACH ROW
    WHEN (NEW.auth_method_type = 5 AND OLD.auth_method_type = 5 AND NEW.secret_hash IS NULL)
    EXECUTE FUNCTION keep_secret();
