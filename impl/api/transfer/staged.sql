-- Statements of an import on what is staged: tables that end with its transaction (staged_,
-- imported_events). $1 is the instance; of what marks items, $2 says whether it goes for what is there already too,
-- because it is updated.

-- name: NoteEvents
-- Events are noted beside the rows that they are of, and appended at last: who appends one
-- holds back those that follow it in the instance until the transaction ends (REL-108).
CREATE TEMPORARY TABLE imported_events (LIKE events INCLUDING DEFAULTS) ON COMMIT DROP;

-- name: AppendEvents
INSERT INTO events (instance_id, sequence, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
SELECT instance_id, sequence, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent
FROM imported_events ORDER BY sequence;

-- name: WithoutDomain
-- The organizations of the file that have no primary domain.
SELECT o.id, o.name FROM staged_organizations s JOIN organizations o ON o.instance_id = $1 AND o.id = s.id
WHERE NOT EXISTS (SELECT FROM domains d WHERE d.instance_id = $1 AND d.org_id = o.id AND d.is_primary) ORDER BY s.item;

-- name: IndexItems
CREATE INDEX ON /*:staged*/ staged_users /**/ (item);

-- name: AnalyzeItems
ANALYZE /*:staged*/ staged_users /**/;

-- name: CountWanted
SELECT count(*) FROM /*:staged*/ staged_users /**/ WHERE why IS NULL AND item BETWEEN $1 AND $2;

-- name: UsersOfAnotherName
-- A name that could be somebody's login name elsewhere (SEC-298).
UPDATE staged_users s SET why = 'USERNAME_OF_ANOTHER' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND s.username LIKE '%@%' AND EXISTS (
        SELECT FROM domains d WHERE d.instance_id = $1 AND d.org_id <> s.org_id AND d.is_verified AND d.domain = lower(substring(s.username FROM '[^@]*$')));

-- name: UserMetadataApartFromUsers
-- What belongs to something is in the organization of that: whoever reaches the one
-- reaches the other.
UPDATE staged_user_metadata s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM users r WHERE r.id = s.user_id AND r.org_id = s.org_id AND r.instance_id = $1);

-- name: AuthenticatorsApartFromUsers
UPDATE staged_authenticators s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM users r WHERE r.id = s.user_id AND r.org_id = s.org_id AND r.instance_id = $1);

-- name: IdpLinksApartFromUsers
UPDATE staged_idp_links s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM users r WHERE r.id = s.user_id AND r.org_id = s.org_id AND r.instance_id = $1);

-- name: IdpLinksApartFromIdps
UPDATE staged_idp_links s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM idps r WHERE r.id = s.idp_id AND (r.org_id = s.org_id OR r.org_id IS NULL) AND r.instance_id = $1);

-- name: ProjectRolesApartFromProjects
UPDATE staged_project_roles s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM projects r WHERE r.id = s.project_id AND r.org_id = s.org_id AND r.instance_id = $1);

-- name: AppsApartFromProjects
UPDATE staged_apps s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM projects r WHERE r.id = s.project_id AND r.org_id = s.org_id AND r.instance_id = $1);

-- name: ProjectGrantsApartFromProjects
UPDATE staged_project_grants s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM projects r WHERE r.id = s.project_id AND r.org_id = s.org_id AND s.granted_org_id <> s.org_id AND r.instance_id = $1);

-- name: UserGrantsApartFromProjects
-- A user grant is where it is made: at the project's, or at whom the project is granted to.
UPDATE staged_user_grants s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM projects r WHERE r.id = s.project_id AND (r.org_id = s.org_id OR s.project_grant_id IS NOT NULL) AND r.instance_id = $1);

-- name: UserGrantsApartFromOrganizationsGrant
UPDATE staged_user_grants s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM organizations r WHERE r.id = s.org_id AND (s.project_grant_id IS NULL OR EXISTS (
        SELECT FROM project_grants g WHERE g.instance_id = $1 AND g.id = s.project_grant_id AND g.project_id = s.project_id AND g.granted_org_id = s.org_id)) AND r.instance_id = $1);

-- name: MembershipsApartFromOrganizationsProject
UPDATE staged_memberships s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM organizations r WHERE r.id = s.org_id AND (s.project_id IS NULL OR EXISTS (
        SELECT FROM projects p WHERE p.instance_id = $1 AND p.id = s.project_id AND p.org_id = s.org_id)) AND r.instance_id = $1);

-- name: MembershipsApartFromOrganizationsGrant
UPDATE staged_memberships s SET why = 'ORGANIZATION_DIFFERS' WHERE (s.why IS NULL OR $2 AND s.why = 'EXISTS')
    AND NOT EXISTS (SELECT FROM organizations r WHERE r.id = s.org_id AND (s.project_grant_id IS NULL OR EXISTS (
        SELECT FROM project_grants g WHERE g.instance_id = $1 AND g.id = s.project_grant_id AND g.project_id = s.project_id AND g.org_id = s.org_id)) AND r.instance_id = $1);
