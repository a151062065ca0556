package oidc_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestSEC150_OriginsAreThoseOfClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	token := b.tokens("web", "openid "+apiAudience).text("access_token")
	paths := map[string]string{
		userinfoPath: http.MethodGet, "/resources/v3alpha/users/" + w.a.users["alice"].ID: http.MethodGet, tokenPath: http.MethodPost, revokePath: http.MethodPost, introspectPath: http.MethodPost,
	}
	for origin, want := range map[string]bool{
		"https://app.example": true, "https://spa.example:8443": true,
		"null": false, "http://app.example": false, "https://app.example:443": false, "https://app.example:8443": false, "https://spa.example": false, "https://spa.example:8444": false,
		"https://app.example.evil.example": false, "https://evilapp.example": false, "https://sub.app.example": false, "https://app.example/": false, "https://APP.example": false,
		"https://app.example, https://evil.example": false, "https://app.example https://evil.example": false, "https://evil.example": false, "file://": false, "*": false,
		"https://a.example": false, "http://127.0.0.1:8080": false, "http://localhost": false, "com.example.app:": false, "https://app.examplf": false, "https://app_example": false,
		"https://" + strings.Repeat("x", 400) + ".example": false,
	} {
		for path, method := range paths {
			for _, preflight := range []bool{false, true} {
				options := []option{header("Origin", origin)}
				if preflight {
					options = append(options, header("Access-Control-Request-Method", method), header("Access-Control-Request-Headers", "authorization"))
					method = http.MethodOptions
				} else {
					options = append(options, bearer(token))
				}
				got := w.a.call(method, path, "", options...)
				allowed := got.Header.Get("Access-Control-Allow-Origin")
				if allowed != map[bool]string{true: origin}[want] || got.Header.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(strings.Join(got.Header.Values("Vary"), ","), "Origin") {
					t.Errorf("%s at %s, preflight %v: %v", origin, path, preflight, got.Header)
				}
				if preflight && (got.Header.Get("Access-Control-Allow-Methods") != "") != want {
					t.Errorf("%s at %s: preflight %v", origin, path, got.Header)
				}
			}
		}
		// What is public is so for everybody, without credentials.
		for _, path := range []string{"/.well-known/openid-configuration", keysPath} {
			got := w.a.call(http.MethodGet, path, "", header("Origin", origin))
			if got.Status != http.StatusOK || got.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s at %s: %d %v", origin, path, got.Status, got.Header)
			}
		}
	}
	// The origin of one instance is not one of the other.
	app := w.b.apps["spa"]
	w.b.must(http.MethodPatch, "/resources/v3alpha/apps/"+app.ID, `{"oidc":{"additionalOrigins":{"origins":["https://only-b.example"]}}}`)
	probe := func(s *side, origin string) string {
		return s.call(http.MethodGet, userinfoPath, "", header("Origin", origin), bearer(token)).Header.Get("Access-Control-Allow-Origin")
	}
	w.soon("a new origin", func() bool { return probe(w.b, "https://only-b.example") != "" })
	if probe(w.a, "https://only-b.example") != "" || probe(w.a, "https://spa.example:8443") == "" {
		t.Error("instances share origins")
	}
	w.soon("an origin that is gone", func() bool { return probe(w.b, "https://spa.example:8443") == "" })
}

func TestSEC215_SEC220_TheHostDecidesTheInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	discovery := func(host string, options ...option) *answer {
		return w.a.call(http.MethodGet, "/.well-known/openid-configuration", "", append(options, func(r *http.Request) { r.Host = host })...)
	}
	for host, issuer := range map[string]string{
		"a.example": w.a.issuer, "A.EXAMPLE": w.a.issuer, "a.example:443": w.a.issuer, "a.example:8080": w.a.issuer, "a.example.": w.a.issuer, "b.example": w.b.issuer,
	} {
		got := discovery(host)
		if got.text("issuer") != issuer {
			t.Errorf("%s: %d %s", host, got.Status, got.Text)
		}
		for name, value := range got.Body {
			if address, ok := value.(string); ok && !strings.HasPrefix(address, issuer) {
				t.Errorf("%s: %s is %s", host, name, address)
			}
		}
	}
	for _, host := range []string{
		"c.example", "x.a.example", "a.example.evil.example", "evil.example", "a.example@evil.example", "xa.example", "localhost", "127.0.0.1", "a.example%00", "a.example:80:80", "[a.example]x",
		"org-a.example", "a.example,b.example", "*.example",
	} {
		for _, path := range []string{"/.well-known/openid-configuration", keysPath, authorizePath + "?" + w.a.request("web").Encode(), userinfoPath, endSessionPath, "/login"} {
			got := w.a.call(http.MethodGet, path, "", func(r *http.Request) { r.Host = host })
			if got.Status != http.StatusNotFound && got.Status != http.StatusBadRequest && got.Status != http.StatusMisdirectedRequest {
				t.Errorf("%s%s: %d %.200s", host, path, got.Status, got.Text)
			}
			if strings.Contains(got.Text, w.a.issuer) || strings.Contains(got.Text, "Inventory") || got.Header.Get("Location") != "" || len(got.Header.Values("Set-Cookie")) > 0 {
				t.Errorf("%s%s: %.200s %v", host, path, got.Text, got.Header)
			}
		}
	}
	// Nothing else that can name a host counts.
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Server", "X-Original-Host", "X-Host", "Forwarded", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Rewrite-Url", "X-Original-Url"} {
		for _, value := range []string{"b.example", "host=b.example;proto=http", "http", "evil.example", "8080"} {
			if got := discovery("a.example", header(name, value)); got.text("issuer") != w.a.issuer {
				t.Errorf("%s: %s: %s", name, value, got.text("issuer"))
			}
			location := w.a.call(http.MethodGet, authorizePath+"?"+w.a.request("web").Encode(), "", header(name, value))
			if strings.Contains(location.Header.Get("Location"), "evil") || strings.Contains(strings.Join(location.Header.Values("Set-Cookie"), " "), "Domain") {
				t.Errorf("%s: %s: %v", name, value, location.Header)
			}
		}
	}
	for _, side := range []*side{w.a, w.b} {
		b := side.signedIn("alice")
		got := b.tokens("jwtweb", "openid")
		_, access := claims(got.text("access_token"))
		_, id := claims(got.text("id_token"))
		if access["iss"] != side.issuer || id["iss"] != side.issuer || side.introspect("web", got.text("access_token")).text("iss") != side.issuer {
			t.Errorf("%s: issuers %v %v", side.name, access["iss"], id["iss"])
		}
	}
	// A second domain is an issuer of its own, and tokens say which they are of.
	second := *w.a
	second.host, second.issuer = "www.a.example", "https://www.a.example"
	if got := second.call(http.MethodGet, "/.well-known/openid-configuration", "").text("issuer"); got != second.issuer {
		t.Errorf("the issuer of the second domain is %s", got)
	}
	b := w.a.signedIn("alice")
	jwt := b.tokens("jwtweb", "openid").text("access_token")
	if second.active("web", jwt) || !w.a.active("web", jwt) {
		t.Error("a token of one issuer is active at another")
	}
}

// TestSEC216_NothingChangesOnTheOtherInstance runs the flows on one instance whose
// twin has the same IDs, names and secrets, and compares the twin before and after.
func TestSEC216_NothingChangesOnTheOtherInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	twin := func() string {
		all := ""
		for _, table := range []string{"users", "apps", "projects", "sessions", "oauth_grants", "revoked_tokens", "used_assertions", "memberships", "user_grants", "events", "token_keys", "signing_keys"} {
			all += table + ":" + w.value("SELECT coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') || ' ' || count(*) FROM "+table+" t WHERE instance_id = $1", w.b.instance()) + "\n"
		}
		return all
	}
	b := w.b.signedIn("alice")
	kept := b.tokens("web", offline)
	before := twin()
	for _, app := range []string{"web", "spa", "jwt", "jwtweb"} {
		a := w.a.signedIn("alice")
		tokens := a.tokens(app, offline+" "+apiAudience)
		next := w.a.refresh(app, tokens.text("refresh_token"))
		w.a.granted(app, next)
		w.a.refresh(app, tokens.text("refresh_token")) // reuse
		w.a.as(app, revokePath, pairs("token", next.text("access_token")))
		w.a.as(app, revokePath, pairs("token", next.text("refresh_token")))
		a.logout()
	}
	w.a.service("robot", "openid")
	w.a.form(tokenPath, pairs("grant_type", grantJWT, "assertion", w.a.assertion("robot", nil), "scope", "openid"))
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["alice"].ID+"/_deactivate", "{}")
	w.a.must(http.MethodPost, "/resources/v3alpha/apps/"+w.a.apps["web"].ID+"/_deactivate", "{}")
	if after := twin(); after != before {
		t.Errorf("the other instance changed:\n%s\nto\n%s", before, after)
	}
	for node := range 2 {
		at := w.b.on(node)
		if !at.active("api", kept.text("access_token")) || at.userinfo(kept.text("access_token")).Status != http.StatusOK {
			t.Error("a token of the other instance ended")
		}
	}
	w.b.granted("refresh", w.b.refresh("web", kept.text("refresh_token")))
	if !b.alive() {
		t.Error("the session of the other instance ended")
	}
}

func TestSEC219_AnIDIsNotGivenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	robot := w.a.users["robot"]
	token := w.a.service("robot", "openid "+urn+"org:project:id:"+w.a.projects["P"]+":aud").text("access_token")
	if !w.a.active("api", token) || !w.a.active("api", robot.Token) {
		t.Fatal("not active")
	}
	w.a.must(http.MethodDelete, "/resources/v3alpha/users/"+robot.ID, "")
	for _, org := range []string{w.a.users["olga"].OrgID, robot.OrgID} {
		got := w.a.api("owner", http.MethodPost, "/resources/v3alpha/users?ctx.orgId="+org, `{"id":"`+robot.ID+`","username":"robot","service":{"name":"Another"}}`)
		if got.Status/100 != 4 || got.Status == http.StatusNotFound {
			t.Errorf("the ID is given again: %d %s", got.Status, got.Text)
		}
		// The name may be: it is nobody's. But it is another user.
		if w.a.active("api", token) || w.a.active("api", robot.Token) || w.a.userinfo(token).Status == http.StatusOK {
			t.Error("a token of the deleted user is good")
		}
	}
	made := w.a.api("owner", http.MethodPost, "/resources/v3alpha/users?ctx.orgId="+robot.OrgID, `{"username":"robot","service":{"name":"Another"}}`)
	if made.Status != http.StatusCreated {
		t.Fatalf("%d %s", made.Status, made.Text)
	}
	if w.a.active("api", token) || w.a.active("api", robot.Token) {
		t.Error("a token of the deleted user is one of its namesake")
	}
	w.a.refused("the old secret", w.a.service("robot", "openid"), "invalid_client")
	w.a.refused("the old key", w.a.form(tokenPath, pairs("grant_type", grantJWT, "assertion", w.a.assertion("robot", nil), "scope", "openid")), "invalid_grant")
}

// While one instance is flooded another one is served: nothing of it is refused,
// although most of the flood is.
func TestSEC221_AFloodedInstanceStarvesNoOther(t *testing.T) {
	// Not parallel: all worlds share the places for hashing.
	w := newWorld(t)
	token := w.b.signedIn("alice").tokens("web", "openid").text("access_token")
	page := w.a.agent().open("/login").fill("loginName", "nobody@a.example")
	action, guess := page.fields()
	guess.Set("password", "a guess")
	var refused, flooding atomic.Int64
	stop := make(chan struct{})
	var flood sync.WaitGroup
	for range 400 {
		flood.Go(func() {
			one := &agent{side: page.side, client: page.client}
			for {
				select {
				case <-stop:
					return
				default:
				}
				if one.send(http.MethodPost, action, guess); one.got.Status == http.StatusServiceUnavailable {
					refused.Add(1)
				}
				flooding.Add(1)
			}
		})
	}
	for flooding.Load() < 100 || refused.Load() == 0 { // the limit of the suite ends it
		time.Sleep(5 * time.Millisecond)
	}
	// On a machine that is busy with other things somebody may be refused who is not
	// flooded. The flood is the control: of the other instance far less is refused.
	var calls, turnedAway int
	ask := func(what string, status int, ask func() *answer) {
		calls++
		switch got := ask(); got.Status {
		case status:
		case http.StatusServiceUnavailable:
			turnedAway++
			t.Logf("%s: %s", what, got.Text)
		default:
			t.Errorf("%s: %d %s", what, got.Status, got.Text)
		}
	}
	before, beforeRefused := flooding.Load(), refused.Load()
	for range 15 {
		ask("introspection", http.StatusOK, func() *answer { return w.b.introspect("api", token) })
		ask("a read", http.StatusOK, func() *answer {
			return w.b.api("owner", http.MethodGet, "/resources/v3alpha/users/"+w.b.users["alice"].ID, "")
		})
		ask("a search", http.StatusOK, func() *answer { return w.b.api("owner", http.MethodPost, "/resources/v3alpha/users/_search", `[]`) })
		ask("a login", http.StatusCreated, func() *answer {
			return w.b.api("owner", http.MethodPost, "/resources/v3alpha/sessions", fmt.Sprintf(`{"checks":{"user":{"loginName":%q},"password":{"password":%q}}}`, w.b.users["alice"].LoginName, password))
		})
	}
	of, away := flooding.Load()-before, refused.Load()-beforeRefused
	close(stop)
	flood.Wait()
	t.Logf("%d of %d calls of the flood were refused, %d of %d of the other instance", away, of, turnedAway, calls)
	if int64(turnedAway)*of*4 > away*int64(calls) {
		t.Errorf("of the flood %d of %d calls are refused, of the other instance %d of %d", away, of, turnedAway, calls)
	}
}
