package org_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const orgs = "/resources/v3alpha/organizations"

func name(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }

func TestADefaultDomainIsMadeUnique(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	domain := func(orgName string) string {
		id := c.Create("owner", orgs, name(orgName))
		return c.Must("owner", "GET", orgs+"/"+id, "").Object(t, "organization")["primaryDomain"].(string)
	}
	if got := domain("Big Corp"); got != "big-corp.a.example" {
		t.Errorf("got %s", got)
	}
	for _, same := range []string{"big corp", "Big-Corp", "Big  Corp!"} {
		got := domain(same)
		if !strings.HasPrefix(got, "big-corp-") || !strings.HasSuffix(got, ".a.example") {
			t.Errorf("%q: got %s", same, got)
		}
	}
	for _, odd := range []string{"株式会社", "!!!", strings.Repeat("x", 200), "ß"} {
		got := domain(odd)
		if label := strings.TrimSuffix(got, ".a.example"); label == "" || len(label) > 63 || strings.Trim(label, "-") != label {
			t.Errorf("%q: got %s", odd, got)
		}
	}
	c.Refused("owner", "POST", orgs, name("Big Corp"), 409, "ORGANIZATION_NAME_TAKEN")
}

func TestREL023_ANameIsTakenOnceByManyAtOnce(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	for round := range 4 {
		counts, mu, calls := map[int]int{}, sync.Mutex{}, sync.WaitGroup{}
		for i := range 12 {
			calls.Go(func() {
				got := c.Call(i%2, "a.example", "owner", "POST", orgs, name(fmt.Sprint("same ", round)))
				mu.Lock()
				defer mu.Unlock()
				counts[got.Status]++
				if got.Status == 409 && !strings.Contains(got.Body, "ORGANIZATION_NAME_TAKEN") || got.Status != 409 && got.Status != 201 {
					t.Errorf("got %d %s", got.Status, got.Body)
				}
			})
		}
		calls.Wait()
		if counts[201] != 1 {
			t.Errorf("round %d: %v, want one that wins", round, counts)
		}
	}
	// Names that differ but give the same label all succeed.
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			if got := c.Call(i%2, "a.example", "owner", "POST", orgs, name("label"+strings.Repeat("!", i))); got.Status != 201 {
				t.Errorf("label %d: %d %s", i, got.Status, got.Body)
			}
		})
	}
	calls.Wait()
	if got := c.Value("SELECT count(DISTINCT domain)::text FROM domains WHERE domain LIKE 'label%'"); got != "8" {
		t.Errorf("%s default domains, want 8", got)
	}
}

func TestSEC219_AnIDOfAnOrganizationIsNeverUsedAgain(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	c.Create("owner", orgs, `{"name":"x","id":"mine"}`)
	c.Refused("owner", "POST", orgs, `{"name":"y","id":"mine"}`, 409, "ORGANIZATION_ID_TAKEN")
	c.Must("owner", "DELETE", orgs+"/mine", "")
	c.Refused("owner", "POST", orgs, `{"name":"z","id":"mine"}`, 409, "ORGANIZATION_ID_TAKEN")
	c.Create("bob", orgs, `{"name":"x","id":"mine"}`) // IDs are unique in their instance
	if got := c.Value("SELECT count(*)::text FROM domains WHERE org_id = 'mine'"); got != "1" {
		t.Errorf("%s domains of the ID, want that of the other instance", got)
	}
}

func TestTheDefaultOrganizationStaysAndStaysActive(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	was, next := c.Org("A"), c.Org("A2")
	c.Refused("owner", "DELETE", orgs+"/"+was, "", 400, "DEFAULT_ORGANIZATION")
	c.Refused("owner", "POST", orgs+"/"+was+"/_deactivate", "", 400, "DEFAULT_ORGANIZATION")
	c.Must("owner", "POST", orgs+"/"+next+"/_deactivate", "")
	c.Refused("owner", "POST", orgs+"/"+next+"/_deactivate", "", 400, "STATE_UNCHANGED")
	c.Refused("owner", "POST", orgs+"/"+next+"/_set_as_instance_default", "", 400, "ORGANIZATION_INACTIVE")
	c.Must("owner", "POST", orgs+"/"+next+"/_activate", "")
	c.Must("owner", "POST", orgs+"/"+next+"/_set_as_instance_default", "")
	c.Refused("owner", "DELETE", orgs+"/"+next, "", 400, "DEFAULT_ORGANIZATION")
	c.Must("owner", "POST", orgs+"/"+was+"/_deactivate", "")
	if got := c.Do("owner", "GET", orgs+"/"+was, ""); got.Status != 401 {
		t.Errorf("the owner is in an inactive organization: got %d", got.Status)
	}
}

func TestREL063_UsersOfAnInactiveOrganizationAreOutWithinASecondOnAllNodes(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	ask := func(node int) int {
		return c.Call(node, "a.example", "second", "POST", "/resources/v3alpha/users/_search", "[]").Status
	}
	if ask(0) != 200 || ask(1) != 200 {
		t.Fatal("they could not before")
	}
	c.Must("owner", "POST", orgs+"/"+c.Org("A2")+"/_deactivate", "")
	if got := ask(0); got != 401 {
		t.Errorf("the node itself: got %d", got)
	}
	c.WithinASecond("the other node", func() bool { return ask(1) == 401 })
	c.Must("owner", "POST", orgs+"/"+c.Org("A2")+"/_activate", "")
	c.WithinASecond("active again", func() bool { return ask(0) == 200 && ask(1) == 200 })
}

// TestREL025_NothingOutlivesItsOrganization fills an organization with one of
// everything, deletes it and looks through all tables for its ID and its users'.
func TestREL025_NothingOutlivesItsOrganization(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	org := c.Create("owner", orgs, name("gone"))
	in := "?ctx.orgId=" + org
	user := c.Create("owner", "/resources/v3alpha/users"+in, `{"username":"u","service":{"name":"u"}}`)
	human := c.Create("owner", "/resources/v3alpha/users"+in, `{"username":"h","human":{"email":{"address":"h@x.example"}}}`)
	pat := c.Must("owner", "POST", "/resources/v3alpha/users/"+user+"/pats", `{}`).Any(t)["token"].(string)
	c.Must("owner", "POST", "/resources/v3alpha/users/"+user+"/keys", `{}`)
	c.Must("owner", "PUT", "/resources/v3alpha/users/"+user+"/metadata/k", `{"value":"AA=="}`)
	project := c.Create("owner", "/resources/v3alpha/projects"+in, `{"name":"p"}`)
	role := c.Create("owner", "/resources/v3alpha/roles", fmt.Sprintf(`{"projectId":%q,"key":"r"}`, project))
	app := c.Create("owner", "/resources/v3alpha/apps", fmt.Sprintf(`{"projectId":%q,"name":"a","api":{}}`, project))
	grant := c.Create("owner", "/resources/v3alpha/project_grants", fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q,"roleKeys":["r"]}`, project, c.Org("A2")))
	given := c.Create("owner", "/resources/v3alpha/user_grants", fmt.Sprintf(`{"userId":%q,"projectId":%q,"roleKeys":["r"]}`, user, project))
	theirs := c.Create("second", "/resources/v3alpha/user_grants", fmt.Sprintf(`{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["r"]}`, c.User("second"), project, grant))
	member := c.Create("owner", "/resources/v3alpha/memberships"+in, fmt.Sprintf(`{"userId":%q,"roles":["ORG_OWNER"]}`, user))
	outside := c.Create("owner", "/resources/v3alpha/memberships", fmt.Sprintf(`{"userId":%q,"roles":["IAM_OWNER"]}`, user))
	onGrant := c.Create("owner", "/resources/v3alpha/memberships", fmt.Sprintf(`{"userId":%q,"roles":["PROJECT_GRANT_OWNER"],"projectGrantId":%q}`, c.User("guest"), grant))
	claimed := c.Create("owner", "/resources/v3alpha/domains"+in, `{"domain":"gone.example"}`)
	session := c.Create("owner", "/resources/v3alpha/sessions", fmt.Sprintf(`{"checks":{"user":{"userId":%q}}}`, human))
	c.Must("owner", "PATCH", "/settings/v3alpha/languages"+in, `{"defaultLanguage":{"key":"de"}}`)
	if got := c.Do(pat, "GET", orgs+"/"+org, "").Status; got != 200 {
		t.Fatalf("its user could not act: %d", got)
	}

	c.Must("owner", "DELETE", orgs+"/"+org, "")

	if got := c.Do(pat, "GET", orgs+"/"+org, "").Status; got != 401 {
		t.Errorf("its user acts on: %d", got)
	}
	rows, err := c.DB.Pool.Query(t.Context(), `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND data_type = 'text' AND table_name <> 'events'`)
	if err != nil {
		t.Fatal(err)
	}
	var columns [][2]string
	for rows.Next() {
		var column [2]string
		if err := rows.Scan(&column[0], &column[1]); err != nil {
			t.Fatal(err)
		}
		columns = append(columns, column)
	}
	if rows.Err() != nil || len(columns) < 50 {
		t.Fatalf("%d columns: %v", len(columns), rows.Err())
	}
	gone := []string{org, user, human, project, role, app, grant, given, theirs, member, outside, onGrant, claimed, session}
	for _, column := range columns {
		if got := c.Value(fmt.Sprintf("SELECT count(*)::text FROM %q WHERE %q = ANY($1)", column[0], column[1]), gone); got != "0" {
			t.Errorf("%s rows of %s.%s name what is gone", got, column[0], column[1])
		}
	}
	for id, want := range map[string]string{
		org: "org.removed", user: "user.removed", human: "user.removed", project: "project.removed", role: "project.role.removed",
		app: "project.application.removed", grant: "project.grant.removed", given: "user.grant.cascade.removed", theirs: "user.grant.cascade.removed",
		member: "membership.removed", outside: "membership.removed", onGrant: "membership.removed", claimed: "domain.removed", session: "session.terminated",
	} {
		if got := c.Events(id); !strings.Contains(got, want) || strings.Count(got, want) != 1 {
			t.Errorf("events: %s, want one %s", got, want)
		}
	}
}
