package transfer

import (
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/transfer"
)

// beyond are further marks of kinds: what no reference says. $1 is the instance, $2 whether
// they go for what is there already too, because it is updated.
var beyond = map[*transfer.Kind][]string{
	// A name that could be somebody's login name elsewhere (SEC-298).
	storage.MovedUsers: {mark(storage.MovedUsers, "USERNAME_OF_ANOTHER", `s.username LIKE '%@%' AND EXISTS (
		SELECT FROM domains d WHERE d.instance_id = $1 AND d.org_id <> s.org_id AND d.is_verified AND d.domain = lower(substring(s.username FROM '[^@]*$')))`)},
	// What belongs to something is in the organization of that: whoever reaches the one
	// reaches the other.
	storage.MovedUserMetadata:   {apart(storage.MovedUserMetadata, "FROM users r WHERE r.id = s.user_id AND r.org_id = s.org_id")},
	storage.MovedAuthenticators: {apart(storage.MovedAuthenticators, "FROM users r WHERE r.id = s.user_id AND r.org_id = s.org_id")},
	storage.MovedIdpLinks: {
		apart(storage.MovedIdpLinks, "FROM users r WHERE r.id = s.user_id AND r.org_id = s.org_id"),
		apart(storage.MovedIdpLinks, "FROM idps r WHERE r.id = s.idp_id AND (r.org_id = s.org_id OR r.org_id IS NULL)"),
	},
	storage.MovedProjectRoles:  {apart(storage.MovedProjectRoles, "FROM projects r WHERE r.id = s.project_id AND r.org_id = s.org_id")},
	storage.MovedApps:          {apart(storage.MovedApps, "FROM projects r WHERE r.id = s.project_id AND r.org_id = s.org_id")},
	storage.MovedProjectGrants: {apart(storage.MovedProjectGrants, "FROM projects r WHERE r.id = s.project_id AND r.org_id = s.org_id AND s.granted_org_id <> s.org_id")},
	// A user grant is where it is made: at the project's, or at whom the project is granted to.
	storage.MovedUserGrants: {
		apart(storage.MovedUserGrants, "FROM projects r WHERE r.id = s.project_id AND (r.org_id = s.org_id OR s.project_grant_id IS NOT NULL)"),
		apart(storage.MovedUserGrants, "FROM organizations r WHERE r.id = s.org_id AND (s.project_grant_id IS NULL OR EXISTS (SELECT FROM project_grants g WHERE g.instance_id = $1 AND g.id = s.project_grant_id AND g.project_id = s.project_id AND g.granted_org_id = s.org_id))"),
	},
	storage.MovedMemberships: {
		apart(storage.MovedMemberships, "FROM organizations r WHERE r.id = s.org_id AND (s.project_id IS NULL OR EXISTS (SELECT FROM projects p WHERE p.instance_id = $1 AND p.id = s.project_id AND p.org_id = s.org_id))"),
		apart(storage.MovedMemberships, "FROM organizations r WHERE r.id = s.org_id AND (s.project_grant_id IS NULL OR EXISTS (SELECT FROM project_grants g WHERE g.instance_id = $1 AND g.id = s.project_grant_id AND g.project_id = s.project_id AND g.org_id = s.org_id))"),
	},
}

// mark is the statement that marks items of a kind for which a condition holds.
func mark(kind *transfer.Kind, reason, condition string) string {
	return "UPDATE staged_" + kind.Table + " s SET why = '" + reason + "' WHERE (s.why IS NULL OR $2 AND s.why = '" + transfer.Exists + "') AND " + condition
}

// apart is the statement that marks items that are not in the organization of what they
// belong to, which is what the instance has of from.
func apart(kind *transfer.Kind, from string) string {
	return mark(kind, "ORGANIZATION_DIFFERS", "NOT EXISTS (SELECT "+from+" AND r.instance_id = $1)")
}
