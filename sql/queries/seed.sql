-- name: LockSeed :exec
-- One node applies the seed, the others wait and find it applied.
SELECT pg_advisory_xact_lock(hashtextextended('seed', 0));

-- name: InstanceByName :one
SELECT id FROM instances WHERE name = @name;

-- name: CreateInstance :exec
INSERT INTO instances (id, name, sequence, creation_date, change_date) VALUES (@id, @name, @sequence, @now::timestamptz, @now::timestamptz);

-- name: SetDefaultOrg :exec
UPDATE instances SET default_org = @org_id WHERE id = @id;

-- name: DomainOwner :one
SELECT instance_id FROM instance_domains WHERE domain = @domain;

-- name: CreateInstanceDomain :exec
INSERT INTO instance_domains (instance_id, domain, is_primary)
VALUES (@instance_id, @domain, NOT EXISTS (SELECT FROM instance_domains p WHERE p.instance_id = @instance_id AND p.is_primary));

-- name: OrgByName :one
SELECT id FROM organizations WHERE instance_id = @instance_id AND name = @name;

-- name: CreateOrg :exec
INSERT INTO organizations (instance_id, id, name, sequence, creation_date, change_date)
VALUES (@instance_id, @id, @name, @sequence, @now::timestamptz, @now::timestamptz);

-- name: OrgDomainOwner :one
SELECT org_id FROM org_domains WHERE instance_id = @instance_id AND domain = @domain;

-- name: CreateOrgDomain :exec
INSERT INTO org_domains (instance_id, org_id, domain, is_primary)
VALUES (@instance_id, @org_id, @domain, NOT EXISTS (SELECT FROM org_domains p WHERE p.instance_id = @instance_id AND p.org_id = @org_id AND p.is_primary));

-- name: UserByLoginName :one
SELECT id, org_id, kind, password_hash FROM users WHERE instance_id = @instance_id AND login_name_key = @login_name_key;

-- name: CreateUser :exec
INSERT INTO users (instance_id, id, org_id, kind, login_name, login_name_key, email, password_hash, sequence, creation_date, change_date)
VALUES (@instance_id, @id, @org_id, @kind, @login_name, @login_name_key, @email, @password_hash, @sequence, @now::timestamptz, @now::timestamptz);

-- name: SetPasswordHash :exec
UPDATE users SET password_hash = @password_hash, sequence = @sequence, change_date = @now::timestamptz WHERE instance_id = @instance_id AND id = @id;

-- name: MembershipRoles :one
SELECT roles FROM memberships WHERE instance_id = @instance_id AND user_id = @user_id AND level = @level AND object_id = @object_id;

-- name: PutMembership :exec
INSERT INTO memberships (instance_id, user_id, level, object_id, roles) VALUES (@instance_id, @user_id, @level, @object_id, @roles)
ON CONFLICT (instance_id, user_id, level, object_id) DO UPDATE SET roles = excluded.roles;

-- name: TokenOfUser :one
SELECT id, token_hash, expiration_date FROM personal_access_tokens WHERE instance_id = @instance_id AND user_id = @user_id AND name = @name;

-- name: CreateToken :exec
INSERT INTO personal_access_tokens (instance_id, token_hash, id, user_id, name, expiration_date, creation_date)
VALUES (@instance_id, @token_hash, @id, @user_id, @name, @expiration_date, @now::timestamptz);

-- name: DeleteToken :exec
DELETE FROM personal_access_tokens WHERE instance_id = @instance_id AND id = @id;
