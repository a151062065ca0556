package user_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// tenant seeds an instance with two organizations.
const tenant = `
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
          - {username: orgowner, service: {name: Service}, org_roles: [ORG_OWNER], tokens: [{name: t}]}
          - {username: ada, human: {email: {address: ada@a.example, is_verified: true}, password: {plain: correct horse}}, tokens: [{name: t}]}
      - name: B
        users: [{username: bob, service: {name: Service}, org_roles: [ORG_OWNER], tokens: [{name: t}]}]
`

// world is one server with that tenant.
type world struct {
	*testing.T
	url    string
	db     *store.DB
	tokens map[string]string
	users  map[string]seed.AppliedUser
	ahead  atomic.Int64 // how far its clock is ahead
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, tokens: map[string]string{}, users: map[string]seed.AppliedUser{}}
	w.db = pgtest.Open(t, 8)
	config := servertest.Config(w.db)
	config.Now = func() time.Time {
		return time.Now().Add(time.Duration(w.ahead.Load())).UTC().Truncate(time.Microsecond)
	}
	for _, user := range servertest.Apply(t, config, tenant).Users {
		w.tokens[user.Username], w.users[user.Username] = user.Token, user
	}
	w.url = "http://" + servertest.Start(t, config)
	return w
}

const users = "/resources/v3alpha/users"

// as makes a call as a user of the seed, or with a token, and returns status and
// answer.
func (w *world) as(who, method, path, body string) (int, map[string]any) {
	w.Helper()
	token := who
	if known := w.tokens[who]; known != "" {
		token = known
	}
	req, err := http.NewRequest(method, w.url+users+path, bytes.NewReader([]byte(body)))
	if err != nil {
		w.Fatal(err)
	}
	req.Host = "a.example"
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer := map[string]any{}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, answer
}

// must is as, for calls of the owner that have to succeed.
func (w *world) must(method, path, body string) map[string]any {
	w.Helper()
	status, answer := w.as("owner", method, path, body)
	if status/100 != 2 {
		w.Fatalf("%s %s %s: got %d %v", method, path, body, status, answer)
	}
	return answer
}

// refused checks that a call is refused for a reason.
func (w *world) refused(who, method, path, body string, want int, reason string) {
	w.Helper()
	status, answer := w.as(who, method, path, body)
	if status != want || !strings.Contains(fmt.Sprint(answer), "reason:"+reason+"]") && !strings.Contains(fmt.Sprint(answer), "reason:"+reason) {
		w.Errorf("%s: %s %s %s: got %d %v, want %d %s", who, method, path, body, status, answer, want, reason)
	}
}

func id(answer map[string]any) string { return answer["details"].(map[string]any)["id"].(string) }

// found returns the login names that a filter finds, in order of the username.
func (w *world) found(filter string) string {
	w.Helper()
	answer := w.must("POST", "/_search?query.asc=true&sortingColumn=USER_FIELD_NAME_USERNAME", "["+filter+"]")
	var names []string
	result, _ := answer["result"].([]any)
	for _, user := range result {
		names = append(names, user.(map[string]any)["loginName"].(string))
	}
	return strings.Join(names, " ")
}

func TestSEC298_OneUsernameHasOneCanonicalForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(name string) string {
		text, _ := json.Marshal(name)
		return `{"username":` + string(text) + `,"human":{}}`
	}
	made := w.must("POST", "", create(" Zoë\u0301 "))
	user := w.must("GET", "/"+id(made), "")["user"].(map[string]any)
	if got := user["username"]; got != "Zoë\u0301" { // no composed form exists of this one
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"ZOË\u0301", "zoe\u0308\u0301", "Zoë\u0301\t"} {
		w.refused("owner", "POST", "", create(name), 409, "USER_USERNAME_TAKEN")
	}
	for _, name := range []string{"   ", "a\u200bb", "a\u202eb", "ａdmin", "ﬁn", "a\u0007", "a\u3164b", "a\ufe0fb", "a\u2028b"} {
		w.refused("owner", "POST", "", create(name), 400, "INVALID_USERNAME")
	}
	w.refused("owner", "PATCH", "/"+id(made), `{"username":"OWNER"}`, 409, "USER_USERNAME_TAKEN")
}

func TestSEC219_AnIDIsNeverUsedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("POST", "", `{"username":"x","id":"mine","service":{"name":"x"}}`)
	w.refused("owner", "POST", "", `{"username":"y","id":"mine","service":{"name":"y"}}`, 409, "USER_ID_TAKEN")
	w.must("DELETE", "/mine", "")
	w.refused("owner", "POST", "?ctx.orgId="+w.users["bob"].OrgID, `{"username":"x","id":"mine","service":{"name":"x"}}`, 409, "USER_ID_TAKEN")
}

func TestLoginNamesAreFoundByAllMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("POST", "", `{"username":"alpha","human":{}}`)
	if _, err := w.db.Pool.Exec(t.Context(), "UPDATE users SET username = 'al@pha', username_folded = 'al@pha' WHERE username = 'alpha'"); err != nil {
		t.Fatal(err) // such names are refused now (SEC-298), but there may be some
	}
	const alpha, bob = "al@pha@org.a.example", "bob@b.a.example"
	for _, c := range []struct{ text, method, want string }{
		{alpha, "EQUALS", alpha}, {"AL@PHA@org.A.example", "EQUALS", ""}, {"AL@PHA@org.A.example", "EQUALS_IGNORE_CASE", alpha},
		{"al@pha", "EQUALS", ""}, {"bob", "EQUALS", ""}, {bob, "EQUALS", bob}, {"bob@org.a.example", "EQUALS", ""}, {"", "EQUALS", ""},
		{"al@p", "STARTS_WITH", alpha}, {"al@pha@org", "STARTS_WITH", alpha}, {"al@pha@orgs", "STARTS_WITH", ""}, {"AL@PHA@O", "STARTS_WITH_IGNORE_CASE", alpha},
		{"pha@org.a.example", "ENDS_WITH", alpha}, {"ob", "ENDS_WITH", ""}, {"pha", "ENDS_WITH", ""}, {"a@org.a.EXAMPLE", "ENDS_WITH_IGNORE_CASE", "ada@org.a.example " + alpha},
		{"a@org", "CONTAINS", "ada@org.a.example " + alpha}, {"l@p", "CONTAINS", alpha}, {"ob", "CONTAINS", bob}, {"pha@a", "CONTAINS", ""}, {"%", "CONTAINS", ""}, {"PHA@ORG", "CONTAINS_IGNORE_CASE", alpha},
		{"org.a.example", "ENDS_WITH", "ada@org.a.example " + alpha + " orgowner@org.a.example owner@org.a.example"},
	} {
		// A search of the mechanism's own kind has to agree: by name and domain.
		got := w.found(fmt.Sprintf(`{"loginName":{"loginName":%q,"method":"TEXT_FILTER_METHOD_%s"}}`, c.text, c.method))
		if got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.method, c.text, got, c.want)
		}
	}
}

func TestUsersAreFoundByWhatUsersAskFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := id(w.must("POST", "", `{"username":"eve","human":{"profile":{"givenName":"Eve","familyName":"É"},"email":{"address":"Eve@x.example"},"phone":{"number":"+41790000001"}}}`))
	w.must("PUT", "/"+made+"/metadata/Tier", `{"value":"Z29sZA=="}`)
	w.must("PUT", "/"+w.users["ada"].ID+"/metadata/Tier", `{"value":"Z29s"}`)
	w.must("POST", "/"+made+"/_lock", "")
	const eve = "eve@org.a.example"
	for filter, want := range map[string]string{
		`{"inIds":{"ids":["` + made + `"]}}`:                                           eve,
		`{"username":{"text":"EVE","method":"TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE"}}`: eve,
		`{"email":{"text":"x.example","method":"TEXT_FILTER_METHOD_ENDS_WITH"}}`:       eve,
		`{"inEmails":{"emails":["eve@x.example","no@x.example"]}}`:                     eve,
		`{"inEmails":{}}`: "",
		`{"phone":{"text":"+4179","method":"TEXT_FILTER_METHOD_STARTS_WITH"}}`:                             eve,
		`{"displayName":{"text":"eve é","method":"TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE"}}`:                eve,
		`{"state":{"state":"USER_STATE_LOCKED"}}`:                                                          eve,
		`{"type":{"type":"USER_TYPE_HUMAN"}}`:                                                              "ada@org.a.example " + eve,
		`{"org":{"id":"` + w.users["bob"].OrgID + `"}}`:                                                    "bob@b.a.example",
		`{"metadataKey":{"text":"ti","method":"TEXT_FILTER_METHOD_STARTS_WITH_IGNORE_CASE"}}`:              "ada@org.a.example " + eve,
		`{"metadata":{"key":"Tier","value":"Z29sZA=="}}`:                                                   eve,
		`{"creationDate":{"timestamp":"2100-01-01T00:00:00Z","method":"TIMESTAMP_Filter_METHOD_GREATER"}}`: "",
	} {
		if got := w.found(filter); got != want {
			t.Errorf("%s: got %q, want %q", filter, got, want)
		}
	}
}

func TestSEC180_UsersChangeTheirProfileAndNothingElseOfThemselves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := "/" + w.users["ada"].ID
	if status, answer := w.as("ada", "PATCH", ada, `{"human":{"profile":{"nickName":"a"}}}`); status != 200 {
		t.Errorf("own profile: got %d %v", status, answer)
	}
	for _, body := range []string{
		`{"username":"root"}`, `{"human":{"email":{"isVerified":true}}}`, `{"human":{"email":{"address":"x@y.example"}}}`,
		`{"human":{"phone":{"isVerified":true}}}`, `{"human":{"passwordChangeRequired":false}}`,
	} {
		w.refused("ada", "PATCH", ada, body, 403, "OWN_PROFILE_ONLY")
	}
	if status, answer := w.as("ada", "GET", ada, ""); status != 200 {
		t.Errorf("own user: got %d %v", status, answer)
	}
	for _, call := range [][3]string{
		{"GET", "/" + w.users["owner"].ID, ""}, {"PATCH", "/" + w.users["owner"].ID, `{"human":{}}`},
		{"POST", "/" + w.users["owner"].ID + "/password", `{"plain":"long enough","currentPassword":"x"}`},
	} {
		w.refused("ada", call[0], call[1], call[2], 404, "NOT_FOUND")
	}
	for _, call := range [][3]string{
		{"DELETE", ada, ""}, {"POST", ada + "/_lock", ""}, {"PUT", ada + "/metadata/k", `{"value":"AA=="}`}, {"POST", ada + "/pats", `{}`},
		{"POST", ada + "/keys", `{}`}, {"POST", ada + "/secret", `{}`}, {"POST", "", `{"username":"x","human":{}}`},
	} {
		w.refused("ada", call[0], call[1], call[2], 403, "PERMISSION_DENIED")
	}
}

func TestAnAddressThatChangesIsNotVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/" + id(w.must("POST", "", `{"username":"u","human":{"email":{"address":"a@x.example","isVerified":true}}}`))
	for _, step := range []struct {
		patch string
		want  bool
	}{
		{`{"address":"a@x.example"}`, true}, {`{"address":"b@x.example"}`, false}, {`{"isVerified":true}`, true},
		{`{"address":"c@x.example","isVerified":true}`, true}, {`{"address":"","isVerified":true}`, false},
	} {
		w.must("PATCH", path, `{"human":{"email":`+step.patch+`}}`)
		user := w.must("GET", path, "")["user"].(map[string]any)
		if got := user["human"].(map[string]any)["email"].(map[string]any)["isVerified"]; got != step.want {
			t.Errorf("after %s: got %v", step.patch, got)
		}
	}
}
