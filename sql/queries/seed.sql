-- name: LockSeed :exec
-- One node applies the seed, the others wait and find it applied.
SELECT pg_advisory_xact_lock(hashtextextended('seed', 0));

-- name: InstanceByName :one
SELECT id FROM instances WHERE name = @name;

-- name: SetDefaultOrg :exec
UPDATE instances SET default_org = @org_id, sequence = greatest(sequence, @sequence), change_date = @now::timestamptz WHERE id = @id;

-- name: OrgByName :one
SELECT id FROM organizations WHERE instance_id = @instance_id AND name = @name;

-- name: TokenOfUser :one
SELECT id, token_hash, expiration_date FROM personal_access_tokens WHERE instance_id = @instance_id AND user_id = @user_id AND name = @name;

-- name: EventsOfTransaction :many
-- The events of this transaction, its savepoints included: nobody else's are visible and not over.
SELECT event_type, aggregate_type, aggregate_id, payload FROM events WHERE xid >= pg_current_xact_id()
    AND pg_xact_status((pg_current_xact_id()::text::bigint + ((xmin::text::bigint - pg_current_xact_id()::text::bigint) & 4294967295))::text::xid8) = 'in progress' ORDER BY sequence;

-- name: UserByUsername :one
SELECT id FROM users WHERE instance_id = @instance_id AND org_id IS NOT DISTINCT FROM sqlc.narg(org_id) AND username_folded = @username_folded;

-- name: ProjectByName :one
SELECT id FROM projects WHERE instance_id = @instance_id AND org_id = @org_id AND name = @name;

-- name: GrantOfProject :one
SELECT id FROM project_grants WHERE instance_id = @instance_id AND project_id = @project_id AND granted_org_id = @granted_org_id;
