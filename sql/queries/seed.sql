-- name: LockSeed :exec
-- One node applies the seed, the others wait and find it applied.
SELECT pg_advisory_xact_lock(hashtextextended('seed', 0));

-- name: InstanceByName :one
SELECT id FROM instances WHERE name = @name;

-- name: CreateInstance :exec
INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES (@id, @name, @name_folded, @sequence, @now::timestamptz, @now::timestamptz);

-- name: SetDefaultOrg :exec
UPDATE instances SET default_org = @org_id, sequence = greatest(sequence, @sequence), change_date = @now::timestamptz WHERE id = @id;

-- name: DomainOwner :one
SELECT instance_id, coalesce(org_id, '')::text AS org_id FROM domains
WHERE domain = @domain AND is_verified AND (org_id IS NULL) = @of_instance::bool AND (org_id IS NULL OR instance_id = @instance_id);

-- name: SeedDomain :exec
INSERT INTO domains (instance_id, id, org_id, domain, domain_folded, is_verified, is_primary, validation_type, validation_token, sequence, creation_date, change_date)
VALUES (@instance_id, @id, sqlc.narg(org_id), @domain, @domain, true,
    NOT EXISTS (SELECT FROM domains p WHERE p.instance_id = @instance_id AND p.org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND p.is_primary),
    0, '', @sequence, @now::timestamptz, @now::timestamptz);

-- name: OrgByName :one
SELECT id FROM organizations WHERE instance_id = @instance_id AND name = @name;

-- name: CreateOrg :exec
INSERT INTO organizations (instance_id, id, name, name_folded, sequence, creation_date, change_date)
VALUES (@instance_id, @id, @name, @name_folded, @sequence, @now::timestamptz, @now::timestamptz);

-- name: UserByUsername :one
SELECT id, user_type, password_hash FROM users WHERE instance_id = @instance_id AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND username_folded = @username_folded;

-- name: SeedUser :exec
INSERT INTO users (instance_id, id, org_id, user_type, username, username_folded, display_name, display_name_folded, email, email_folded, is_email_verified, sequence, creation_date, change_date)
VALUES (@instance_id, @id, sqlc.narg(org_id), @user_type, @username, @username_folded, @username, @username_folded, @email, @email, true, @sequence, @now::timestamptz, @now::timestamptz);

-- name: SetPasswordHash :exec
UPDATE users SET password_hash = @password_hash, sequence = @sequence, change_date = @now::timestamptz WHERE instance_id = @instance_id AND id = @id;

-- name: MembershipRoles :one
SELECT roles FROM memberships WHERE instance_id = @instance_id AND user_id = @user_id AND level = @level AND object_id = @object_id;

-- name: PutMembership :exec
INSERT INTO memberships (instance_id, id, user_id, level, object_id, org_id, roles, sequence, creation_date, change_date)
VALUES (@instance_id, @id, @user_id, @level, @object_id, sqlc.narg(org_id), @roles, @sequence, @now::timestamptz, @now::timestamptz)
ON CONFLICT ON CONSTRAINT memberships_user_key DO UPDATE SET roles = excluded.roles, sequence = excluded.sequence, change_date = excluded.change_date;

-- name: TokenOfUser :one
SELECT id, token_hash, expiration_date FROM personal_access_tokens WHERE instance_id = @instance_id AND user_id = @user_id AND name = @name;

-- name: CreateToken :exec
INSERT INTO personal_access_tokens (instance_id, token_hash, id, org_id, user_id, name, expiration_date, sequence, creation_date, change_date)
VALUES (@instance_id, @token_hash, @id, sqlc.narg(org_id), @user_id, @name, @expiration_date, @sequence, @now::timestamptz, @now::timestamptz);

-- name: DeleteToken :exec
DELETE FROM personal_access_tokens WHERE instance_id = @instance_id AND id = @id;
