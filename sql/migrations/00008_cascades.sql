-- +goose Up
-- Nothing disappears without an event: what goes with an organization or an
-- instance says so too.
CREATE TRIGGER domains_gone AFTER DELETE ON domains REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('domain', 'domain.removed', 'id', 'domain', 'domain');
CREATE TRIGGER organizations_gone AFTER DELETE ON organizations REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('org', 'org.removed', 'id');
CREATE TRIGGER user_schemas_gone AFTER DELETE ON user_schemas REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('user_schema', 'user_schema.deleted', 'id');

-- Flags go with the instance they are of, even when they are set while that is
-- deleted; '' stands for the system, which no foreign key knows.
DELETE FROM features f WHERE f.instance_id <> '' AND NOT EXISTS (SELECT FROM instances i WHERE i.id = f.instance_id);
ALTER TABLE features
    ADD COLUMN of_instance text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED,
    ADD CONSTRAINT features_instance_fkey FOREIGN KEY (of_instance) REFERENCES instances ON DELETE CASCADE;

-- What refers without a cascade goes with the instance too, but not before what it
-- refers to: the deletion of an instance checks these when it is done.
ALTER TABLE execution_targets ALTER CONSTRAINT execution_targets_target_fkey DEFERRABLE INITIALLY IMMEDIATE;
ALTER TABLE execution_includes ALTER CONSTRAINT execution_includes_include_fkey DEFERRABLE INITIALLY IMMEDIATE;
ALTER TABLE users ALTER CONSTRAINT users_schema_fkey DEFERRABLE INITIALLY IMMEDIATE;

-- +goose Down
ALTER TABLE users ALTER CONSTRAINT users_schema_fkey NOT DEFERRABLE;
ALTER TABLE execution_includes ALTER CONSTRAINT execution_includes_include_fkey NOT DEFERRABLE;
ALTER TABLE execution_targets ALTER CONSTRAINT execution_targets_target_fkey NOT DEFERRABLE;
ALTER TABLE features DROP COLUMN of_instance;
DROP TRIGGER user_schemas_gone ON user_schemas;
DROP TRIGGER organizations_gone ON organizations;
DROP TRIGGER domains_gone ON domains;
