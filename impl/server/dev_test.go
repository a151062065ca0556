package server_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// bench is a node as `writ dev` has it, with the default seed.
type bench struct {
	*testing.T
	url     string
	applied *seed.Applied
	apps    map[string]seed.AppliedApp
}

func newBench(t *testing.T) *bench {
	t.Helper()
	config := servertest.Config(pgtest.Connect(t, pgtest.New(t), 8))
	config.Dev = &server.Dev{Clock: clock.New(), Clients: map[string]string{}}
	config.Now, config.External, config.Logger = config.Dev.Clock.Now, server.External{Scheme: "http"}, slog.New(slog.DiscardHandler)
	file, err := seed.Default()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, apps: map[string]seed.AppliedApp{}}
	if b.applied, err = server.ApplySeed(t.Context(), config, file, seed.Config{Reissue: true}); err != nil {
		t.Fatal(err)
	}
	for _, app := range b.applied.Projects[0].Apps {
		b.apps[app.Name] = app
		config.Dev.Clients[app.Name] = app.ClientID
	}
	b.url = "http://" + servertest.Start(t, config)
	return b
}

// TestSEC003_OnlyDevelopmentTakesLoopbackAddressesOfAnyApplication registers at a node of
// writ dev and at one of writ serve.
func TestSEC003_OnlyDevelopmentTakesLoopbackAddressesOfAnyApplication(t *testing.T) {
	t.Parallel()
	dev, strict := newBench(t), servertest.New(t, 1, nil)
	serves, token := strict.Create("owner", "/resources/v3alpha/projects", `{"name":"p"}`), ""
	for _, user := range dev.applied.Users {
		if user.Token != "" && slices.Contains(user.Roles, "IAM_OWNER") {
			token = "Bearer " + user.Token
		}
	}
	register := func(project, uri, kind string) string {
		return fmt.Sprintf(`{"projectId":%q,"name":%q,"oidc":{"redirectUris":[%q],"applicationType":"APPLICATION_TYPE_%s","additionalOrigins":["http://localhost:5173"]}}`, project, kind+uri, uri, kind)
	}
	const apps = "/resources/v3alpha/apps"
	for uri, good := range map[string]bool{
		"http://localhost:3000/cb": true, "http://127.0.0.1:3000/cb": true, "http://[::1]/cb": true,
		"http://app.example/cb": false, "http://localhost.evil.example/cb": false, "http://localhost:3000/*": false, "http://192.168.1.2/cb": false,
	} {
		for _, kind := range []string{"WEB", "USER_AGENT"} {
			want := http.StatusBadRequest
			if good {
				want = http.StatusCreated
			}
			if status, text, _ := dev.send("POST", apps, register(dev.applied.Projects[0].ID, uri, kind), "Authorization", token); status != want {
				t.Errorf("development, %s %s: got %d %s, want %d", kind, uri, status, text, want)
			}
			strict.Refused("owner", "POST", apps, register(serves, uri, kind), 400, "INVALID_REDIRECT_URI")
		}
	}
}

// send makes a request, with a JSON body or a form.
func (b *bench) send(method, path, body string, header ...string) (int, string, http.Header) {
	b.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Close = true // the transport asks again when a connection that it kept is closed
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.Header
}

// login asks for tokens, which has to do.
func (b *bench) login(body string) map[string]any {
	b.Helper()
	status, text, _ := b.send("POST", "/_dev/login", body)
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		b.Fatalf("login %s: got %d %s", body, status, text)
	}
	return answer
}

func TestALoginWithoutABrowserGivesTheTokensOfTheTokenEndpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, client := range []string{"web", b.apps["web"].ClientID, "spa"} {
		tokens := b.login(`{"user":"alice","client":"` + client + `","scopes":["openid","profile","offline_access"],"parameters":{"nonce":"n-1"}}`)
		for _, name := range []string{"access_token", "id_token", "refresh_token"} {
			if text, _ := tokens[name].(string); text == "" {
				t.Errorf("%s: there is no %s in %v", client, name, tokens)
			}
		}
		status, text, _ := b.send("GET", "/oidc/v1/userinfo", "", "Authorization", "Bearer "+tokens["access_token"].(string))
		if status != 200 || !strings.Contains(text, `"preferred_username"`) {
			t.Errorf("%s: userinfo says %d %s", client, status, text)
		}
	}
	// The refresh token is one of the client, which has to prove itself as ever.
	tokens := b.login(`{"user":"alice","client":"web","scopes":["openid","offline_access"]}`)
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)}, "client_id": {b.apps["web"].ClientID}}.Encode()
	if status, text, _ := b.send("POST", "/oauth/v2/token", form, "Content-Type", "application/x-www-form-urlencoded"); !strings.Contains(text, "invalid_client") {
		t.Errorf("without its secret the client got %d %s", status, text)
	}
}

func TestALoginCompletesAPendingAuthorization(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	web := b.apps["web"]
	pending := b.url + "/oauth/v2/authorize?" + url.Values{
		"client_id": {web.ClientID}, "redirect_uri": {web.RedirectURIs[0]}, "response_type": {"code"}, "scope": {"openid"}, "state": {"s-1"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}.Encode()
	answer := b.login(`{"user":"alice","authorize":"` + pending + `"}`)
	location, _ := answer["location"].(string)
	back, err := url.Parse(location)
	if err != nil || !strings.HasPrefix(location, web.RedirectURIs[0]) || back.Query().Get("state") != "s-1" || back.Query().Get("code") == "" {
		t.Errorf("the browser would be sent to %q", location)
	}
}

func TestALoginThatCannotBeSaysWhy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct{ name, body, want string }{
		{"nobody of that name", `{"user":"mallory","client":"web"}`, "USER_UNKNOWN"},
		{"no such client", `{"user":"alice","client":"none"}`, "CLIENT_UNKNOWN"},
		{"no client", `{"user":"alice"}`, `"field":"client"`},
		{"a redirect URI of nobody", `{"user":"alice","client":"web","redirect_uri":"https://evil.example"}`, "AUTHORIZATION_REFUSED"},
		{"a scope that is none", `{"user":"alice","client":"web","scopes":["openid","\""]}`, "AUTHORIZATION_REFUSED"},
		{"a field that is none", `{"user":"alice","client":"web","password":"x"}`, "UNKNOWN_FIELD"},
		{"another type", `{"user":1,"client":"web"}`, "INVALID_FIELD"},
		{"an authorization of another server", `{"user":"alice","authorize":"http://other.example/x"}`, `"field":"authorize"`},
	} {
		if status, text, _ := b.send("POST", "/_dev/login", test.body); status != http.StatusBadRequest || !strings.Contains(text, test.want) {
			t.Errorf("%s: got %d %s, want %s", test.name, status, text, test.want)
		}
	}
}

func TestFaultsConcernTheNextRequestsOfARoute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	add := func(body string) {
		t.Helper()
		if status, text, _ := b.send("POST", "/_dev/faults", body); status != http.StatusCreated {
			t.Fatalf("%s: got %d %s", body, status, text)
		}
	}
	get := func(path string) int { status, _, _ := b.send("GET", path, ""); return status }
	const keys, target = "/oauth/v2/keys", "/resources/v3alpha/targets/1"

	add(`{"route":"/oauth/v2/keys","count":2,"status":503,"retry_after":7}`)
	if _, _, header := b.send("GET", keys, ""); header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After is %q", header.Get("Retry-After"))
	}
	if got := [3]int{get("/livez"), get(keys), get(keys)}; got != [3]int{200, 503, 200} {
		t.Errorf("another route, the second of two, the third: got %v", got)
	}

	add(`{"route":"/resources/v3alpha/targets/{id}","method":"GET","status":500}`)
	if status, _, _ := b.send("DELETE", target, ""); status != http.StatusUnauthorized {
		t.Errorf("another method: got %d", status)
	}
	if got := [2]int{get(target), get(target)}; got != [2]int{500, 401} {
		t.Errorf("a route with a variable: got %v", got)
	}

	add(`{"route":"/oauth/v2/keys","drop":true}`)
	if status, text, _ := b.send("GET", keys, ""); status != 0 {
		t.Errorf("a dropped connection answers %d %s", status, text)
	}
	add(`{"route":"/oauth/v2/keys","delay":"1ms"}`)
	if got := get(keys); got != 200 {
		t.Errorf("a late answer is %d", got)
	}
	add(`{"route":"/oauth/v2/keys","status":500,"count":9}`)
	if _, text, _ := b.send("GET", "/_dev/faults", ""); !strings.Contains(text, `"left":9`) {
		t.Errorf("due are %s", text)
	}
	if status, _, _ := b.send("DELETE", "/_dev/faults", ""); status != http.StatusNoContent || get(keys) != 200 {
		t.Error("they are not forgotten")
	}
	for _, body := range []string{
		`{"route":"/oauth/v2/keys"}`, `{"route":"keys","status":500}`, `{"route":"/{","status":500}`, `{"route":"/_dev/faults","status":500}`, `{"route":"/x","status":200}`,
		`{"route":"/x","delay":"61s"}`, `{"route":"/x","delay":"soon"}`, `{"route":"/x","status":500,"drop":true}`, `{"route":"/x","status":500,"count":0}`, `[]`, `{`,
	} {
		if status, text, _ := b.send("POST", "/_dev/faults", body); status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", body, status, text)
		}
	}
}

func TestATokenOfAnExpiredKeyIsGoodNowhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	status, text, _ := b.send("POST", "/_dev/faults", `{"route":"/oauth/v2/token","expired_key":true}`)
	if status != http.StatusCreated {
		t.Fatalf("got %d %s", status, text)
	}
	kid := func() string {
		header, _, _ := strings.Cut(b.login(`{"user":"alice","client":"web"}`)["id_token"].(string), ".")
		return header
	}
	bad, good := kid(), kid()
	if bad == good {
		t.Error("the fault signs with the key of the others")
	}
	_, keys, _ := b.send("GET", "/oauth/v2/keys", "")
	for header, want := range map[string]bool{bad: false, good: true} {
		if got := strings.Contains(keys, keyIDOf(t, header)); got != want {
			t.Errorf("the key of %s is in the key set: %v", header, got)
		}
	}
}

func TestWhoIsInDevelopmentMovesTheClockForTokensToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tokens := b.login(`{"user":"alice","client":"web"}`)
	asked := func() int {
		status, _, _ := b.send("GET", "/oidc/v1/userinfo", "", "Authorization", "Bearer "+tokens["access_token"].(string))
		return status
	}
	before := asked()
	if status, text, _ := b.send("POST", "/_dev/clock", `{"advance":"`+(366*24*time.Hour).String()+`"}`); status != 200 {
		t.Fatalf("got %d %s", status, text)
	}
	if after := asked(); before != 200 || after != 401 {
		t.Errorf("before %d, a year later %d", before, after)
	}
}

// A page whose name was bound to this machine (DNS rebinding) can send any header to it; that
// this machine trusts itself as a proxy makes no name of it.
func TestAForwardedHostOpensNothingOfDevelopment(t *testing.T) {
	t.Parallel()
	config := servertest.Config(pgtest.Connect(t, pgtest.New(t), 4))
	config.Dev, config.Proxies = &server.Dev{Clock: clock.New()}, behind(t, false)
	at := "http://" + servertest.Start(t, config)
	for _, test := range []struct {
		host, forwarded string
		want            int
	}{
		{"localhost", "", 200}, {"localhost", "127.0.0.1:8080", 200},
		{"evil.example", "", 403}, {"evil.example", "localhost", 403}, {"localhost", "evil.example", 403},
	} {
		req, _ := http.NewRequest(http.MethodGet, at+"/_dev/clock", nil)
		if req.Host = test.host; test.forwarded != "" {
			req.Header.Set("X-Forwarded-Host", test.forwarded)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != test.want {
			t.Errorf("Host %s, X-Forwarded-Host %q: got %d, want %d", test.host, test.forwarded, res.StatusCode, test.want)
		}
	}
}

func TestAMoveOfTheClockIsHeldToItsSchema(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, body := range []string{``, `null`, `[]`, `{"moved":true}`, `{"frozen":null}`, `{"advance":"soon"}`, `{"advance":5}`, `{"set":"tomorrow"}`} {
		if status, text, _ := b.send("POST", "/_dev/clock", body); status != http.StatusBadRequest || !strings.Contains(text, `"reason"`) {
			t.Errorf("%s: got %d %s", body, status, text)
		}
	}
}

func keyIDOf(t *testing.T, header string) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(header)
	var read struct {
		KeyID string `json:"kid"`
	}
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return `"` + read.KeyID + `"`
}

func TestTheOperationsOfDevelopmentAreInItsReferenceOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	document, err := openapi3.NewLoader().LoadFromData(openapi.Development)
	if err != nil {
		t.Fatal(err)
	}
	_, contents, _ := b.send("GET", "/docs", "")
	_, page, _ := b.send("GET", "/docs/development", "")
	served := 0
	for path, item := range document.Paths.Map() {
		for verb, operation := range item.Operations() {
			served++
			if !strings.Contains(contents, `<li id="`+operation.OperationID+`"><a href="/docs/development#`+operation.OperationID+`">`) {
				t.Errorf("%s is not among the operations that the search of /docs finds", operation.OperationID)
			}
			_, after, _ := strings.Cut(page, `<article id="`+operation.OperationID+`">`)
			article, _, _ := strings.Cut(after, "</article>")
			for _, part := range []string{verb, strings.TrimSuffix(operation.Summary, "."), "none, and no token", b.url} {
				if !strings.Contains(article, part) {
					t.Errorf("%s %s: %q is not on the page", verb, path, part)
				}
			}
		}
	}
	if served < 15 {
		t.Fatalf("the document has %d operations", served)
	}
	// A node of `writ serve` shows none of it.
	at := "http://" + servertest.Start(t, servertest.Config(pgtest.Connect(t, pgtest.New(t), 4)))
	for path, want := range map[string]int{"/docs": 200, "/openapi.json": 200, "/docs/development": 404, "/_dev/openapi.json": 404} {
		res, err := http.Get(at + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want || strings.Contains(string(text), `"/docs/development"`) || strings.Contains(string(text), "LoginForDevelopment") {
			t.Errorf("%s: got %d, and development is in it", path, res.StatusCode)
		}
	}
}
