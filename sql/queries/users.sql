-- name: LoginDomain :one
-- What the login names of an organization's users end in.
SELECT coalesce((SELECT domain FROM domains WHERE instance_id = @instance_id AND org_id = @org_id::text AND is_primary), '')::text;

-- name: MembershipPlaces :many
-- The roles of a user and where they hold.
SELECT level, object_id, coalesce(org_id, '')::text AS org_id, coalesce(project_id, '')::text AS project_id,
    coalesce(project_grant_id, '')::text AS project_grant_id, roles
FROM memberships WHERE instance_id = @instance_id AND user_id = @user_id;

-- name: ServiceUserBySecret :one
-- The active service user of a client ID (its username) and a client secret. Usernames
-- are unique in their organization only; the secret, of 256 bits, tells which it is.
SELECT u.id, u.org_id::text AS org_id FROM users u JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE u.instance_id = @instance_id AND u.username_folded = @username_folded AND u.user_type = 2 AND u.state = 1 AND o.state = 1
    AND (u.secret_hash = @secret_hash OR u.old_secret_hash = @secret_hash AND u.old_secret_until > @now::timestamptz)
LIMIT 1;

-- name: PublicKeyOfUser :one
-- A key that an active service user signs with.
SELECT k.public_key, u.org_id::text AS org_id FROM machine_keys k
JOIN users u ON u.instance_id = k.instance_id AND u.id = k.user_id JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE k.instance_id = @instance_id AND k.id = @key_id AND k.user_id = @user_id AND u.state = 1 AND o.state = 1
    AND (k.expiration_date IS NULL OR k.expiration_date > @now::timestamptz);

-- name: RehashPassword :exec
-- Replaces a hash by a better one of the same password, unless it was changed.
UPDATE users SET password_hash = @password_hash::text WHERE instance_id = @instance_id AND id = @id AND password_hash = @old_hash::text;

-- name: HoldSchema :one
-- A schema as it is, which nobody changes or deletes until the transaction ends.
SELECT revision, state, schema FROM user_schemas WHERE instance_id = @instance_id AND id = @id FOR SHARE;

-- name: SchemaRevisions :many
-- The revisions that some users are on: two lists that belong together.
SELECT r.schema_id, r.revision, r.schema FROM user_schema_revisions r
JOIN unnest(@schema_ids::text[]) WITH ORDINALITY s (id, n) ON s.id = r.schema_id
JOIN unnest(@revisions::int[]) WITH ORDINALITY v (revision, n) ON v.n = s.n AND v.revision = r.revision
WHERE r.instance_id = @instance_id;
