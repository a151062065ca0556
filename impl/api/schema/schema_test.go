package schema_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	schemas    = "/resources/v3alpha/user_schemas"
	users      = "/resources/v3alpha/users"
	permission = `"urn:service:schema:permission":`
)

func schema(name, text string) string { return fmt.Sprintf(`{"type":%q,"schema":%s}`, name, text) }

func TestARevisionIsAnotherSchema(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", schemas, schema("person", `{"type":"object","properties":{"a":{"type":"number"},"b":{}}}`))
	for _, step := range []struct {
		patch string
		want  float64
	}{
		{`{"type":"human"}`, 1}, {`{}`, 1},
		{`{"schema":{"properties":{"b":{},"a":{"type":"number"}},"type":"object"}}`, 1}, // the same JSON
		{`{"possibleAuthenticators":{"types":["AUTHENTICATOR_TYPE_PASSWORD"]}}`, 1},
		{`{"schema":{"type":"object","properties":{"a":{"type":"string"}}}}`, 2},
		{`{"schema":{"type":"object","properties":{"a":{"type":"number"},"b":{}}}}`, 3}, // back is another one
	} {
		c.Must("owner", "PATCH", schemas+"/"+id, step.patch)
		if got := c.Must("owner", "GET", schemas+"/"+id, "").Object(t, "userSchema")["revision"]; got != step.want {
			t.Errorf("after %s: revision %v, want %v", step.patch, got, step.want)
		}
	}
	if got := c.Value("SELECT string_agg(revision::text, ' ' ORDER BY revision) FROM user_schema_revisions WHERE schema_id = $1", id); got != "1 2 3" {
		t.Errorf("revisions %s", got)
	}
	c.Refused("owner", "POST", schemas, schema("human", `{"type":"object"}`), 409, "USER_SCHEMA_TYPE_TAKEN")
	for _, bad := range []string{`{}`, `{"type":"string"}`, `{"type":"object","$ref":"https://example.com/x"}`, `{"type":"object","properties":{"a":{` + permission + `{"root":"rw"}}}}`} {
		c.Refused("owner", "POST", schemas, schema("bad", bad), 400, "INVALID_SCHEMA")
		c.Refused("owner", "PATCH", schemas+"/"+id, `{"schema":`+bad+`}`, 400, "INVALID_SCHEMA")
	}
	for _, caller := range []string{"orgowner", "nobody"} {
		c.Refused(caller, "GET", schemas+"/"+id, "", 403, "PERMISSION_DENIED")
	}
	c.Refused("bob", "GET", schemas+"/"+id, "", 404, "NOT_FOUND")
}

func TestASchemaRestsWhileItIsInactiveAndStaysWhileItIsUsed(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", schemas, schema("person", `{"type":"object"}`))
	user := c.Create("owner", users, fmt.Sprintf(`{"username":"u","human":{},"schemaId":%q,"data":{"a":1}}`, id))
	c.Refused("owner", "POST", schemas+"/"+id+"/_activate", "", 400, "STATE_UNCHANGED")
	c.Must("owner", "POST", schemas+"/"+id+"/_deactivate", "")
	c.Refused("owner", "PATCH", schemas+"/"+id, `{"type":"x"}`, 400, "USER_SCHEMA_INACTIVE")
	c.Refused("owner", "POST", users, fmt.Sprintf(`{"username":"v","human":{},"schemaId":%q}`, id), 400, "USER_SCHEMA_INACTIVE")
	c.Refused("owner", "PATCH", users+"/"+user, `{"data":{"a":2}}`, 400, "USER_SCHEMA_INACTIVE")
	c.Must("owner", "PATCH", users+"/"+user, `{"data":{"a":1},"username":"w"}`) // nothing of it changes
	c.Refused("owner", "DELETE", schemas+"/"+id, "", 400, "USER_SCHEMA_IN_USE")
	c.Must("owner", "PATCH", users+"/"+user, `{"schemaId":""}`)
	c.Must("owner", "DELETE", schemas+"/"+id, "")
	if got := c.Events(id); got != "user_schema.created user_schema.deactivated user_schema.deleted" {
		t.Errorf("events %s", got)
	}
}

func TestSEC238_WithoutItsFeatureThereAreNoSchemas(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", schemas, schema("person", `{"type":"object"}`))
	c.Must("owner", "PUT", "/v2/features/instance", `{"userSchema":false}`)
	for _, call := range [][3]string{
		{"POST", schemas, schema("x", `{"type":"object"}`)}, {"GET", schemas + "/" + id, ""}, {"PATCH", schemas + "/" + id, `{}`}, {"DELETE", schemas + "/" + id, ""},
		{"POST", schemas + "/_search", "[]"}, {"POST", schemas + "/" + id + "/_activate", ""}, {"POST", schemas + "/" + id + "/_deactivate", ""},
	} {
		c.Refused("owner", call[0], call[1], call[2], 400, "FEATURE_DISABLED")
	}
}

// TestUsersKeepToTheirSchema follows a user through the revisions of its schema.
func TestUsersKeepToTheirSchema(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", schemas, schema("person", `{"type":"object","properties":{"n":{"type":"number"}},"required":["n"],"additionalProperties":false}`))
	other := c.Create("owner", schemas, schema("other", `{"type":"object","properties":{"n":{"type":"number","maximum":5}}}`))
	user := func(of, data string) string {
		return fmt.Sprintf(`{"username":"u","human":{}%s%s}`, of, data)
	}
	with := fmt.Sprintf(`,"schemaId":%q`, id)
	c.Refused("owner", "POST", users, user("", `,"data":{"n":1}`), 400, "DATA_WITHOUT_SCHEMA")
	c.Refused("owner", "POST", users, user(`,"schemaId":"nope"`, ""), 404, "USER_SCHEMA_NOT_FOUND")
	c.Refused("owner", "POST", users, user(with, ""), 400, "INVALID_DATA") // n is required
	for _, data := range []string{`{}`, `{"n":"1"}`, `{"n":1,"m":2}`, `{"n":[]}`} {
		c.Refused("owner", "POST", users, user(with, `,"data":`+data), 400, "INVALID_DATA")
	}
	if got := c.Value("SELECT count(*)::text FROM users WHERE username = 'u'"); got != "0" {
		t.Errorf("%s users of refused calls", got)
	}
	made := c.Create("owner", users, user(with, `,"data":{"n":1}`))
	shows := func(want string) {
		t.Helper()
		for _, got := range []map[string]any{
			c.Must("owner", "GET", users+"/"+made, "").Object(t, "user"),
			c.Must("owner", "POST", users+"/_search", `[{"inIds":{"ids":["`+made+`"]}}]`).Any(t)["result"].([]any)[0].(map[string]any),
		} {
			if now := fmt.Sprint(got["schemaId"], " ", got["schemaRevision"], " ", got["data"]); now != want {
				t.Errorf("got %s, want %s", now, want)
			}
		}
	}
	shows(id + " 1 map[n:1]")
	// A new revision does not concern the user until its data changes.
	c.Must("owner", "PATCH", schemas+"/"+id, `{"schema":{"type":"object","properties":{"n":{"type":"string"}}}}`)
	c.Must("owner", "PATCH", users+"/"+made, `{"human":{"profile":{"nickName":"x"}}}`)
	c.Must("owner", "PATCH", users+"/"+made, `{"data":{"n":1}}`)
	shows(id + " 1 map[n:1]")
	c.Refused("owner", "PATCH", users+"/"+made, `{"data":{"n":2}}`, 400, "INVALID_DATA")
	c.Must("owner", "PATCH", users+"/"+made, `{"data":{"n":"2"}}`)
	shows(id + " 2 map[n:2]")
	// Another schema checks the data that is there.
	c.Refused("owner", "PATCH", users+"/"+made, fmt.Sprintf(`{"schemaId":%q}`, other), 400, "INVALID_DATA")
	c.Refused("owner", "PATCH", users+"/"+made, fmt.Sprintf(`{"schemaId":%q,"data":{"n":6}}`, other), 400, "INVALID_DATA")
	c.Must("owner", "PATCH", users+"/"+made, fmt.Sprintf(`{"schemaId":%q,"data":{"n":5}}`, other))
	shows(other + " 1 map[n:5]")
	c.Refused("owner", "PATCH", users+"/"+made, `{"schemaId":"nope"}`, 404, "USER_SCHEMA_NOT_FOUND")
	if got := c.Do("owner", "PATCH", users+"/"+made, `{"data":{"s":"`+strings.Repeat("x", 65<<10)+`"}}`); got.Status != 400 {
		t.Errorf("much data: %d", got.Status)
	}
	if got := c.Events(made); got != "user.human.added user.human.changed user.data.set user.data.set" {
		t.Errorf("events %s", got)
	}
	if got := c.Value("SELECT count(*)::text FROM events WHERE aggregate_id = $1 AND payload ? 'data'", made); got != "0" {
		t.Error("data is in events")
	}
	c.Must("owner", "PATCH", users+"/"+made, `{"schemaId":""}`)
	c.Refused("owner", "PATCH", users+"/"+made, `{"data":{"n":5}}`, 400, "DATA_WITHOUT_SCHEMA")
	shows(" 0 <nil>")
	c.Refused("bob", "POST", users, user(with, `,"data":{"n":1}`), 404, "USER_SCHEMA_NOT_FOUND") // of another tenant
	service := c.Create("owner", users, fmt.Sprintf(`{"username":"s","service":{"name":"s"},"schemaId":%q,"data":{"n":"x"}}`, id))
	if got := c.Events(service); got != "user.machine.added" {
		t.Errorf("events %s", got)
	}
}

func TestSEC236_WhoMayReadAndWriteDataSaysTheSchema(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	id := c.Create("owner", schemas, schema("person", `{"type":"object","properties":{
		"rating":{`+permission+`{"admin":"rw"}},"level":{`+permission+`{"admin":"rw","self":"r"}},"mood":{`+permission+`{"admin":"r","self":"rw"}}}}`))
	nobody := users + "/" + c.User("nobody")
	c.Must("owner", "PATCH", nobody, fmt.Sprintf(`{"schemaId":%q,"data":{"rating":1,"level":2}}`, id))
	c.Refused("owner", "PATCH", nobody, `{"data":{"rating":1,"level":2,"mood":"good"}}`, 400, "INVALID_DATA")
	data := func(user string) string {
		t.Helper()
		return fmt.Sprint(c.Must(user, "GET", nobody, "").Object(t, "user")["data"])
	}
	if got := data("nobody"); got != "map[level:2]" {
		t.Errorf("the user reads %s", got)
	}
	if got := c.Must("nobody", "POST", users+"/_search", "[]"); strings.Contains(got.Body, "rating") || !strings.Contains(got.Body, `"totalResult":"1"`) {
		t.Errorf("the user finds %s", got.Body)
	}
	c.Must("nobody", "PATCH", nobody, `{"data":{"level":2,"mood":"good"}}`)
	if got := data("owner"); got != "map[level:2 mood:good rating:1]" {
		t.Errorf("after the user wrote: %s", got)
	}
	c.Refused("nobody", "PATCH", nobody, `{"data":{"level":3}}`, 400, "INVALID_DATA")
	c.Refused("nobody", "PATCH", nobody, `{"data":{"rating":9}}`, 400, "INVALID_DATA")
	c.Refused("nobody", "PATCH", nobody, `{"schemaId":""}`, 403, "OWN_PROFILE_ONLY")
	c.Refused("nobody", "PATCH", nobody, fmt.Sprintf(`{"schemaId":%q}`, id), 403, "OWN_PROFILE_ONLY")
	c.Refused("second", "GET", nobody, "", 404, "NOT_FOUND")
	// Who may not read schemas cannot name one, but may write what users have.
	c.Refused("orgowner", "POST", users, fmt.Sprintf(`{"username":"x","human":{},"schemaId":%q}`, id), 404, "USER_SCHEMA_NOT_FOUND")
	c.Must("orgowner", "PATCH", nobody, fmt.Sprintf(`{"schemaId":%q,"data":{"rating":2,"level":2}}`, id))
}

// TestREL025_NoUserKeepsASchemaThatIsGone gives users a schema while it is deleted.
func TestREL025_NoUserKeepsASchemaThatIsGone(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 2, nil)
	for round := range 8 {
		id := c.Create("owner", schemas, schema(fmt.Sprint("s", round), `{"type":"object"}`))
		var calls sync.WaitGroup
		for i := range 3 {
			calls.Go(func() {
				got := c.Call(i%2, "a.example", "owner", "POST", users, fmt.Sprintf(`{"username":"u%d-%d","human":{},"schemaId":%q}`, round, i, id))
				if got.Status != 201 && got.Status != 404 {
					t.Errorf("create: %d %s", got.Status, got.Body)
				}
			})
		}
		calls.Go(func() {
			if got := c.Call(1, "a.example", "owner", "DELETE", schemas+"/"+id, ""); got.Status != 200 && got.Status != 400 {
				t.Errorf("delete: %d %s", got.Status, got.Body)
			}
		})
		calls.Wait()
	}
	if got := c.Value("SELECT count(*)::text FROM users u WHERE schema_id IS NOT NULL AND NOT EXISTS (SELECT FROM user_schemas s WHERE s.id = u.schema_id)"); got != "0" {
		t.Errorf("%s users have a schema that is gone", got)
	}
}
