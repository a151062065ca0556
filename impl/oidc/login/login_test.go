package login_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/api/idp"
	"github.com/writ-id/writ/impl/api/idplink"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/oidc/login"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/step"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const people = `
instances:
  - name: a
    domains: [localhost, 127.0.0.1]
    allow_registration: true
    organizations:
      - name: A
        default: true
        domains: [a.example]
        users:
          - {username: alice, human: {profile: {given_name: Alice, family_name: Adams}, email: {address: alice@mail.example, is_verified: true}, password: {plain: correct horse}}}
          - {username: bob, human: {profile: {given_name: Bob}, email: {address: bob@mail.example, is_verified: true}, password: {plain: correct horse}}}
          - {username: locked, human: {email: {address: locked@mail.example, is_verified: true}, password: {plain: correct horse}}}
          - {username: changing, human: {email: {address: changing@mail.example, is_verified: true}, password: {plain: correct horse}}}
          - {username: bare, human: {email: {address: twice@mail.example, is_verified: true}}}
          - {username: robot, service: {name: Robot}}
        projects:
          - name: P
            apps:
              - name: web
                oidc:
                  application_type: APPLICATION_TYPE_WEB
                  auth_method_type: AUTH_METHOD_TYPE_BASIC
                  grant_types: [GRANT_TYPE_AUTHORIZATION_CODE]
                  response_types: [RESPONSE_TYPE_CODE]
                  redirect_uris: ["https://app.example/cb"]
                secret: {}
      - name: O
        domains: [o.example]
        users:
          - {username: olga, human: {email: {address: olga@mail.example, is_verified: true}, password: {plain: correct horse}}}
          - {username: other, human: {email: {address: twice@mail.example, is_verified: true}, password: {plain: correct horse}}}
`

// begun is a login that an authorization endpoint begins.
type begun struct {
	flow.Asked
	flow.Proof
	Hint string
}

// world is the pages of one node, with a stub of the endpoints and a clock that
// only the test moves.
type world struct {
	*testing.T
	*login.Pages
	db       *store.DB
	url      string
	instance *policy.Instance
	users    map[string]seed.AppliedUser
	clock    atomic.Int64
	tick     atomic.Int64          // how far each reading moves the clock
	begin    atomic.Pointer[begun] // what GET /begin begins
	finished atomic.Pointer[login.Session]
	factors  *authenticator.Service
	idps     *idp.Service
	links    *idplink.Service
	roles    *policy.Roles
}

func newWorld(t *testing.T) *world { return start(t, false) }

func start(t *testing.T, secure bool) *world { return startBehind(t, secure, nil) }

// startBehind is start with servers that stand in for others.
func startBehind(t *testing.T, secure bool, origins map[string]string) *world {
	return startWith(t, secure, true, origins)
}

// startWith starts the pages. Without an inbox messages need a provider.
func startWith(t *testing.T, secure, inbox bool, origins map[string]string) *world {
	t.Helper()
	w := &world{T: t, users: map[string]seed.AppliedUser{}}
	w.clock.Store(time.Now().UnixMicro())
	w.db = pgtest.Open(t, 8)
	config := servertest.Config(w.db)
	config.Now = w.now
	env := resource.Env{DB: w.db, Now: w.now, NewID: config.NewID, Inbox: inbox}
	for _, one := range servertest.Apply(t, config, people).Users {
		name, _, _ := strings.Cut(one.LoginName, "@")
		w.users[name] = one
	}
	w.exec("UPDATE users SET state = 4 WHERE username = 'locked'")
	w.exec("UPDATE users SET password_change_required = true WHERE username = 'changing'")
	sealer, err := secret.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	roles, err := policy.NewRoles()
	if err != nil {
		t.Fatal(err)
	}
	w.instance = &policy.Instance{ID: w.users["alice"].InstanceID, Name: "a", AllowRegistration: true}
	w.instance.DefaultOrg = w.value("SELECT default_org FROM instances WHERE id = $1", w.instance.ID)
	factors, users := authenticator.NewFactors(env, sealer), user.New(user.Config{Env: env})
	w.factors = authenticator.New(env, factors)
	w.idps, w.links, w.roles = idp.New(env, sealer), idplink.New(env), roles
	w.Pages = login.New(login.Config{
		Env: env, Roles: roles, Sessions: session.New(env, factors, users), Users: users, Links: w.links,
		Box: &token.Box{DB: w.db, Sealer: sealer, Now: w.now}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Upstreams: w.idps, Upstream: upstream.New(outgoing.New(outgoing.Config{Allow: outgoing.Loopback, Origins: origins}), w.now),
		Instance: func(*http.Request) (*policy.Instance, error) { return w.instance, nil },
		Issuer:   func(*http.Request) string { return w.url },
	})
	w.begin.Store(&begun{Asked: flow.Asked{Request: "client_id=c&redirect_uri=https%3A%2F%2Fapp.example%2Fcb", AppName: "Inventory"}})
	mux := http.NewServeMux()
	mux.Handle("/login", w.Handler(w))
	mux.Handle("/login/", w.Handler(w))
	mux.HandleFunc("/done", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<title>done</title>") })
	mux.HandleFunc("/canceled", func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "<title>canceled</title>"+html.EscapeString(r.URL.RawQuery))
	})
	mux.HandleFunc("/begin", func(rw http.ResponseWriter, r *http.Request) {
		is := w.begin.Load()
		w.Begin(rw, r, w.instance, flow.New(is.Asked, is.Proof, is.Hint, w.now()))
	})
	mux.HandleFunc("/logout", func(rw http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		if w.SignOutConfirmed(r, w.instance, r.Form) {
			if err := w.SignOut(rw, r, w.instance, ""); err != nil {
				t.Error(err)
			}
			w.SignedOut(rw, r, w.instance)
			return
		}
		ending, err := w.Browser(r, w.instance)
		if err != nil {
			t.Error(err)
		}
		w.ConfirmSignOut(rw, r, w.instance, r.Form, ending)
	})
	mux.HandleFunc("/error", func(rw http.ResponseWriter, r *http.Request) {
		w.Error(rw, r, page.Problem{Status: 400, Code: "invalid_request", Description: r.URL.Query().Get("d")})
	})
	mux.HandleFunc("/post", func(rw http.ResponseWriter, r *http.Request) {
		w.Post(rw, r, "https://app.example/cb", url.Values{"state": {r.URL.Query().Get("state")}, "code": {"writ_code_x"}})
	})
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(rw, r.WithContext(policy.WithRequest(r.Context(), &policy.Request{ID: "request-1", Host: r.Host})))
	})
	listener := httptest.NewUnstartedServer(handler)
	if secure {
		listener.StartTLS()
	} else {
		listener.Start()
	}
	t.Cleanup(listener.Close)
	w.url = listener.URL
	return w
}

// Finish and Cancel are those of the provider whose pages these are.
func (w *world) Finish(rw http.ResponseWriter, r *http.Request, _ *policy.Instance, _ *flow.Flow, session *login.Session) {
	w.finished.Store(session)
	http.Redirect(rw, r, "/done", http.StatusSeeOther)
}

// Asks implements login.Provider: nobody asks for anything.
func (w *world) Asks(context.Context, string, *policy.Instance, *flow.Flow, *login.Session) (*step.Consent, error) {
	return nil, nil
}

func (w *world) Cancel(rw http.ResponseWriter, r *http.Request, _ *policy.Instance, f *flow.Flow) {
	http.Redirect(rw, r, "/canceled?"+f.Asked().Request, http.StatusSeeOther)
}

func (w *world) now() time.Time { return time.UnixMicro(w.clock.Add(w.tick.Load())).UTC() }

func (w *world) wait(d time.Duration) { w.clock.Add(d.Microseconds()) }

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.db.Pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) value(sql string, args ...any) (text string) {
	w.Helper()
	if err := w.db.Pool.QueryRow(w.Context(), sql, args...).Scan(&text); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return text
}

// browser is a browser with its cookies and the page it shows.
type browser struct {
	*world
	client *http.Client
	header http.Header // sent along
	// The page.
	status int
	path   string
	got    http.Header
	body   string
	forms  map[string]*form // by ID
}

type form struct {
	action string
	values url.Values
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	if strings.HasPrefix(w.url, "https://") {
		client.Transport = insecure()
	}
	return &browser{world: w, client: client, header: http.Header{}}
}

// open opens an address.
func (b *browser) open(path string) *browser {
	b.Helper()
	req, err := http.NewRequest(http.MethodGet, b.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	return b.do(req)
}

// send sends the form of the page with some of its fields filled in.
func (b *browser) send(pairs ...string) *browser {
	b.Helper()
	f := b.forms["form"]
	if f == nil {
		f = b.forms["accounts"]
	}
	if f == nil {
		b.Fatalf("%s has no form: %s", b.path, b.body)
	}
	values := url.Values{}
	for name, value := range f.values {
		values[name] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return b.post(f.action, values)
}

func (b *browser) post(path string, values url.Values) *browser {
	b.Helper()
	req, err := http.NewRequest(http.MethodPost, b.url+path, strings.NewReader(values.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "null")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(req)
}

func (b *browser) do(req *http.Request) *browser {
	b.Helper()
	for name, value := range b.header {
		req.Header[name] = value
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.status, b.path, b.got, b.body = res.StatusCode, res.Request.URL.Path, res.Header, string(body)
	b.parse()
	return b
}

// parse finds the forms of the page.
func (b *browser) parse() {
	b.forms = map[string]*form{}
	root, err := html.Parse(strings.NewReader(b.body))
	if err != nil {
		b.Fatal(err)
	}
	var current *form
	for node := range root.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		attr := func(name string) string {
			for _, one := range node.Attr {
				if one.Key == name {
					return one.Val
				}
			}
			return ""
		}
		switch node.Data {
		case "form":
			current = &form{attr("action"), url.Values{}}
			id := attr("id")
			if id == "" {
				id = attr("action")
			}
			b.forms[id] = current
		case "input":
			if current != nil {
				current.values.Set(attr("name"), attr("value"))
			}
		}
	}
}

// want checks where the browser is.
func (b *browser) want(status int, path string, holds ...string) *browser {
	b.Helper()
	if b.status != status || b.path != path {
		b.Fatalf("got %d %s, want %d %s: %s", b.status, b.path, status, path, b.body)
	}
	for _, text := range holds {
		if !strings.Contains(b.body, text) {
			b.Fatalf("%s does not hold %q: %s", path, text, b.body)
		}
	}
	return b
}

// signIn takes a browser through login name and password.
func (b *browser) signIn(name, password string) *browser {
	b.Helper()
	b.open("/begin")
	if b.path == "/login/accounts" {
		b.send("session", "")
	}
	b.want(200, "/login").send("loginName", name).want(200, "/login/password")
	return b.send("password", password)
}

func (w *world) done() *login.Session { return w.finished.Swap(nil) }
