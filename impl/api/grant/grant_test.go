package grant_test

import (
	"fmt"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	projects      = "/resources/v3alpha/projects"
	roles         = "/resources/v3alpha/roles"
	projectGrants = "/resources/v3alpha/project_grants"
	userGrants    = "/resources/v3alpha/user_grants"
)

// world is a project of A with the roles r and w, granted to A2, and grants of users.
type world struct {
	*servertest.Cluster
	project, r, w, granted, ofNobody, ofGuest string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := servertest.New(t, 1, nil)
	made := &world{Cluster: c, project: c.Create("owner", projects, `{"name":"p"}`)}
	role := func(key string) string {
		return c.Create("owner", roles, fmt.Sprintf(`{"projectId":%q,"key":%q,"displayName":%q}`, made.project, key, key))
	}
	made.r, made.w = role("r"), role("w")
	made.granted = c.Create("owner", projectGrants, fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q,"roleKeys":["r","w"]}`, made.project, c.Org("A2")))
	made.ofNobody = c.Create("owner", userGrants, fmt.Sprintf(`{"userId":%q,"projectId":%q,"roleKeys":["r"]}`, c.User("nobody"), made.project))
	made.ofGuest = c.Create("owner", userGrants, fmt.Sprintf(`{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["r","w"]}`, c.User("guest"), made.project, made.granted))
	return made
}

// payload returns who appended the last event of an object and what it says.
func (w *world) payload(id string) string {
	w.Helper()
	return w.Value("SELECT event_type || ' ' || payload::text || ' by ' || (SELECT username FROM users u WHERE u.id = e.creator) FROM events e WHERE aggregate_id = $1 ORDER BY sequence DESC LIMIT 1", id)
}

func TestARoleThatGoesIsTakenOutOfAllGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must("owner", "DELETE", roles+"/"+w.r, "")
	if got := w.Must("owner", "GET", projectGrants+"/"+w.granted, "").Object(t, "projectGrant"); fmt.Sprint(got["roleKeys"]) != "[w]" {
		t.Errorf("the grant of the project has %v", got["roleKeys"])
	}
	if got := w.Must("owner", "GET", userGrants+"/"+w.ofGuest, "").Object(t, "userGrant"); fmt.Sprint(got["roleKeys"]) != "[w]" {
		t.Errorf("the guest has %v", got["roleKeys"])
	}
	w.Refused("owner", "GET", userGrants+"/"+w.ofNobody, "", 404, "NOT_FOUND") // its last role is gone
	for id, want := range map[string]string{
		w.r:        fmt.Sprintf(`project.role.removed {"key": "r", "projectId": %q} by owner`, w.project),
		w.granted:  `project.grant.cascade.changed {"roleKeys": ["w"]} by owner`,
		w.ofGuest:  `user.grant.cascade.changed {"roleKeys": ["w"]} by owner`,
		w.ofNobody: fmt.Sprintf(`user.grant.cascade.removed {"userId": %q, "projectId": %q} by owner`, w.User("nobody"), w.project),
	} {
		if got := w.payload(id); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestWhatGoesHasOneEventThatSaysHow deletes a grant of a user by its own command, one with
// the grant of the project, and the rest with the project.
func TestWhatGoesHasOneEventThatSaysHow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must("owner", "DELETE", userGrants+"/"+w.ofNobody, "")
	if got := w.payload(w.ofNobody); got != fmt.Sprintf(`user.grant.removed {"userId": %q, "projectId": %q} by owner`, w.User("nobody"), w.project) {
		t.Errorf("deleted: %s", got)
	}
	w.Must("orgowner", "DELETE", projectGrants+"/"+w.granted, "")
	if got := w.payload(w.granted); got != fmt.Sprintf(`project.grant.removed {"projectId": %q, "grantedOrgId": %q} by orgowner`, w.project, w.Org("A2")) {
		t.Errorf("deleted: %s", got)
	}
	if got := w.payload(w.ofGuest); got != fmt.Sprintf(`user.grant.cascade.removed {"userId": %q, "projectId": %q} by orgowner`, w.User("guest"), w.project) {
		t.Errorf("gone along: %s", got)
	}
	w.Must("owner", "DELETE", projects+"/"+w.project, "")
	for id, want := range map[string]string{
		w.project: "project.added project.removed", w.r: "project.role.added project.role.removed", w.w: "project.role.added project.role.removed",
		w.granted: "project.grant.added project.grant.removed", w.ofNobody: "user.grant.added user.grant.removed", w.ofGuest: "user.grant.added user.grant.cascade.removed",
	} {
		if got := w.Events(id); got != want {
			t.Errorf("events %s, want %s", got, want)
		}
	}
}

// TestWhatNobodyDeletesByACommandHasAnEventToo: the database says so by itself.
func TestWhatNobodyDeletesByACommandHasAnEventToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.DB.Pool.Exec(t.Context(), "DELETE FROM projects WHERE id = $1", w.project); err != nil {
		t.Fatal(err)
	}
	if got := w.Value("SELECT string_agg(event_type || ' by ' || creator || ' of ' || owner_type, ', ' ORDER BY event_type COLLATE \"C\", aggregate_id) FROM events WHERE event_type LIKE '%removed'"); got !=
		"project.grant.removed by system of 3, project.removed by system of 3, project.role.removed by system of 3, project.role.removed by system of 3, user.grant.cascade.removed by system of 3, user.grant.cascade.removed by system of 3" {
		t.Errorf("got %s", got)
	}
}

func TestAGrantNamesRolesThatItsProjectOrItsGrantHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Refused("owner", "PATCH", userGrants+"/"+w.ofNobody, `{"roleKeys":{"keys":["x"]}}`, 404, "ROLE_NOT_FOUND")
	w.Must("owner", "PATCH", projectGrants+"/"+w.granted, `{"roleKeys":{"keys":["w"]}}`)
	w.Refused("owner", "PATCH", userGrants+"/"+w.ofGuest, `{"roleKeys":{"keys":["r"]}}`, 400, "ROLE_NOT_GRANTED")
	if got := w.Events(w.ofGuest); got != "user.grant.added user.grant.cascade.changed" {
		t.Errorf("events %s", got)
	}
	w.Refused("owner", "POST", projectGrants, fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q}`, w.project, w.Org("A2")), 409, "PROJECT_GRANT_EXISTS")
}
