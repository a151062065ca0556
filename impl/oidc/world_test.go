package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// tenant is an instance of the seed. Both are seeded with the same IDs and the same
// secrets, so that nothing but the instance itself keeps them apart (SEC-216).
const tenant = `
instances:
  - name: @NAME
    id: instance-@NAME
    domains: ["@NAME.example", "www.@NAME.example"]
    features: {multitenancy_resources_api: true, oidc_token_exchange: @EXCHANGE}
    allow_registration: true
    organizations:
      - name: O
        domains: [org-o.example]
        users:
          - {username: olga, human: {email: {address: olga@mail.example, is_verified: true}, password: {hash: "@HASH"}}}
          - {username: visitor, service: {name: Visitor}, org_roles: [ORG_ADMIN_IMPERSONATOR], secret: {value: secret of visitor 0123456789abcdefghij}}
      - name: A
        default: true
        domains: [org-a.example]
        users:
          - username: owner
            service: {name: Owner}
            instance_roles: [IAM_OWNER]
            tokens: [{name: t}]
            secret: {value: secret of owner 0123456789abcdefghij}
          - username: alice
            human:
              profile: {given_name: Alice, family_name: Adams, nick_name: Al, preferred_language: en}
              phone: {number: "+41791234567", is_verified: true}
              email: {address: alice@mail.example, is_verified: true}
              password: {hash: "@HASH"}
            metadata: {tier: "gold>?", b: b}
          - {username: bob, human: {profile: {given_name: Bob, family_name: Brown}, email: {address: bob@mail.example, is_verified: true}, password: {hash: "@HASH"}}}
          - {username: robot, service: {name: Robot}, secret: {value: secret of robot 0123456789abcdefghij}, keys: [{name: k, public_key: "@KEY1"}], tokens: [{name: t}]}
          - {username: jwtrobot, service: {name: Robot, access_token_type: ACCESS_TOKEN_TYPE_JWT}, secret: {value: "s:%+&é cret 0123456789abcdefghijk"}, keys: [{name: k, public_key: "@KEY2"}]}
          - {username: helper, service: {name: Helper}, org_roles: [ORG_END_USER_IMPERSONATOR], secret: {value: secret of helper 0123456789abcdefghij}, tokens: [{name: t}]}
          - {username: boss, service: {name: Boss}, org_roles: [ORG_OWNER, ORG_ADMIN_IMPERSONATOR], secret: {value: secret of boss 0123456789abcdefghij}, tokens: [{name: t}]}
          - {username: manager, human: {profile: {given_name: Mia, family_name: Moss}, email: {address: mia@mail.example, is_verified: true}, password: {hash: "@HASH"}}, org_roles: [ORG_OWNER]}
          - {username: chief, human: {profile: {given_name: Carl, family_name: Chief}, email: {address: carl@mail.example, is_verified: true}, password: {hash: "@HASH"}}, instance_roles: [IAM_OWNER]}
        projects:
          - name: P
            roles: [{key: reader, display_name: Reader}, {key: writer, display_name: Writer}]
            grants: [{organization: O, role_keys: [reader]}]
            apps:
              - name: web
                oidc: &web
                  application_type: APPLICATION_TYPE_WEB
                  auth_method_type: AUTH_METHOD_TYPE_BASIC
                  grant_types: [GRANT_TYPE_AUTHORIZATION_CODE, GRANT_TYPE_REFRESH_TOKEN, GRANT_TYPE_TOKEN_EXCHANGE]
                  response_types: [RESPONSE_TYPE_CODE]
                  redirect_uris: ["https://app.example/cb", "https://app.example/other?x=1"]
                  post_logout_redirect_uris: ["https://app.example/bye", "https://app.example/bye?x=1"]
                secret: {value: secret of web 0123456789abcdefghij}
              - {name: second, oidc: *web, secret: {value: secret of second 0123456789abcdefghij}}
              - {name: post, oidc: {<<: *web, auth_method_type: AUTH_METHOD_TYPE_POST}, secret: {value: secret of post 0123456789abcdefghij}}
              - {name: spa, oidc: {<<: *web, auth_method_type: AUTH_METHOD_TYPE_NONE, application_type: APPLICATION_TYPE_USER_AGENT, additional_origins: ["https://spa.example:8443"]}}
              - {name: native, oidc: {<<: *web, auth_method_type: AUTH_METHOD_TYPE_NONE, application_type: APPLICATION_TYPE_NATIVE, redirect_uris: ["http://127.0.0.1/cb", "com.example.app:/cb"]}}
              - {name: jwt, oidc: {<<: *web, auth_method_type: AUTH_METHOD_TYPE_PRIVATE_KEY_JWT}, keys: [{name: k, public_key: "@KEY1"}]}
              - {name: jwt2, oidc: {<<: *web, auth_method_type: AUTH_METHOD_TYPE_PRIVATE_KEY_JWT}, keys: [{name: k, public_key: "@KEY2"}]}
              - {name: jwtweb, oidc: {<<: *web, access_token_type: ACCESS_TOKEN_TYPE_JWT, access_token_role_assertion: true, id_token_role_assertion: true, id_token_userinfo_assertion: true}, secret: {value: secret of jwtweb 0123456789abcdefghij}}
              - {name: plain, oidc: {<<: *web, grant_types: [GRANT_TYPE_AUTHORIZATION_CODE]}, secret: {value: secret of plain 0123456789abcdefghij}}
              - name: implicit
                oidc: {<<: *web, auth_method_type: AUTH_METHOD_TYPE_NONE, application_type: APPLICATION_TYPE_USER_AGENT, grant_types: [GRANT_TYPE_IMPLICIT], response_types: [RESPONSE_TYPE_ID_TOKEN, RESPONSE_TYPE_ID_TOKEN_TOKEN]}
              - {name: api, api: {auth_method_type: AUTH_METHOD_TYPE_BASIC}, secret: {value: secret of api 0123456789abcdefghij}}
              - {name: either, oidc: {<<: *web, auth_method_type: AUTH_METHOD_TYPE_UNSPECIFIED}, secret: {value: secret of either 0123456789abcdefghij}}
              - {name: eitherapi, api: {}, secret: {value: secret of eitherapi 0123456789abcdefghij}}
              - {name: jwtapi, api: {auth_method_type: AUTH_METHOD_TYPE_PRIVATE_KEY_JWT}, keys: [{name: k, public_key: "@KEY1"}]}
          - name: Q
            roles: [{key: admin, display_name: Admin}]
            apps:
              - {name: qapi, api: {auth_method_type: AUTH_METHOD_TYPE_BASIC}, secret: {value: secret of qapi 0123456789abcdefghij}}
              - {name: qweb, oidc: *web, trusted: true, secret: {value: secret of qweb 0123456789abcdefghij}}
        user_grants:
          - {user: alice, project: P, role_keys: [reader, writer]}
          - {user: alice, project: Q, role_keys: [admin]}
`

// keys are those of clients and service users: made once, because they cost.
var keys = sync.OnceValue(func() [3]*ecdsa.PrivateKey {
	var made [3]*ecdsa.PrivateKey
	for i := range made {
		made[i], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // never fails: crypto/rand does not
	}
	return made
})

const password = "correct horse"

// passwordHash is made once too.
var passwordHash = sync.OnceValue(func() string { return secret.Hasher{}.Hash(password) })

func publicPEM(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// world is nodes on one database with two instances and a clock that only the test
// moves.
type world struct {
	*testing.T
	address string // of the database
	db      *store.DB
	nodes   []string // addresses
	clock   atomic.Int64
	a, b    *side
	// sealer opens what the nodes keep sealed.
	sealer secret.Sealer
}

// side is an instance of a world, as its clients see it. node is the one that is
// asked.
type side struct {
	*world
	name, host, issuer string
	node               int
	users              map[string]seed.AppliedUser
	apps               map[string]seed.AppliedApp
	projects           map[string]string
	keyIDs             map[string]string // of apps and service users
}

// newWorld starts two nodes.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, address: pgtest.New(t)}
	w.clock.Store(time.Now().UnixMicro())
	w.db = w.open(4)
	w.a, w.b = w.seeded("a"), w.seeded("b")
	sealer, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	w.sealer = sealer
	for range 2 {
		w.start(sealer)
	}
	return w
}

// start starts one more node.
func (w *world) start(sealer secret.Sealer) {
	w.Helper()
	config := w.config(8)
	config.Sealer = sealer
	w.nodes = append(w.nodes, servertest.Start(w, config))
}

// config is that of a node with connections of its own.
func (w *world) config(connections int) server.Config {
	w.Helper()
	config := servertest.Config(w.open(connections))
	config.Outgoing.Allow = outgoing.Loopback
	config.Now = w.now
	return config
}

// open opens the database of the world.
func (w *world) open(connections int) *store.DB {
	w.Helper()
	return pgtest.Connect(w, w.address, connections)
}

func newID() string { return servertest.NewID() }

// seeded seeds an instance. IDs are counted from one, in the same order on both.
func (w *world) seeded(name string) *side {
	w.Helper()
	text := strings.NewReplacer(
		"@HASH", passwordHash(), "@NAME", name, "@EXCHANGE", fmt.Sprint(name == "a"),
		"@KEY1", strings.ReplaceAll(publicPEM(keys()[0]), "\n", `\n`), "@KEY2", strings.ReplaceAll(publicPEM(keys()[1]), "\n", `\n`),
	).Replace(tenant)
	config, count := servertest.Config(w.db), 0
	config.Now, config.NewID = w.now, func() string { count++; return fmt.Sprintf("id-%d", count) }
	applied := servertest.Apply(w, config, text)
	s := &side{
		world: w, name: name, host: name + ".example", issuer: "https://" + name + ".example",
		users: map[string]seed.AppliedUser{}, apps: map[string]seed.AppliedApp{}, projects: map[string]string{}, keyIDs: map[string]string{},
	}
	for _, user := range applied.Users {
		s.users[user.Username] = user
	}
	for _, project := range applied.Projects {
		s.projects[project.Name] = project.ID
		for _, app := range project.Apps {
			s.apps[app.Name] = app
		}
	}
	for _, name := range []string{"jwt", "jwt2", "jwtapi"} {
		s.keyIDs[name] = w.value("SELECT id FROM app_keys WHERE instance_id = $1 AND app_id = $2", s.instance(), s.apps[name].ID)
	}
	for _, name := range []string{"robot", "jwtrobot"} {
		s.keyIDs[name] = w.value("SELECT id FROM machine_keys WHERE instance_id = $1 AND user_id = $2", s.instance(), s.users[name].ID)
	}
	return s
}

func (w *world) now() time.Time { return time.UnixMicro(w.clock.Load()).UTC() }

func (w *world) wait(d time.Duration) { w.clock.Add(d.Microseconds()) }

// value reads one text of the database.
func (w *world) value(sql string, args ...any) (text string) {
	w.Helper()
	if err := w.db.Pool.QueryRow(w.Context(), sql, args...).Scan(&text); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return text
}

// grants counts the grants of an instance: what every code that was redeemed leaves.
func (s *side) grants() string {
	s.Helper()
	return s.value("SELECT count(*)::text FROM oauth_grants WHERE instance_id = $1 AND NOT revoked", s.instance())
}

func (s *side) instance() string { return "instance-" + s.name }

// on returns the instance at another node.
func (s *side) on(node int) *side {
	other := *s
	other.node = node
	return &other
}

// RoundTrip implements http.RoundTripper: whatever the host, it is the node that is
// asked, as behind a proxy where TLS ends.
func (s *side) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	if sent.Host == "" {
		sent.Host = r.URL.Host
	}
	sent.URL.Scheme, sent.URL.Host = "http", s.nodes[s.node]
	res, err := http.DefaultTransport.RoundTrip(sent)
	if res != nil {
		res.Request = r
	}
	return res, err
}

// answer is what an endpoint says.
type answer struct {
	Status int
	Header http.Header
	Text   string
	Body   map[string]any // if it is a JSON object
}

// text returns a member of the body that is a string.
func (a *answer) text(name string) string { value, _ := a.Body[name].(string); return value }

// option changes a request before it is sent.
type option func(*http.Request)

func header(name, value string) option {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func bearer(token string) option { return header("Authorization", "Bearer "+token) }

// basic authenticates as RFC 6749, section 2.3.1, has it.
func basic(id, secret string) option {
	return func(r *http.Request) { r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret)) }
}

// call sends a request. It may be used by many goroutines.
func (s *side) call(method, path, body string, options ...option) *answer {
	s.Helper()
	req, err := http.NewRequest(method, "https://"+s.host+path, strings.NewReader(body))
	if err != nil {
		s.Error(err)
		return &answer{}
	}
	for _, option := range options {
		option(req)
	}
	res, err := s.RoundTrip(req)
	if err != nil {
		s.Error(err)
		return &answer{}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.Error(err)
	}
	got := &answer{Status: res.StatusCode, Header: res.Header, Text: string(text)}
	_ = json.Unmarshal(text, &got.Body) // if it is
	return got
}

// form posts a form.
func (s *side) form(path string, values url.Values, options ...option) *answer {
	s.Helper()
	return s.call(http.MethodPost, path, values.Encode(), append([]option{header("Content-Type", "application/x-www-form-urlencoded")}, options...)...)
}

// The endpoints.
const (
	authorizePath  = "/oauth/v2/authorize"
	tokenPath      = "/oauth/v2/token"
	introspectPath = "/oauth/v2/introspect"
	revokePath     = "/oauth/v2/revoke"
	keysPath       = "/oauth/v2/keys"
	userinfoPath   = "/oidc/v1/userinfo"
	endSessionPath = "/oidc/v1/end_session"
)

// pairs makes values of names and values; one that is there twice is repeated, and
// an empty one left out.
func pairs(list ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(list); i += 2 {
		if list[i+1] != "" {
			values.Add(list[i], list[i+1])
		}
	}
	return values
}

// credentials adds to a form, or returns the option for a header, what authenticates
// an app in the way that it is set to.
func (s *side) credentials(app string, values url.Values) (url.Values, []option) {
	s.Helper()
	known := s.apps[app]
	if known.ID == "" {
		s.Fatalf("there is no app %q", app)
	}
	sent := maps.Clone(values)
	switch app {
	case "spa", "native", "implicit":
		sent.Set("client_id", known.ClientID)
	case "post":
		sent.Set("client_id", known.ClientID)
		sent.Set("client_secret", known.Secret)
	case "jwt", "jwt2", "jwtapi":
		sent.Set("client_assertion_type", assertionType)
		sent.Set("client_assertion", s.assertion(app, nil))
	default:
		return sent, []option{basic(known.ClientID, known.Secret)}
	}
	return sent, nil
}

// as posts a form as an app.
func (s *side) as(app, path string, values url.Values, options ...option) *answer {
	s.Helper()
	sent, more := s.credentials(app, values)
	return s.form(path, sent, append(more, options...)...)
}

// introspect asks as an app whether a token is active.
func (s *side) introspect(app, token string) *answer {
	s.Helper()
	return s.as(app, introspectPath, pairs("token", token))
}

// active reports what introspection says, which has to be exactly that.
func (s *side) active(app, token string) bool {
	s.Helper()
	got := s.introspect(app, token)
	active, ok := got.Body["active"].(bool)
	if got.Status != http.StatusOK || !ok || !active && got.Text != `{"active":false}` {
		s.Errorf("introspection as %s: got %d %s", app, got.Status, got.Text)
	}
	return active
}

func (s *side) userinfo(token string) *answer {
	s.Helper()
	return s.call(http.MethodGet, userinfoPath, "", bearer(token))
}

// refused checks that an answer is an OAuth error, and that there is no token in it.
func (s *side) refused(what string, got *answer, code string) {
	s.Helper()
	if got.text("error") != code || got.Status < 400 || got.Status >= 500 || strings.Contains(got.Text, "access_token\"") {
		s.Errorf("%s: got %d %s, want %s", what, got.Status, got.Text, code)
	}
}

// granted checks that an answer has an access token, which it returns.
func (s *side) granted(what string, got *answer) string {
	s.Helper()
	token := got.text("access_token")
	if got.Status != http.StatusOK || token == "" {
		s.Fatalf("%s: got %d %s, want a token", what, got.Status, got.Text)
	}
	return token
}

// api calls the resource API as a user of the seed, or with a token.
func (s *side) api(as, method, path, body string) *answer {
	s.Helper()
	token := as
	if user, ok := s.users[as]; ok {
		token = user.Token
	}
	return s.call(method, path, body, bearer(token), header("Content-Type", "application/json"))
}

// must calls the resource API as the owner of the instance; it has to succeed.
func (s *side) must(method, path, body string, args ...any) map[string]any {
	s.Helper()
	if len(args) > 0 {
		body = fmt.Sprintf(body, args...)
	}
	got := s.api("owner", method, path, body)
	if got.Status/100 != 2 {
		s.Fatalf("%s %s %s: got %d %s", method, path, body, got.Status, got.Text)
	}
	return got.Body
}

// soon waits until every node has to see a change (REL-063): a second, counted in times
// of asking, so that a slow machine has longer.
func (w *world) soon(what string, holds func() bool) {
	w.Helper()
	for asked := 0; !holds(); time.Sleep(10 * time.Millisecond) {
		if asked++; asked > 130 {
			w.Errorf("%s: not within a second", what)
			return
		}
	}
}

// eventually waits for what has to happen by itself, however slow the machine is.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: it never does", what)
		}
	}
}

// exec runs a statement.
func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.db.Pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// env is what services are made of, over the database and the clock of the nodes.
func (w *world) env() resource.Env {
	return resource.Env{DB: w.db, Now: w.now, NewID: newID}
}
