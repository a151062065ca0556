package membership_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const memberships = "/resources/v3alpha/memberships"

// give is a body that gives a user roles; on may name a project or its grant.
func give(user, on string, roles ...string) string {
	return fmt.Sprintf(`{"userId":%q,"roles":["%s"]%s}`, user, strings.Join(roles, `","`), on)
}

func TestAMembershipIsOnWhatTheCallNames(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"p"}`)
	grant := c.Create("owner", "/resources/v3alpha/project_grants", fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q}`, project, c.Org("A2")))
	instance, org := c.Instance("a"), c.Org("A")
	for _, test := range []struct {
		caller, query, on, role, user      string
		level, object, owner, place, event string
	}{
		{"system", "?ctx.system=true", "", "SYSTEM_OWNER_VIEWER", c.Create("system", memberships+"?ctx.instanceId="+instance, give(c.User("guest"), "", "IAM_OWNER_VIEWER")), "", "", "", "", ""},
		{"owner", "", "", "IAM_OWNER_VIEWER", c.User("nobody"), "INSTANCE", instance, "OWNER_TYPE_INSTANCE", "||", "membership.added"},
		{"owner", "?ctx.orgId=" + org, "", "ORG_OWNER_VIEWER", c.User("nobody"), "ORG", org, "OWNER_TYPE_ORG", org + "||", "membership.added"},
		{"owner", "", fmt.Sprintf(`,"projectId":%q`, project), "PROJECT_OWNER_VIEWER", c.User("nobody"), "PROJECT", project, "OWNER_TYPE_ORG", org + "|" + project + "|", "membership.added"},
		{"owner", "", fmt.Sprintf(`,"projectGrantId":%q`, grant), "PROJECT_GRANT_OWNER", c.User("guest"), "PROJECT_GRANT", grant, "OWNER_TYPE_ORG", org + "|" + project + "|" + grant, "membership.added"},
	} {
		if test.level == "" { // a user of an instance has no place in the system
			c.Refused(test.caller, "POST", memberships+test.query, give(c.User("nobody"), "", test.role), 404, "USER_NOT_FOUND")
			continue
		}
		id := c.Create(test.caller, memberships+test.query, give(test.user, test.on, test.role))
		got := c.Must("owner", "GET", memberships+"/"+id, "").Object(t, "membership")
		if got["level"] != "MEMBERSHIP_LEVEL_"+test.level || got["objectId"] != test.object || fmt.Sprint(got["roles"]) != "["+test.role+"]" {
			t.Errorf("got %v, want %s on %s %s", got, test.role, test.level, test.object)
		}
		if owner := fmt.Sprint(got["details"]); !strings.Contains(owner, test.owner) {
			t.Errorf("%s: got the owner %s, want %s", test.level, owner, test.owner)
		}
		if place := c.Value("SELECT concat(org_id, '|', project_id, '|', project_grant_id) FROM memberships WHERE id = $1", id); place != test.place {
			t.Errorf("%s: it is at %s, want %s", test.level, place, test.place)
		}
		if events := c.Events(id); events != test.event {
			t.Errorf("%s: events %s", test.level, events)
		}
		// One membership for each user and object; the roles of another level are none here.
		c.Refused(test.caller, "POST", memberships+test.query, give(test.user, test.on, test.role), 409, "MEMBERSHIP_EXISTS")
		c.Refused(test.caller, "POST", memberships+test.query, give(c.User("manager"), test.on, "SYSTEM_OWNER"), 400, "UNKNOWN_ROLE")
		c.Refused(test.caller, "POST", memberships+test.query, give("nope", test.on, test.role), 404, "USER_NOT_FOUND")
		c.Refused(test.caller, "POST", memberships+test.query, give(c.User("bob"), test.on, test.role), 404, "USER_NOT_FOUND")
	}
	for _, on := range []string{`,"projectId":"nope"`, `,"projectGrantId":"nope"`} {
		c.Refused("owner", "POST", memberships, give(c.User("nobody"), on, "PROJECT_OWNER"), 404, "NOT_FOUND")
	}
	// Roles on a project or a grant end with it, with an event.
	gone := c.Value("SELECT id FROM memberships WHERE level = 5")
	c.Must("owner", "DELETE", "/resources/v3alpha/project_grants/"+grant, "")
	if got := c.Events(gone); got != "membership.added membership.removed" {
		t.Errorf("events of a membership on a grant that is gone: %s", got)
	}
	c.Must("owner", "DELETE", "/resources/v3alpha/projects/"+project, "")
	if got := c.Value("SELECT count(*)::text FROM memberships WHERE level >= 4"); got != "0" {
		t.Errorf("%s memberships are left on what is gone", got)
	}
}

func TestMembershipsOfTheSystemAreReachedByItsContext(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	viewer := c.User("viewer")
	id := c.Value("SELECT id FROM memberships WHERE instance_id = '' AND user_id = $1", viewer)
	const of = "?ctx.system=true"
	c.Refused("system", "POST", memberships+of, give(viewer, "", "SYSTEM_OWNER"), 409, "MEMBERSHIP_EXISTS")
	c.Refused("system", "GET", memberships+"/"+id, "", 404, "NOT_FOUND") // it is not in the instance
	c.Must("system", "GET", memberships+"/"+id+of, "")
	c.Must("system", "PATCH", memberships+"/"+id+of, `{"roles":["SYSTEM_OWNER"]}`)
	c.Must("viewer", "PATCH", memberships+"/"+id+of, `{"roles":["SYSTEM_OWNER_VIEWER"]}`) // it was, until now
	if got := c.Do("viewer", "PATCH", memberships+"/"+id+of, `{"roles":["SYSTEM_OWNER"]}`); got.Status != 403 {
		t.Errorf("a viewer made itself owner: %d %s", got.Status, got.Body)
	}
	if got := c.Do("owner", "GET", memberships+"/"+id+of, ""); got.Status != 403 && got.Status != 404 {
		t.Errorf("an owner of an instance reads the system: %d %s", got.Status, got.Body)
	}
	c.Must("system", "DELETE", memberships+"/"+id+of, "")
	if got := c.Do("viewer", "GET", memberships+"/"+id+of, ""); got.Status != 404 && got.Status != 403 {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

// TestSEC235_NobodyGivesMoreThanTheyHold is the table of who gives which role to
// whom, on what; 201 where it is theirs to give.
func TestSEC235_NobodyGivesMoreThanTheyHold(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	project := c.Create("owner", "/resources/v3alpha/projects", `{"name":"p"}`)
	other := c.Create("owner", "/resources/v3alpha/projects", `{"name":"other"}`)
	grant := c.Create("owner", "/resources/v3alpha/project_grants", fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q}`, project, c.Org("A2")))
	for name, on := range map[string]string{"powner": fmt.Sprintf(`,"projectId":%q`, project), "gowner": fmt.Sprintf(`,"projectGrantId":%q`, grant)} {
		user := c.Create("owner", "/resources/v3alpha/users", fmt.Sprintf(`{"username":%q,"service":{"name":"x"}}`, name))
		role := map[string]string{"powner": "PROJECT_OWNER", "gowner": "PROJECT_GRANT_OWNER"}[name]
		c.Create("owner", memberships, give(user, on, role))
	}
	token := func(name string) string {
		token, _ := c.Must("owner", "POST", "/resources/v3alpha/users/"+c.User(name)+"/pats", `{}`).Any(t)["token"].(string)
		return token
	}
	powner, gowner := token("powner"), token("gowner")
	onOrg := func(name string) string { return "?ctx.orgId=" + c.Org(name) }
	onProject := func(id string) string { return fmt.Sprintf(`,"projectId":%q`, id) }
	onGrant := fmt.Sprintf(`,"projectGrantId":%q`, grant)
	for i, test := range []struct {
		caller, query, on, role string
		want                    int
	}{
		{"owner", "", "", "IAM_OWNER", 201},
		{"owner", "", "", "IAM_LOGIN_CLIENT", 201},
		{"owner", onOrg("A2"), "", "ORG_OWNER", 201},
		{"owner", "?ctx.system=true", "", "SYSTEM_OWNER", 403},
		{"owner", "?ctx.instanceId=" + c.Instance("b"), "", "IAM_OWNER", 404},
		{"manager", "", "", "IAM_ORG_MANAGER", 201},
		{"manager", "", "", "IAM_OWNER", 403},
		{"manager", "", "", "IAM_OWNER_VIEWER", 403},
		{"manager", "", "", "IAM_LOGIN_CLIENT", 403},
		{"manager", onOrg("A"), "", "ORG_OWNER", 403},        // it has idp.*, which a manager lacks
		{"manager", onOrg("A"), "", "ORG_USER_MANAGER", 403}, // so is user.*, of which it holds parts
		{"manager", onOrg("A"), "", "ORG_USER_PERMISSION_EDITOR", 201},
		{"manager", "", onProject(project), "PROJECT_OWNER", 201},
		{"orgowner", "", "", "IAM_OWNER", 403},
		{"orgowner", onOrg("A"), "", "ORG_OWNER", 201},
		{"orgowner", onOrg("A"), "", "IAM_OWNER", 400},
		{"orgowner", onOrg("A2"), "", "ORG_OWNER", 403},
		{"orgowner", "", onProject(project), "PROJECT_OWNER", 201},
		{"orgowner", "", onProject(project), "ORG_OWNER", 400},
		{"orgowner", "", onGrant, "PROJECT_GRANT_OWNER", 201},
		{"second", "", onProject(project), "PROJECT_OWNER", 404},
		{"second", "", onGrant, "PROJECT_GRANT_OWNER", 404}, // may read it only
		{"nobody", "", "", "IAM_OWNER", 403},
		{"nobody", onOrg("A"), "", "ORG_OWNER", 403},
		{"nobody", "", onProject(project), "PROJECT_OWNER", 403},
		{powner, "", onProject(project), "PROJECT_OWNER", 201},
		{powner, "", onProject(other), "PROJECT_OWNER", 404},
		{powner, "", onGrant, "PROJECT_GRANT_OWNER", 201},
		{powner, onOrg("A"), "", "ORG_OWNER", 403},
		{powner, "", "", "IAM_OWNER", 403},
		{gowner, "", onGrant, "PROJECT_GRANT_OWNER", 201},
		{gowner, "", onProject(project), "PROJECT_OWNER", 404},
		{gowner, onOrg("A2"), "", "ORG_OWNER", 403},
		{"viewer", "?ctx.system=true", "", "SYSTEM_OWNER", 403},
		{"system", "", "", "IAM_OWNER", 201},
	} {
		user := c.Create("owner", "/resources/v3alpha/users", fmt.Sprintf(`{"username":"u%d","service":{"name":"x"}}`, i))
		if got := c.Do(test.caller, "POST", memberships+test.query, give(user, test.on, test.role)); got.Status != test.want {
			t.Errorf("%s gives %s%s %s: got %d %s, want %d", test.caller, test.query, test.on, test.role, got.Status, got.Body, test.want)
		}
	}
	// What is above the caller can neither be changed nor taken away.
	owners := c.Value("SELECT id FROM memberships WHERE user_id = $1", c.User("owner"))
	c.Refused("manager", "PATCH", memberships+"/"+owners, `{"roles":["IAM_ORG_MANAGER"]}`, 403, "ROLE_TOO_HIGH")
	c.Refused("manager", "DELETE", memberships+"/"+owners, "", 403, "ROLE_TOO_HIGH")
	own := c.Value("SELECT id FROM memberships WHERE user_id = $1", c.User("manager"))
	c.Refused("manager", "PATCH", memberships+"/"+own, `{"roles":["IAM_OWNER"]}`, 403, "ROLE_TOO_HIGH")
	if got := c.Value("SELECT array_to_string(roles, ' ') FROM memberships WHERE id = $1", own); got != "IAM_ORG_MANAGER" {
		t.Errorf("the manager holds %s now", got)
	}
}

func TestSEC237_AChangeIsInForceOnTheNextCallAndWithinASecondElsewhere(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	may := func(node int) bool {
		return c.Call(node, "a.example", "nobody", "POST", "/resources/v3alpha/projects/_search", "[]").Status == 200
	}
	if may(0) || may(1) {
		t.Fatal("nobody may")
	}
	id := c.Create("owner", memberships, give(c.User("nobody"), "", "IAM_OWNER"))
	if !may(0) {
		t.Error("given: not in force on the node itself")
	}
	c.WithinASecond("given", func() bool { return may(1) })
	c.Must("owner", "PATCH", memberships+"/"+id, `{"roles":["IAM_LOGIN_CLIENT"]}`)
	write := func(node int) int {
		return c.Call(node, "a.example", "nobody", "POST", "/resources/v3alpha/projects", `{}`).Status
	}
	if got := write(0); got == 201 {
		t.Errorf("a role that was taken still creates: %d", got)
	}
	c.Must("owner", "DELETE", memberships+"/"+id, "")
	if may(0) {
		t.Error("taken: still in force on the node itself")
	}
	c.WithinASecond("taken", func() bool { return !may(1) })
}

func TestSEC233_UsersReadTheirOwnMembershipsAndNoOthers(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	own := c.Create("owner", memberships+"?ctx.orgId="+c.Org("A"), give(c.User("nobody"), "", "ORG_PROJECT_CREATOR"))
	owners := c.Value("SELECT id FROM memberships WHERE user_id = $1", c.User("owner"))
	c.Must("nobody", "GET", memberships+"/"+own, "")
	c.Refused("nobody", "GET", memberships+"/"+owners, "", 404, "NOT_FOUND")
	if got := c.Must("nobody", "POST", memberships+"/_search", "[]"); !strings.Contains(got.Body, `"totalResult":"1"`) || !strings.Contains(got.Body, own) {
		t.Errorf("got %s", got.Body)
	}
	if got := c.Must("second", "POST", memberships+"/_search", "[]"); !strings.Contains(got.Body, `"totalResult":"1"`) {
		t.Errorf("an owner of an organization sees others': %s", got.Body)
	}
	for _, call := range [][3]string{{"PATCH", memberships + "/" + own, `{"roles":["ORG_OWNER"]}`}, {"DELETE", memberships + "/" + own, ""}} {
		c.Refused("nobody", call[0], call[1], call[2], 403, "PERMISSION_DENIED")
	}
	c.Refused("bob", "GET", memberships+"/"+own, "", 404, "NOT_FOUND")
	for filter, want := range map[string]string{
		`{"userId":{"id":"` + c.User("nobody") + `"}}`: "1", `{"level":{"level":"MEMBERSHIP_LEVEL_ORG"}}`: "3",
		`{"role":{"role":"ORG_OWNER"}}`: "2", `{"objectId":{"id":"` + c.Org("A2") + `"}}`: "1", `{"inIds":{"ids":["` + own + `"]}}`: "1",
	} {
		if got := c.Must("owner", "POST", memberships+"/_search", "["+filter+"]"); !strings.Contains(got.Body, `"totalResult":"`+want+`"`) {
			t.Errorf("%s: got %s, want %s", filter, got.Body, want)
		}
	}
}
