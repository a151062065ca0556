-- name: LoginDomain :one
-- What the login names of an organization's users end in.
SELECT coalesce((SELECT domain FROM domains WHERE instance_id = @instance_id AND org_id = @org_id::text AND is_primary), '')::text;

-- name: MembershipPlaces :many
-- The roles of a user and where they hold.
SELECT level, object_id, coalesce(org_id, '')::text AS org_id, coalesce(project_id, '')::text AS project_id,
    coalesce(project_grant_id, '')::text AS project_grant_id, roles
FROM memberships WHERE instance_id = @instance_id AND user_id = @user_id;

-- name: RehashPassword :exec
-- Replaces a hash by a better one of the same password, unless it was changed.
UPDATE users SET password_hash = @password_hash::text WHERE instance_id = @instance_id AND id = @id AND password_hash = @old_hash::text;

-- name: HoldSchema :one
-- A schema as it is, which nobody changes or deletes until the transaction ends.
SELECT revision, state, schema FROM user_schemas WHERE instance_id = @instance_id AND id = @id FOR SHARE;

-- name: SchemaRevisions :many
-- The revisions that some users are on: two lists that belong together.
SELECT r.schema_id, r.revision, r.schema FROM user_schema_revisions r
JOIN (SELECT unnest(@schema_ids::text[]) AS schema_id, unnest(@revisions::int[]) AS revision) n ON n.schema_id = r.schema_id AND n.revision = r.revision
WHERE r.instance_id = @instance_id;
