package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const (
	projects      = "/resources/v3alpha/projects"
	roles         = "/resources/v3alpha/roles"
	projectGrants = "/resources/v3alpha/project_grants"
	userGrants    = "/resources/v3alpha/user_grants"
	apps          = "/resources/v3alpha/apps"
)

// as makes calls to one node after the other as a user of tenant a.
func (c *cluster) as(user string) func(method, path, body string) reply {
	calls := 0
	return func(method, path, body string) reply {
		calls++
		return c.call(calls%len(c.nodes), "a.example", c.token("a", user), method, path, body)
	}
}

// value reads one text of the database.
func (c *cluster) value(sql string, args ...any) string {
	c.t.Helper()
	var text string
	if err := c.db.Pool.QueryRow(c.t.Context(), sql, args...).Scan(&text); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func (c *cluster) expect(got reply, status int, words ...string) {
	c.t.Helper()
	for _, word := range words {
		if !strings.Contains(got.body, word) {
			c.t.Errorf("the answer lacks %s: %s", word, got.body)
		}
	}
	if got.status != status {
		c.t.Fatalf("got %d, want %d: %s", got.status, status, got.body)
	}
}

func (c *cluster) org(name string) string {
	return c.value("SELECT id FROM organizations WHERE name = $1", name)
}

func (c *cluster) user(name string) string {
	return c.value("SELECT id FROM users WHERE username = $1 AND instance_id = $2", name, c.ids["a"])
}

// project makes a project with roles in organization A.
func (c *cluster) project(name string, keys ...string) string {
	c.t.Helper()
	owner := c.as("owner")
	id := idOf(c.t, owner(http.MethodPost, projects, fmt.Sprintf(`{"name":%q}`, name)))
	for _, key := range keys {
		idOf(c.t, owner(http.MethodPost, roles, fmt.Sprintf(`{"projectId":%q,"key":%q}`, id, key)))
	}
	return id
}

func TestWhoCreatesAProjectOwnsItUnlessTheyCouldAnyway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	creator, owner := c.as("creator"), c.as("owner")
	// The default organization of the instance may be another one than the caller's.
	id := idOf(t, creator(http.MethodPost, projects+"?ctx.orgId="+c.org("A"), `{"name":"mine"}`))
	other := idOf(t, owner(http.MethodPost, projects+"?ctx.orgId="+c.org("A"), `{"name":"theirs"}`))
	c.expect(creator(http.MethodPatch, projects+"/"+id, `{"hasProjectCheck":true}`), 200)
	c.expect(creator(http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"app","api":{}}`, id)), 201)
	c.expect(creator(http.MethodGet, projects+"/"+other, ""), 404)
	c.expect(creator(http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"app","api":{}}`, other)), 404)
	c.expect(creator(http.MethodPost, projects+"/_search", `[]`), 200, `"totalResult":"1"`)
	if got := c.value("SELECT string_agg(object_id, ',') FROM memberships WHERE level = 4"); got != id {
		t.Errorf("memberships on %s, want on %s only", got, id)
	}
	c.expect(owner(http.MethodDelete, projects+"/"+id, ""), 200)
	if got := c.value("SELECT count(*)::text FROM memberships WHERE level = 4"); got != "0" {
		t.Errorf("%s memberships are left of a project that is gone", got)
	}
	if got := c.value("SELECT count(*)::text FROM events WHERE event_type = 'membership.removed'"); got != "1" {
		t.Errorf("%s events of it, want 1", got)
	}
}

func TestSEC219_AnIDIsNeverGivenAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	owner := c.as("owner")
	c.expect(owner(http.MethodPost, projects, `{"name":"p","id":"billing"}`), 201)
	c.expect(owner(http.MethodPost, projects, `{"name":"q","id":"billing"}`), 409, "PROJECT_ID_TAKEN")
	c.expect(owner(http.MethodDelete, projects+"/billing", ""), 200)
	c.expect(owner(http.MethodPost, projects+"?ctx.orgId="+c.org("A2"), `{"name":"p","id":"billing"}`), 409, "PROJECT_ID_TAKEN")
}

func TestSEC298_NamesThatDifferInCaseAreOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	owner := c.as("owner")
	id := c.project("Straße")
	c.expect(owner(http.MethodPost, projects, `{"name":"STRASSE"}`), 409, "PROJECT_NAME_TAKEN")
	c.expect(owner(http.MethodPost, projects+"?ctx.orgId="+c.org("A2"), `{"name":"STRASSE"}`), 201)
	c.expect(owner(http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"Web","api":{}}`, id)), 201)
	c.expect(owner(http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"wEB","api":{}}`, id)), 409, "APP_NAME_TAKEN")
}

// TestSEC232_AnotherOrganizationReachesOnlyWhatIsGrantedToIt is about the owner of
// organization A2, to which a project of A is granted.
func TestSEC232_AnotherOrganizationReachesOnlyWhatIsGrantedToIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	owner, second := c.as("owner"), c.as("second")
	id, hidden := c.project("p", "a", "b"), c.project("hidden", "a")
	grant := idOf(t, owner(http.MethodPost, projectGrants, fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q,"roleKeys":["a"]}`, id, c.org("A2"))))
	app := idOf(t, owner(http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"app","api":{}}`, id)))
	give := func(project, under, keys string) reply {
		return second(http.MethodPost, userGrants, fmt.Sprintf(`{"userId":%q,"projectId":%q%s,"roleKeys":[%s]}`, c.user("second"), project, under, keys))
	}
	under := fmt.Sprintf(`,"projectGrantId":%q`, grant)

	c.expect(second(http.MethodGet, projectGrants+"/"+grant, ""), 200)
	c.expect(second(http.MethodPost, projectGrants+"/_search", `[]`), 200, `"totalResult":"1"`)
	for _, got := range []reply{
		second(http.MethodPatch, projectGrants+"/"+grant, `{"roleKeys":{"keys":["a","b"]}}`),
		second(http.MethodDelete, projectGrants+"/"+grant, ""),
		second(http.MethodPost, projectGrants+"/"+grant+"/_deactivate", ""),
		second(http.MethodGet, projects+"/"+id, ""),
		second(http.MethodDelete, projects+"/"+id, ""),
		second(http.MethodPost, roles, fmt.Sprintf(`{"projectId":%q,"key":"x"}`, id)),
		second(http.MethodGet, apps+"/"+app, ""),
		second(http.MethodPost, apps+"/"+app+"/keys", `{}`),
		second(http.MethodPost, apps+"/"+app+"/keys/_search", `[]`),
		second(http.MethodPost, apps+"/"+app+"/_regenerate_secret", `{}`),
		give(id, "", `"a"`),
		give(hidden, under, `"a"`),
	} {
		if got.status != 404 {
			t.Errorf("got %d, want 404: %s", got.status, got.body)
		}
	}
	for _, path := range []string{projects, roles, apps, userGrants} {
		c.expect(second(http.MethodPost, path+"/_search", `[]`), 200, `"totalResult":"0"`)
	}
	c.expect(give(id, under, `"b"`), 400, "ROLE_NOT_GRANTED")
	c.expect(give(id, under, `"nope"`), 404, "ROLE_NOT_FOUND")
	given := idOf(t, give(id, under, `"a"`))
	c.expect(second(http.MethodGet, userGrants+"/"+given, ""), 200, c.org("A2"))
	c.expect(owner(http.MethodPost, projectGrants, fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q}`, id, c.org("A"))), 400, "OWN_PROJECT")

	// What is given under a grant goes with a role, and with the grant.
	c.expect(owner(http.MethodPatch, projectGrants+"/"+grant, `{"roleKeys":{}}`), 200)
	c.expect(second(http.MethodGet, userGrants+"/"+given, ""), 404)
	if got := c.value("SELECT string_agg(event_type, ' ' ORDER BY sequence) FROM events WHERE aggregate_id = $1", given); got != "user.grant.added user.grant.cascade.removed" {
		t.Errorf("events of the user grant: %s", got)
	}
}

func TestAUserReadsTheirOwnGrants(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	owner, creator := c.as("owner"), c.as("creator")
	id := c.project("p", "a")
	for _, user := range []string{"creator", "second"} {
		idOf(t, owner(http.MethodPost, userGrants, fmt.Sprintf(`{"userId":%q,"projectId":%q,"roleKeys":["a"]}`, c.user(user), id)))
	}
	c.expect(creator(http.MethodPost, userGrants+"/_search", `[]`), 200, `"totalResult":"1"`, c.user("creator"))
	own := c.value("SELECT id FROM user_grants WHERE user_id = $1", c.user("creator"))
	c.expect(creator(http.MethodGet, userGrants+"/"+own, ""), 200)
	if got := creator(http.MethodDelete, userGrants+"/"+own, ""); got.status != 403 && got.status != 404 {
		t.Errorf("got %d, want a refusal", got.status)
	}
}

// dangling counts references to what does not exist.
const dangling = `SELECT (
	(SELECT count(*) FROM project_grants g, unnest(g.role_keys) k WHERE NOT EXISTS
		(SELECT FROM project_roles r WHERE r.instance_id = g.instance_id AND r.project_id = g.project_id AND r.key = k)) +
	(SELECT count(*) FROM user_grants g, unnest(g.role_keys) k WHERE NOT EXISTS
		(SELECT FROM project_roles r WHERE r.instance_id = g.instance_id AND r.project_id = g.project_id AND r.key = k)) +
	(SELECT count(*) FROM user_grants g, unnest(g.role_keys) k WHERE g.project_grant_id IS NOT NULL AND NOT EXISTS
		(SELECT FROM project_grants p WHERE p.instance_id = g.instance_id AND p.id = g.project_grant_id AND k = ANY(p.role_keys))) +
	(SELECT count(*) FROM user_grants WHERE role_keys = '{}') +
	(SELECT count(*) FROM memberships m WHERE m.level = 4 AND NOT EXISTS (SELECT FROM projects p WHERE p.instance_id = m.instance_id AND p.id = m.object_id))
)::text`

// silent counts objects that are gone without an event that says so.
const silent = `SELECT count(*)::text FROM (
	SELECT aggregate_type, aggregate_id FROM events WHERE event_type IN
		('project.added', 'project.role.added', 'project.grant.added', 'user.grant.added', 'project.application.added', 'project.application.key.added')
	EXCEPT SELECT aggregate_type, aggregate_id FROM events WHERE event_type ~ 'removed$'
	EXCEPT (SELECT 'project', id FROM projects UNION SELECT 'role', id FROM project_roles UNION SELECT 'project_grant', id FROM project_grants
		UNION SELECT 'user_grant', id FROM user_grants UNION SELECT 'app', id FROM apps UNION SELECT 'app_key', id FROM app_keys)
) gone`

// TestREL025_NoGrantOutlivesWhatItNames gives and takes roles, grants and projects
// on two nodes at once.
func TestREL025_NoGrantOutlivesWhatItNames(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	second := c.org("A2")
	users := []string{c.user("owner"), c.user("creator"), c.user("second")}
	a := c.token("a", "owner")
	for round := range 12 {
		id := c.project(fmt.Sprint("p", round), "a", "b", "c")
		grant := idOf(t, c.call(0, "a.example", a, http.MethodPost, projectGrants, fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q,"roleKeys":["a","b"]}`, id, second)))
		role := c.value("SELECT id FROM project_roles WHERE project_id = $1 AND key = 'a'", id)
		existing := idOf(t, c.call(0, "a.example", a, http.MethodPost, userGrants, fmt.Sprintf(`{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["b"]}`, users[0], id, grant)))
		requests := [][3]string{
			{http.MethodDelete, roles + "/" + role},
			{http.MethodPatch, projectGrants + "/" + grant, `{"roleKeys":{"keys":["a","c"]}}`},
			{http.MethodPatch, userGrants + "/" + existing, `{"roleKeys":{"keys":["a","b"]}}`},
			{http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"x","api":{}}`, id)},
		}
		switch round % 3 {
		case 1:
			requests = append(requests, [3]string{http.MethodDelete, projectGrants + "/" + grant})
		case 2:
			requests = append(requests, [3]string{http.MethodDelete, projects + "/" + id})
		}
		for _, user := range users {
			requests = append(requests,
				[3]string{http.MethodPost, userGrants, fmt.Sprintf(`{"userId":%q,"projectId":%q,"roleKeys":["a","c"]}`, user, id)},
				[3]string{http.MethodPost, userGrants, fmt.Sprintf(`{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["a"]}`, user, id, grant)})
		}
		var all sync.WaitGroup
		for i, r := range requests {
			all.Go(func() {
				if got := c.call(i%2, "a.example", a, r[0], r[1], r[2]); got.status >= 500 {
					t.Errorf("round %d: %s %s %s: %d %s", round, r[0], r[1], r[2], got.status, got.body)
				}
			})
		}
		all.Wait()
		if got := c.value(dangling); got != "0" {
			t.Fatalf("round %d: %s references dangle", round, got)
		}
	}
	if got := c.value(silent); got != "0" {
		t.Errorf("%s objects are gone without an event", got)
	}
}

func TestSEC059_SecretsAndKeysAreShownOnceAndNeverInEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	owner := c.as("owner")
	id := c.project("p")
	created := owner(http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"web","oidc":{"redirectUris":["https://app.example.com/cb"]}}`, id))
	app := idOf(t, created)
	rotated := owner(http.MethodPost, apps+"/"+app+"/_regenerate_secret", `{"overlap":"3600s"}`)
	made := owner(http.MethodPost, apps+"/"+app+"/keys", `{}`)
	key := idOf(t, made)
	var shown []string
	for _, got := range []reply{created, rotated, made} {
		var answer struct{ ClientSecret, KeyDetails string }
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil || len(answer.ClientSecret+answer.KeyDetails) < 43 {
			t.Fatalf("no secret (%v): %s", err, got.body)
		}
		shown = append(shown, answer.ClientSecret+answer.KeyDetails)
	}
	all := c.value("SELECT string_agg(payload::text, ' ') FROM events")
	for _, path := range []string{apps + "/_search", apps + "/" + app + "/keys/_search"} {
		all += owner(http.MethodPost, path, "[]").body
	}
	all += owner(http.MethodGet, apps+"/"+app, "").body
	for _, secret := range append(shown, "PRIVATE KEY", "secretHash", "secret_hash") {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in an answer or event", secret)
		}
	}
	want := "project.application.added project.application.config.oidc.added project.application.secret.changed"
	if got := c.value("SELECT string_agg(event_type, ' ' ORDER BY sequence) FROM events WHERE aggregate_id = $1", app); got != want {
		t.Errorf("events: %s, want %s", got, want)
	}
	// A key belongs to its application, and goes with it.
	c.expect(owner(http.MethodDelete, apps+"/"+id+"/keys/"+key, ""), 404)
	c.expect(owner(http.MethodPatch, apps+"/"+app, `{"oidc":{"authMethodType":"AUTH_METHOD_TYPE_NONE"}}`), 200)
	c.expect(owner(http.MethodPost, apps+"/"+app+"/_regenerate_secret", `{}`), 400, "NO_SECRET")
	if got := c.value("SELECT (secret_hash IS NULL AND old_secret_hash IS NULL)::text FROM apps WHERE id = $1", app); got != "true" {
		t.Error("the secret stays although the application does not use it any more")
	}
	c.expect(owner(http.MethodDelete, apps+"/"+app, ""), 200)
	if got := c.value("SELECT string_agg(event_type, ' ' ORDER BY sequence) FROM events WHERE aggregate_id = $1", key); got != "project.application.key.added project.application.key.removed" {
		t.Errorf("events of the key: %s", got)
	}
}

func TestSEC003_LeavingDevelopmentModeChecksWhatIsRegistered(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	owner := c.as("owner")
	app := idOf(t, owner(http.MethodPost, apps, fmt.Sprintf(`{"projectId":%q,"name":"web","oidc":{"developmentMode":true,"redirectUris":["http://dev.example.com/*"]}}`, c.project("p"))))
	c.expect(owner(http.MethodPatch, apps+"/"+app, `{"oidc":{"developmentMode":false}}`), 400, "INVALID_REDIRECT_URI")
	c.expect(owner(http.MethodGet, apps+"/"+app, ""), 200, `"developmentMode":true`, `"noneCompliant":false`)
	c.expect(owner(http.MethodPatch, apps+"/"+app, `{"oidc":{"developmentMode":false,"redirectUris":{}}}`), 200)
	c.expect(owner(http.MethodGet, apps+"/"+app, ""), 200, `"redirectUris":[]`, "Application.OIDC.V1.NoRedirectUris")
	c.expect(owner(http.MethodPatch, apps+"/"+app, `{"api":{}}`), 400, "OTHER_APP_TYPE")
}
