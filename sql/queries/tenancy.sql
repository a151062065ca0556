-- name: InstanceByDomain :one
-- Only a validated domain routes (SEC-222).
SELECT i.id, i.name, i.default_org, i.blocked, i.allow_registration, EXISTS (SELECT FROM moved_instances m WHERE m.instance_id = i.id)::bool AS moved
FROM domains d JOIN instances i ON i.id = d.instance_id WHERE d.domain = @domain AND d.org_id IS NULL AND d.is_verified;

-- name: InstanceByID :one
SELECT id, name, default_org, blocked, allow_registration, EXISTS (SELECT FROM moved_instances m WHERE m.instance_id = id)::bool AS moved FROM instances WHERE id = @id;

-- name: FirstInstances :many
-- Two are enough to know whether there is exactly one.
SELECT id, name, default_org, blocked, allow_registration, EXISTS (SELECT FROM moved_instances m WHERE m.instance_id = id)::bool AS moved FROM instances ORDER BY id LIMIT 2;

-- name: PrimaryDomains :many
-- For the operator's log when a host is unknown.
SELECT domain FROM domains WHERE is_primary AND org_id IS NULL ORDER BY domain LIMIT 20;

-- name: OrgByID :one
SELECT id FROM organizations WHERE instance_id = @instance_id AND id = @id;

-- name: OrgByDomain :one
SELECT org_id::text FROM domains WHERE instance_id = @instance_id AND domain = @domain AND org_id IS NOT NULL AND is_verified;

-- name: CallerByToken :one
-- The user behind a personal access token, if both are good now. Tokens of the
-- system ('') are good on every instance.
SELECT t.instance_id, t.id AS token_id, t.expiration_date, u.id AS user_id, coalesce(u.org_id, '')::text AS org_id
FROM personal_access_tokens t
JOIN users u ON u.instance_id = t.instance_id AND u.id = t.user_id
LEFT JOIN organizations o ON o.instance_id = u.instance_id AND o.id = u.org_id
WHERE t.instance_id IN (@instance_id, '') AND t.token_hash = @token_hash AND u.state = 1 /* USER_STATE_ACTIVE */ AND (o.id IS NULL OR o.state = 1 /* EFFECTIVE_STATE_ACTIVE */)
LIMIT 1;

-- name: FeaturesOf :one
SELECT * FROM features WHERE instance_id = @instance_id;

-- name: LockFeatures :one
-- Makes the row if it is not there, so that there is one to lock.
INSERT INTO features AS f (instance_id, flags, sequence, change_date) VALUES (@instance_id, '{}', 0, @now::timestamptz)
ON CONFLICT (instance_id) DO UPDATE SET flags = f.flags
RETURNING *;

-- name: UpdateFeatures :exec
UPDATE features SET flags = @flags, sequence = @sequence, change_date = @change_date WHERE instance_id = @instance_id;

-- name: LockName :exec
-- One transaction at a time decides about a name of an instance.
SELECT pg_advisory_xact_lock(hashtextextended(@instance_id::text || '/' || @name::text, 1));

-- name: PrimaryHost :one
-- The primary domain of an instance; localhost while it has none.
SELECT coalesce((SELECT domain FROM domains WHERE instance_id = @instance_id AND org_id IS NULL AND is_primary), 'localhost')::text AS host;

-- name: EverUsed :one
-- IDs are never given again: the events of a deleted object stay (SEC-219).
SELECT EXISTS (SELECT FROM events WHERE instance_id = @instance_id AND aggregate_type = @aggregate_type AND aggregate_id = @aggregate_id)::bool;
