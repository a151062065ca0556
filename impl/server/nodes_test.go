package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// twoTenants seeds the system, a tenant with all roles, and another one.
const twoTenants = `
system:
  users: [{username: system, roles: [SYSTEM_OWNER], tokens: [{name: t}]}]
instances:
  - name: a
    domains: [a.example]
    features: {multitenancy_resources_api: true}
    organizations:
      - name: A
        default: true
        domains: [org.a.example]
        users:
          - {username: owner, service: {name: Service}, instance_roles: [IAM_OWNER], tokens: [{name: t}]}
          - {username: expired, service: {name: Service}, instance_roles: [IAM_OWNER], tokens: [{name: t, expires: 2020-01-01T00:00:00Z}]}
          - {username: creator, service: {name: Service}, org_roles: [ORG_PROJECT_CREATOR], tokens: [{name: t}]}
      - name: A2
        users:
          - {username: second, service: {name: Service}, org_roles: [ORG_OWNER], tokens: [{name: t}]}
  - name: b
    domains: [b.example]
    features: {multitenancy_resources_api: true}
    organizations:
      - name: B
        users: [{username: owner, service: {name: Service}, instance_roles: [IAM_OWNER], tokens: [{name: t}]}]
`

// cluster is some nodes on one database.
type cluster struct {
	t      *testing.T
	db     *store.DB
	nodes  []string // base URLs
	tokens map[string]string
	ids    map[string]string // of instances, by name
}

func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := &cluster{t: t, ids: map[string]string{}, tokens: map[string]string{}}
	url := pgtest.New(t)
	c.db = pgtest.Connect(t, url, 8)
	applied := servertest.Apply(t, servertest.Config(c.db), twoTenants)
	maps.Copy(c.tokens, applied.Secrets)
	for _, user := range applied.Users {
		if user.InstanceID != "" && c.ids["a"] == "" {
			c.ids["a"] = user.InstanceID
		} else if user.InstanceID != "" && user.InstanceID != c.ids["a"] {
			c.ids["b"] = user.InstanceID
		}
	}
	for range nodes {
		c.nodes = append(c.nodes, "http://"+servertest.Start(t, servertest.Config(pgtest.Connect(t, url, 8))))
	}
	return c
}

func (c *cluster) token(tenant, user string) string {
	if tenant == "system" {
		return c.tokens["system.users."+user+".tokens.t"]
	}
	return c.tokens["instances."+tenant+".users."+user+".tokens.t"]
}

type reply struct {
	status int
	header http.Header
	body   string
}

// call makes a REST call to a node under a host.
func (c *cluster) call(node int, host, token, method, path, body string) reply {
	c.t.Helper()
	req, err := http.NewRequest(method, c.nodes[node]+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Host = host
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: string(text)}
}

const (
	targets    = "/resources/v3alpha/targets"
	executions = "/resources/v3alpha/executions"
	features   = "/v2/features/instance"
)

func TestSEC217_TokensAndHostsStayInTheirTenant(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	a, b, system := c.token("a", "owner"), c.token("b", "owner"), c.token("system", "system")
	for _, test := range []struct {
		name, host, token string
		want              int
	}{
		{"a token on its own host", "a.example", a, 200},
		{"whatever case and port the host has", "A.Example.:1234", a, 200},
		{"a token on another tenant's host", "b.example", a, 401},
		{"the other way round", "a.example", b, 401},
		{"an unknown host", "c.example", a, 404},
		{"a host below a known one", "x.a.example", a, 404},
		{"a token that has expired", "a.example", c.token("a", "expired"), 401},
		{"no token", "a.example", "", 401},
		{"an altered token", "a.example", a[:len(a)-1] + "x", 401},
		{"a token of the system, on any tenant", "b.example", system, 403}, // it may manage features, not targets
	} {
		t.Run(test.name, func(t *testing.T) {
			got := c.call(0, test.host, test.token, http.MethodPost, targets+"/_search", "[]")
			if got.status != test.want {
				t.Errorf("got %d, want %d: %s", got.status, test.want, got.body)
			}
			if challenge := got.header.Get("WWW-Authenticate"); (got.status == 401) != (challenge != "") {
				t.Errorf("status %d with WWW-Authenticate %q", got.status, challenge)
			}
		})
	}
}

func TestSEC218_AContextIsWithinReach(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	a, system := c.token("a", "owner"), c.token("system", "system")
	for _, test := range []struct {
		name, token, query string
		want               int
	}{
		{"one's own instance by ID", a, "?ctx.instanceId=" + c.ids["a"], 200},
		{"and by domain", a, "?ctx.instanceDomain=a.example", 200},
		{"another tenant by ID", a, "?ctx.instanceId=" + c.ids["b"], 404},
		{"another tenant by domain", a, "?ctx.instanceDomain=b.example", 404},
		{"one that does not exist", a, "?ctx.instanceId=nope", 404},
		{"a system caller names any tenant", system, "?ctx.instanceId=" + c.ids["b"], 200},
		{"an organization, where an instance is asked for", a, "?ctx.orgDomain=org.a.example", 400},
		{"an organization that does not exist", a, "?ctx.orgId=nope", 404},
		{"the system, where an instance is asked for", a, "?ctx.system=true", 400},
		{"system=false", a, "?ctx.system=false", 400},
		{"two members", a, "?ctx.instanceId=x&ctx.orgId=y", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := c.call(0, "a.example", test.token, http.MethodPut, features+test.query, `{"multitenancySettings":true}`)
			if got.status != test.want {
				t.Errorf("got %d, want %d: %s", got.status, test.want, got.body)
			}
		})
	}
}

// TestREL063_AnotherNodeSeesAChangeWithinASecond switches the feature on one
// node and asks the other.
func TestREL063_AnotherNodeSeesAChangeWithinASecond(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	a := c.token("a", "owner")
	search := func(node int) int {
		return c.call(node, "a.example", a, http.MethodPost, targets+"/_search", "[]").status
	}
	if got := search(1); got != 200 {
		t.Fatalf("before: got %d, want 200", got)
	}
	if got := c.call(0, "a.example", a, http.MethodPut, features, `{"multitenancyResourcesApi":false}`); got.status != 200 {
		t.Fatal(got.body)
	}
	if got := search(0); got != 400 {
		t.Errorf("the node itself: got %d at once, want 400", got)
	}
	for asked := 0; search(1) != 400; time.Sleep(10 * time.Millisecond) { // a second, but for slow machines
		if asked++; asked > 110 {
			t.Fatal("the other node did not see it within a second")
		}
	}
}

// TestREL022_OneOfManyParallelFirstsCreates puts one new condition 64 times at
// once, on two nodes.
func TestREL022_OneOfManyParallelFirstsCreates(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	a := c.token("a", "owner")
	var ids []string
	for i := range 4 {
		got := c.call(0, "a.example", a, http.MethodPost, targets, fmt.Sprintf(`{"name":"t%d","restWebhook":{"url":"https://t.example"},"timeout":"1s"}`, i))
		ids = append(ids, idOf(t, got))
	}
	for round, condition := range []string{
		`{"request":{"all":true}}`, `{"response":{"all":true}}`, `{"event":{"all":true}}`, `{"event":{"group":"target"}}`, `{"event":{"event":"target.added"}}`, `{"function":"preuserinfo"}`,
	} {
		counts, mu := map[int]int{}, sync.Mutex{}
		var calls sync.WaitGroup
		for i := range 64 {
			calls.Go(func() {
				body := fmt.Sprintf(`{"condition":%s,"targets":["%s","%s"]}`, condition, ids[i%4], ids[(i+1)%4])
				got := c.call(i%2, "a.example", a, http.MethodPost, executions, body)
				for got.status == http.StatusServiceUnavailable && strings.Contains(got.body, `"OVERLOADED"`) { // on a slow machine: nothing was done
					got = c.call(i%2, "a.example", a, http.MethodPost, executions, body)
				}
				mu.Lock()
				defer mu.Unlock()
				counts[got.status]++
				if got.status != 200 && got.status != 201 {
					t.Errorf("round %d: %d %s", round, got.status, got.body)
				}
			})
		}
		calls.Wait()
		if counts[201] != 1 {
			t.Errorf("round %d: %d answers of 201, want exactly one", round, counts[201])
		}
	}
	// The content is one of the inputs, never a mix.
	rows, err := c.db.Pool.Query(t.Context(), "SELECT array_agg(target_id ORDER BY position) FROM execution_targets GROUP BY execution_id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var got []string
		if err := rows.Scan(&got); err != nil {
			t.Fatal(err)
		}
		n++
		mixed := len(got) != 2
		for i := range ids {
			if !mixed && got[0] == ids[i] && got[1] != ids[(i+1)%4] {
				mixed = true
			}
		}
		if mixed {
			t.Errorf("an execution holds %v, which nobody sent", got)
		}
	}
	if err := rows.Err(); err != nil || n != 6 {
		t.Errorf("got %d executions and %v, want 6", n, err)
	}
}

// TestREL025_IncludesNeverBuildACycleTogether lets two nodes include each
// other's execution at once.
func TestREL025_IncludesNeverBuildACycleTogether(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	a := c.token("a", "owner")
	put := func(node int, group, includes string) reply {
		return c.call(node, "a.example", a, http.MethodPost, executions, fmt.Sprintf(`{"condition":{"event":{"group":%q}},"includes":[%s]}`, group, includes))
	}
	for range 20 {
		put(0, "target", "")
		put(0, "user", "")
		var both sync.WaitGroup
		statuses := make([]int, 2)
		both.Go(func() { statuses[0] = put(0, "target", `"event.user.*"`).status })
		both.Go(func() { statuses[1] = put(1, "user", `"event.target.*"`).status })
		both.Wait()
		if statuses[0]+statuses[1] != 200+400 {
			t.Fatalf("got %v, want one to win and one to be refused", statuses)
		}
	}
}

func TestREL025_NoReferenceSurvivesItsTarget(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	a := c.token("a", "owner")
	for round := range 15 {
		id := idOf(t, c.call(0, "a.example", a, http.MethodPost, targets, fmt.Sprintf(`{"name":"t%d","restWebhook":{"url":"https://t.example"},"timeout":"1s"}`, round)))
		var all sync.WaitGroup
		for i, condition := range []string{`{"request":{"all":true}}`, `{"response":{"all":true}}`, `{"event":{"all":true}}`} {
			all.Go(func() {
				got := c.call(i%2, "a.example", a, http.MethodPost, executions, fmt.Sprintf(`{"condition":%s,"targets":[%q]}`, condition, id))
				if got.status != 200 && got.status != 201 && got.status != 404 {
					t.Errorf("put: %d %s", got.status, got.body)
				}
			})
		}
		all.Go(func() {
			if got := c.call(1, "a.example", a, http.MethodDelete, targets+"/"+id, ""); got.status != 200 {
				t.Errorf("delete: %d %s", got.status, got.body)
			}
		})
		all.Wait()
	}
	var left int
	if err := c.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM execution_targets").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d references are left (%v), want none", left, err)
	}
}

// TestREL024_PatchesOfDifferentFieldsBothSurvive patches one target from two
// nodes at once.
func TestREL024_PatchesOfDifferentFieldsBothSurvive(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	a := c.token("a", "owner")
	id := idOf(t, c.call(0, "a.example", a, http.MethodPost, targets, `{"name":"t","restWebhook":{"url":"https://t.example"},"timeout":"1s"}`))
	for round := range 50 {
		name, timeout := fmt.Sprintf("t%d", round), fmt.Sprintf("%ds", round+2)
		var both sync.WaitGroup
		both.Go(func() { c.call(0, "a.example", a, http.MethodPatch, targets+"/"+id, fmt.Sprintf(`{"name":%q}`, name)) })
		both.Go(func() {
			c.call(1, "a.example", a, http.MethodPatch, targets+"/"+id, fmt.Sprintf(`{"timeout":%q}`, timeout))
		})
		both.Wait()
		got := c.call(round%2, "a.example", a, http.MethodGet, targets+"/"+id, "")
		if !strings.Contains(got.body, fmt.Sprintf("%q", name)) || !strings.Contains(got.body, fmt.Sprintf("%q", timeout)) {
			t.Fatalf("round %d: one of the patches is lost: %s", round, got.body)
		}
	}
}

// TestREL006_AnOutageIsNoAnswer stops every connection of a node and asks.
func TestREL006_AnOutageIsNoAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	config := c.db.Pool.Config().ConnConfig.Copy()
	database := config.Database
	config.Database = "postgres"
	admin, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	for _, sql := range []string{
		fmt.Sprintf("ALTER DATABASE %q ALLOW_CONNECTIONS false", database),
		fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", database),
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(1100 * time.Millisecond) // what was remembered has aged
	got := c.call(0, "a.example", c.token("a", "owner"), http.MethodPost, targets+"/_search", "[]")
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d (Retry-After %q), want 503 with it: %s", got.status, got.header.Get("Retry-After"), got.body)
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 503, "/openapi.json": 200} {
		if got := c.call(0, "a.example", "", http.MethodGet, path, ""); got.status != want {
			t.Errorf("%s: got %d, want %d", path, got.status, want)
		}
	}
	if _, err := admin.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %q ALLOW_CONNECTIONS true", database)); err != nil {
		t.Fatal(err)
	}
	for asked := 0; c.call(0, "a.example", c.token("a", "owner"), http.MethodPost, targets+"/_search", "[]").status != 200; time.Sleep(20 * time.Millisecond) {
		if asked++; asked > 250 {
			t.Fatal("it did not recover")
		}
	}
}

func idOf(t *testing.T, created reply) string {
	t.Helper()
	var answer struct{ Details struct{ ID string } }
	if err := json.NewDecoder(bytes.NewReader([]byte(created.body))).Decode(&answer); err != nil || created.status != 201 {
		t.Fatalf("create: %d %s", created.status, created.body)
	}
	return answer.Details.ID
}
