-- +goose Up
-- Nothing disappears without an event: what goes with an organization or an
-- instance says so too.
CREATE TRIGGER domains_gone AFTER DELETE ON domains REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('domain', 'domain.removed', 'id', 'domain', 'domain');
CREATE TRIGGER organizations_gone AFTER DELETE ON organizations REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('org', 'org.removed', 'id');
CREATE TRIGGER user_schemas_gone AFTER DELETE ON user_schemas REFERENCING OLD TABLE AS gone_rows
    FOR EACH STATEMENT EXECUTE FUNCTION append_removed('user_schema', 'user_schema.deleted', 'id');

-- Words about languages and flags go with whom they are of, even when they are
-- set while that is deleted; '' stands for none, which no foreign key knows.
DELETE FROM language_settings l WHERE l.instance_id <> '' AND NOT EXISTS (SELECT FROM instances i WHERE i.id = l.instance_id);
DELETE FROM language_settings l WHERE l.org_id <> ''
    AND NOT EXISTS (SELECT FROM organizations o WHERE o.instance_id = l.instance_id AND o.id = l.org_id);
DELETE FROM features f WHERE f.instance_id <> '' AND NOT EXISTS (SELECT FROM instances i WHERE i.id = f.instance_id);
ALTER TABLE language_settings
    ADD COLUMN of_instance text COLLATE "C" GENERATED ALWAYS AS (nullif(instance_id, '')) STORED,
    ADD COLUMN of_org text COLLATE "C" GENERATED ALWAYS AS (nullif(org_id, '')) STORED,
    ADD CONSTRAINT language_settings_instance_fkey FOREIGN KEY (of_instance) REFERENCES instances ON DELETE CASCADE,
    ADD CONSTRAINT language_settings_org_fkey FOREIGN KEY (of_instance, of_org) REFERENCES organizations ON DELETE CASCADE;
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
ALTER TABLE language_settings DROP COLUMN of_instance, DROP COLUMN of_org;
DROP TRIGGER user_schemas_gone ON user_schemas;
DROP TRIGGER organizations_gone ON organizations;
DROP TRIGGER domains_gone ON domains;
