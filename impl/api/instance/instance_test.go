package instance_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	orgv3 "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	"github.com/writ-id/writ/impl/api/instance"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	instances = "/resources/v3alpha/instances"
	orgs      = "/resources/v3alpha/organizations"
	features  = "/v2/features/instance"
)

func TestANewInstanceIsReadyForItsOwner(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	made := c.Must("system", "POST", instances, `{"name":"new","domain":"new.example","organizationName":"Org","ownerUsername":"boss"}`)
	id, answer := servertest.ID(t, made), made.Any(t)
	token, org := answer["ownerToken"].(string), answer["organizationId"].(string)
	for node := range 2 {
		got := c.Call(node, "new.example", token, "GET", orgs+"/"+org, "")
		if got.Status != 200 || !strings.Contains(got.Body, `"org.new.example"`) || !strings.Contains(got.Body, `"isDefault":true`) {
			t.Errorf("node %d: got %d %s", node, got.Status, got.Body)
		}
	}
	if got := c.Call(0, "a.example", token, "GET", orgs+"/"+org, ""); got.Status != 401 {
		t.Errorf("the owner acts in another instance: %d", got.Status)
	}
	if got := c.Call(0, "new.example", "owner", "GET", orgs+"/"+org, ""); got.Status != 401 {
		t.Errorf("the owner of another instance acts here: %d", got.Status)
	}
	if got := c.Call(0, "new.example", token, "POST", instances+"/_search", "[]"); got.Status != 403 {
		t.Errorf("an owner of an instance manages instances: %d", got.Status)
	}
	if got := c.Value("SELECT count(*)::text FROM events WHERE payload::text LIKE '%' || $1 || '%'", token); got != "0" {
		t.Error("the token is in an event")
	}
	c.Refused("system", "POST", instances, `{"name":"new"}`, 409, "INSTANCE_NAME_TAKEN")
	c.Refused("system", "POST", instances, `{"name":"x","domain":"a.example"}`, 409, "DOMAIN_TAKEN")
	if got := c.Value("SELECT count(*)::text FROM instances WHERE name = 'x'"); got != "0" {
		t.Error("a refused instance is there")
	}
	c.Refused("viewer", "POST", instances, `{"name":"x"}`, 403, "PERMISSION_DENIED")
	c.Refused("owner", "POST", instances, `{"name":"x"}`, 403, "PERMISSION_DENIED")
	// The ID is not given again (SEC-219).
	c.Create("system", instances, `{"name":"mine","id":"mine"}`)
	c.Refused("system", "POST", instances, `{"name":"other","id":"mine"}`, 409, "INSTANCE_ID_TAKEN")
	c.Must("system", "DELETE", instances+"/mine", "")
	c.Refused("system", "POST", instances, `{"name":"other","id":"mine"}`, 409, "INSTANCE_ID_TAKEN")
	// Hosts route by the exact domain.
	for host, want := range map[string]int{"NEW.example:443": 200, "new.example.": 200, "x.new.example": 404, "newXexample": 404, "": 404} {
		if got := c.Call(1, host, token, "GET", orgs+"/"+org, ""); got.Status != want && host != "" {
			t.Errorf("%q: got %d, want %d", host, got.Status, want)
		}
	}
	c.Must("system", "GET", instances+"/"+id, "")
}

// web makes a gRPC-web call with an empty request and returns its grpc-status and
// HTTP status.
func web(t *testing.T, url, host, token, method string) (string, int) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url+method, strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/grpc-web+proto")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	found := res.Header.Get("Grpc-Status")
	if _, after, ok := strings.Cut(strings.ToLower(string(body)), "grpc-status: "); ok {
		found = strings.TrimSpace(strings.SplitN(after, "\r", 2)[0])
	}
	return found, res.StatusCode
}

func TestABlockedInstanceAnswersOnNoTransportButToItsOperator(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	id := c.Instance("a")
	conn, err := grpc.NewClient(strings.TrimPrefix(c.Nodes[1], "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("a.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	native := func() codes.Code {
		ctx := metadata.AppendToOutgoingContext(context.WithoutCancel(t.Context()), "authorization", "Bearer "+c.Token("owner"))
		_, err := orgv3.NewServiceOrganizationsClient(conn).SearchOrganizations(ctx, &orgv3.SearchOrganizationsRequest{})
		return status.Code(err)
	}
	rest := func(node int) int { return c.Call(node, "a.example", "owner", "POST", orgs+"/_search", "[]").Status }
	const search = "/writ.org.v3alpha.ServiceOrganizations/SearchOrganizations"
	if code, _ := web(t, c.Nodes[1], "a.example", c.Token("owner"), search); rest(0) != 200 || rest(1) != 200 || native() != codes.OK || code != "0" {
		t.Fatalf("before: REST %d, gRPC %s, gRPC-web %s", rest(1), native(), code)
	}
	c.Must("system", "POST", instances+"/"+id+"/_limit", `{"block":true}`)
	c.IsRefused(c.Do("owner", "POST", orgs+"/_search", "[]"), "the node itself", 429, "INSTANCE_BLOCKED")
	c.WithinASecond("the other node", func() bool { return rest(1) == 429 })
	if got := native(); got != codes.ResourceExhausted {
		t.Errorf("gRPC: got %s", got)
	}
	if code, httpStatus := web(t, c.Nodes[1], "a.example", c.Token("owner"), search); code != "8" {
		t.Errorf("gRPC-web: got %s with HTTP %d", code, httpStatus)
	}
	// A wrong token learns no more; another instance is not concerned.
	if got := c.Do("wrong", "POST", orgs+"/_search", "[]"); got.Status != 429 && got.Status != 401 {
		t.Errorf("a wrong token: %d", got.Status)
	}
	c.Must("bob", "POST", orgs+"/_search", "[]")
	// The operator still manages it, on its own host too.
	if got := c.Must("system", "GET", instances+"/"+id, "").Object(t, "instance"); got["blocked"] != true {
		t.Errorf("got %v", got)
	}
	c.Must("system", "POST", instances+"/_search", "[]")
	c.Must("system", "POST", instances+"/"+id+"/_limit", `{"block":false}`)
	if rest(0) != 200 {
		t.Error("it stays blocked")
	}
	c.WithinASecond("the other node again", func() bool { return rest(1) == 200 })
}

func TestBulkLimitsAreSetForAllOrNone(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	a, b := c.Instance("a"), c.Instance("b")
	blocked := func() string {
		return c.Value("SELECT string_agg(name, ' ' ORDER BY name) FILTER (WHERE blocked) || '' FROM instances")
	}
	none := func() string { return c.Value("SELECT count(*)::text FROM instances WHERE blocked") }
	for _, wrong := range []string{"nope", ""} {
		got := c.Do("system", "POST", instances+"/_limit", fmt.Sprintf(`[{"instanceId":%q,"limits":{"block":true}},{"instanceId":%q,"limits":{"block":true}}]`, a, wrong))
		if got.Status != map[string]int{"nope": 404, "": 400}[wrong] || none() != "0" {
			t.Errorf("%q: got %d %s; %s are blocked", wrong, got.Status, got.Body, none())
		}
	}
	if got := c.Value("SELECT count(*)::text FROM events WHERE event_type LIKE 'instance.limits%'"); got != "0" {
		t.Errorf("%s events of what did not happen", got)
	}
	got := c.Must("system", "POST", instances+"/_limit", fmt.Sprintf(`[{"instanceId":%q,"limits":{"block":true}},{"instanceId":%q,"limits":{"auditLogRetention":"3600s"}}]`, b, a))
	if blocked() != "b" || strings.Index(got.Body, b) > strings.Index(got.Body, a) {
		t.Errorf("blocked %s; %s", blocked(), got.Body)
	}
	if got := c.Must("system", "GET", instances+"/"+a, "").Object(t, "instance"); got["auditLogRetention"] != "3600s" || got["blocked"] != false {
		t.Errorf("got %v", got)
	}
	c.Refused("owner", "POST", instances+"/_limit", fmt.Sprintf(`[{"instanceId":%q,"limits":{"block":false}}]`, b), 403, "PERMISSION_DENIED")
}

// TestEventsAreKeptAsLongAsTheInstanceSays sweeps a day later than now.
func TestEventsAreKeptAsLongAsTheInstanceSays(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	a, b := c.Instance("a"), c.Instance("b")
	gone := c.Create("owner", orgs, `{"name":"gone","id":"gone"}`)
	c.Must("owner", "DELETE", orgs+"/"+gone, "")
	sweep := func(ahead time.Duration) (int64, error) {
		return instance.SweepEvents(t.Context(), c.DB, c.Env.Now().Add(ahead), 5000)
	}
	count := func(of string) string {
		return c.Value("SELECT count(*)::text FROM events WHERE instance_id = $1", of)
	}
	ofA, ofB := count(a), count(b)
	if n, err := sweep(24 * time.Hour); n != 0 || err != nil {
		t.Errorf("without retention %d events were swept: %v", n, err)
	}
	c.Must("system", "POST", instances+"/"+a+"/_limit", `{"auditLogRetention":"3600s"}`)
	if n, err := sweep(30 * time.Minute); n != 0 || err != nil {
		t.Errorf("%d events that are young were swept: %v", n, err)
	}
	ofSystem := count("")
	newest := c.Value("SELECT max(sequence)::text FROM events WHERE instance_id = $1", a)
	n, err := sweep(2 * time.Hour)
	if err != nil || n == 0 {
		t.Fatalf("swept %d: %v", n, err)
	}
	if left := count(a); left == ofA {
		t.Errorf("all %s events are left", left)
	}
	if got := c.Value("SELECT count(*)::text || ' ' || count(*) FILTER (WHERE event_type LIKE '%.removed')::text FROM events WHERE instance_id = $1 AND sequence < $2::bigint", a, newest); got != "1 1" {
		t.Errorf("events and deletions that are left: %s, want that of the organization", got)
	}
	if got := c.Value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND sequence = $2::bigint", a, newest); got != "1" {
		t.Error("the newest event is gone")
	}
	if count(b) != ofB || count("") != ofSystem {
		t.Error("events of others were swept")
	}
	c.Refused("owner", "POST", orgs, `{"name":"again","id":"gone"}`, 409, "ORGANIZATION_ID_TAKEN") // SEC-219 holds on
	c.Must("owner", "POST", orgs+"/_search", "[]")
	if n, err := sweep(2 * time.Hour); n != 0 || err != nil {
		t.Errorf("again %d: %v", n, err)
	}
}

// TestNothingOfAnInstanceIsLeftButItsEvents fills an instance with one of
// everything, deletes it and looks through all tables.
func TestNothingOfAnInstanceIsLeftButItsEvents(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	id := c.Instance("a")
	create := func(path, body string) string { t.Helper(); return c.Create("owner", "/resources/v3alpha/"+path, body) }
	c.Must("owner", "PUT", features, `{"multitenancyResourcesApi":true}`)
	c.Must("owner", "PATCH", "/settings/v3alpha/languages", `{"defaultLanguage":{"key":"de"}}`)
	c.Must("owner", "PATCH", "/settings/v3alpha/languages?ctx.orgId="+c.Org("A2"), `{"defaultLanguage":{"key":"en"}}`)
	schema := create("user_schemas", `{"type":"t","schema":{"type":"object"}}`)
	human := create("users", `{"username":"h","human":{"email":{"address":"h@x.example"},"password":{"plain":"correct horse"}},"schemaId":"`+schema+`","data":{"a":1}}`)
	service := create("users", `{"username":"s","service":{"name":"s"}}`)
	c.Must("owner", "POST", "/resources/v3alpha/users/"+service+"/pats", `{}`)
	c.Must("owner", "POST", "/resources/v3alpha/users/"+service+"/keys", `{}`)
	c.Must("owner", "PUT", "/resources/v3alpha/users/"+human+"/metadata/k", `{"value":"AA=="}`)
	project := create("projects", `{"name":"p"}`)
	create("roles", fmt.Sprintf(`{"projectId":%q,"key":"r"}`, project))
	app := create("apps", fmt.Sprintf(`{"projectId":%q,"name":"a","api":{}}`, project))
	c.Must("owner", "POST", "/resources/v3alpha/apps/"+app+"/keys", `{}`)
	grant := create("project_grants", fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q,"roleKeys":["r"]}`, project, c.Org("A2")))
	create("user_grants", fmt.Sprintf(`{"userId":%q,"projectId":%q,"roleKeys":["r"]}`, human, project))
	create("memberships", fmt.Sprintf(`{"userId":%q,"projectGrantId":%q,"roles":["PROJECT_GRANT_OWNER"]}`, human, grant))
	create("domains", `{"domain":"claimed.example"}`)
	create("sessions", fmt.Sprintf(`{"checks":{"user":{"userId":%q}}}`, human))
	target := create("targets", `{"name":"t","restWebhook":{"url":"https://t.example"},"timeout":"1s"}`)
	c.Must("owner", "POST", "/resources/v3alpha/executions", fmt.Sprintf(`{"condition":{"event":{"all":true}},"targets":[%q]}`, target))
	c.Must("owner", "POST", "/resources/v3alpha/executions", `{"condition":{"event":{"group":"user"}},"includes":["event"]}`)
	before := c.Value("SELECT count(*)::text FROM users WHERE instance_id <> $1", id)

	c.Must("system", "DELETE", instances+"/"+id, "")

	c.WithinASecond("no node knows it", func() bool {
		return c.Call(1, "a.example", "owner", "POST", orgs+"/_search", "[]").Status >= 400 && c.Call(0, "a.example", "owner", "POST", orgs+"/_search", "[]").Status >= 400
	})
	rows, err := c.DB.Pool.Query(t.Context(), `SELECT c.table_name FROM information_schema.columns c
		JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND c.column_name = 'instance_id' AND t.table_type = 'BASE TABLE' AND c.table_name <> 'events' ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	if rows.Err() != nil || len(tables) < 15 {
		t.Fatalf("%v: %v", tables, rows.Err())
	}
	for _, table := range tables {
		if got := c.Value(fmt.Sprintf("SELECT count(*)::text FROM %q WHERE instance_id = $1", table), id); got != "0" {
			t.Errorf("%s rows are left in %s", got, table)
		}
	}
	if got := c.Value("SELECT count(*)::text FROM users WHERE instance_id <> $1", id); got != before {
		t.Errorf("others have %s users, had %s", got, before)
	}
	for what, want := range map[string]string{human: "user.removed", project: "project.removed", schema: "user_schema.deleted", id: "instance.removed"} {
		if got := c.Events(what); strings.Count(got, want) != 1 {
			t.Errorf("events %s, want one %s", got, want)
		}
	}
	c.Refused("system", "DELETE", instances+"/"+id, "", 404, "NOT_FOUND")
}

func TestInstancesAreFoundByEveryFilterAndOrder(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := servertest.ID(t, c.Must("system", "POST", instances, `{"name":"found","domain":"found.example"}`))
	for _, filters := range []string{
		`{"inIds":{"ids":["` + id + `"]}}`, `{"name":{"name":"found"}}`, `{"domain":{"text":"FOUND","method":"TEXT_FILTER_METHOD_STARTS_WITH_IGNORE_CASE"}}`,
		`{"blocked":{"value":false}},{"name":{"name":"ou","method":"TEXT_FILTER_METHOD_CONTAINS"}}`,
	} {
		for _, column := range []string{"UNSPECIFIED", "ID", "CREATION_DATE", "CHANGE_DATE", "NAME"} {
			got := c.Must("system", "POST", instances+"/_search?query.limit=1&sortingColumn=INSTANCE_FIELD_NAME_"+column, "["+filters+"]")
			if !strings.Contains(got.Body, `"totalResult":"1"`) || !strings.Contains(got.Body, id) {
				t.Errorf("%s by %s: got %s", filters, column, got.Body)
			}
		}
	}
	if got := c.Must("system", "POST", instances+"/_search?query.limit=1", "[]"); !strings.Contains(got.Body, `"endOfList":false`) {
		t.Errorf("of several instances one is all: %s", got.Body)
	}
}
