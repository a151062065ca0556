-- name: InstanceByDomain :one
SELECT i.id, i.name FROM instance_domains d JOIN instances i ON i.id = d.instance_id WHERE d.domain = @domain;

-- name: InstanceByID :one
SELECT id, name FROM instances WHERE id = @id;

-- name: FirstInstances :many
-- Two are enough to know whether there is exactly one.
SELECT id, name FROM instances ORDER BY id LIMIT 2;

-- name: PrimaryDomains :many
-- For the operator's log when a host is unknown.
SELECT domain FROM instance_domains WHERE is_primary ORDER BY domain LIMIT 20;

-- name: OrgByID :one
SELECT id FROM organizations WHERE instance_id = @instance_id AND id = @id;

-- name: OrgByDomain :one
SELECT org_id FROM org_domains WHERE instance_id = @instance_id AND domain = @domain;

-- name: CallerByToken :one
-- The user behind a personal access token, if both are good now. Tokens of the
-- system ('') are good on every instance.
SELECT t.instance_id, t.id AS token_id, t.expiration_date, u.id AS user_id, u.org_id
FROM personal_access_tokens t
JOIN users u ON u.instance_id = t.instance_id AND u.id = t.user_id
WHERE t.instance_id IN (@instance_id, '') AND t.token_hash = @token_hash AND u.state = 'active'
LIMIT 1;

-- name: MembershipsOfUser :many
SELECT level, object_id, roles FROM memberships WHERE instance_id = @instance_id AND user_id = @user_id;

-- name: FeaturesOf :one
SELECT * FROM features WHERE instance_id = @instance_id;

-- name: LockFeatures :one
-- Makes the row if it is not there, so that there is one to lock.
INSERT INTO features AS f (instance_id, flags, sequence, change_date) VALUES (@instance_id, '{}', 0, @now::timestamptz)
ON CONFLICT (instance_id) DO UPDATE SET flags = f.flags
RETURNING *;

-- name: UpdateFeatures :exec
UPDATE features SET flags = @flags, sequence = @sequence, change_date = @change_date WHERE instance_id = @instance_id;
