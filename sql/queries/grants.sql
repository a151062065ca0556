-- Roles that go are taken out of the grants that name them. Whoever writes role
-- keys holds the project (FOR SHARE), whoever takes roles away locks it first, so
-- nobody can name a role that is about to go (REL-025). Those who take away come
-- one after the other.

-- name: HoldProject :one
SELECT id FROM projects WHERE instance_id = @instance_id AND id = @id FOR SHARE;

-- name: LockProject :one
SELECT id FROM projects WHERE instance_id = @instance_id AND id = @id FOR NO KEY UPDATE;

-- name: RoleKeys :many
-- Those of some keys that are roles of a project.
SELECT key FROM project_roles WHERE instance_id = @instance_id AND project_id = @project_id AND key = ANY(@keys::text[]);

-- name: TakeFromProjectGrants :exec
UPDATE project_grants g SET
    role_keys = ARRAY(SELECT k FROM unnest(g.role_keys) WITH ORDINALITY r (k, n) WHERE k <> ALL(@taken::text[]) ORDER BY n),
    change_date = @now::timestamptz,
    sequence = append_event(g.instance_id, 'project_grant', g.id, 'project.grant.cascade.changed',
        jsonb_build_object('roleKeys', ARRAY(SELECT k FROM unnest(g.role_keys) WITH ORDINALITY r (k, n) WHERE k <> ALL(@taken::text[]) ORDER BY n)),
        @actor, 3::smallint, g.org_id, @now::timestamptz)
WHERE g.instance_id = @instance_id AND g.project_id = @project_id AND g.role_keys && @taken::text[];

-- name: RemoveEmptiedUserGrants :exec
-- A user grant that would be left without a role goes, with the event of its trigger.
DELETE FROM user_grants g
WHERE g.instance_id = @instance_id AND g.project_id = @project_id AND (sqlc.narg(project_grant_id)::text IS NULL OR g.project_grant_id = sqlc.narg(project_grant_id))
    AND g.role_keys <@ @taken::text[];

-- name: TakeFromUserGrants :exec
UPDATE user_grants g SET
    role_keys = ARRAY(SELECT k FROM unnest(g.role_keys) WITH ORDINALITY r (k, n) WHERE k <> ALL(@taken::text[]) ORDER BY n),
    change_date = @now::timestamptz,
    sequence = append_event(g.instance_id, 'user_grant', g.id, 'user.grant.cascade.changed',
        jsonb_build_object('roleKeys', ARRAY(SELECT k FROM unnest(g.role_keys) WITH ORDINALITY r (k, n) WHERE k <> ALL(@taken::text[]) ORDER BY n)),
        @actor, 3::smallint, g.org_id, @now::timestamptz)
WHERE g.instance_id = @instance_id AND g.project_id = @project_id AND (sqlc.narg(project_grant_id)::text IS NULL OR g.project_grant_id = sqlc.narg(project_grant_id))
    AND g.role_keys && @taken::text[];

-- name: IsServiceUser :one
-- Whether a user is no person.
SELECT EXISTS (SELECT FROM users WHERE instance_id = @instance_id AND id = @id AND user_type = 2 /* USER_TYPE_SERVICE */)::bool;
