package oidc_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/cache"
)

func TestSEC008_ACodeIsBoundToItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.agent()
	// Two tabs of one browser: what one asks for never gets into the other's code.
	first := b.open(authorizePath + "?" + w.a.request("web", "nonce", "first", "scope", "openid email", "code_challenge", challengeOf(verifier), "code_challenge_method", "S256").Encode()).at.String()
	second := b.open(authorizePath + "?" + w.a.request("second", "nonce", "second", "scope", "openid profile").Encode()).at.String()
	b.open(first).signIn("alice")
	code := b.result().Get("code")
	redemption := w.a.redemption("web", code)
	redemption.Set("code_verifier", verifier)
	got := w.a.as("web", tokenPath, redemption)
	w.a.granted("first", got)
	_, body := claims(got.text("id_token"))
	if body["nonce"] != "first" || body["azp"] != w.a.apps["web"].ClientID || got.text("scope") != "openid email" || body["sub"] != w.a.users["alice"].ID || body["sid"] != b.sessionID() {
		t.Errorf("first: %v, scope %q", body, got.text("scope"))
	}
	signedIn := body["auth_time"]
	w.wait(30 * time.Minute)
	b.open(second)
	if !strings.HasPrefix(b.at.Path, "/login") {
		t.Fatalf("the second tab is at %s", b.at)
	}
	b.signIn("bob") // somebody else in the second tab
	got = w.a.redeem("second", b.result().Get("code"))
	w.a.granted("second", got)
	_, body = claims(got.text("id_token"))
	if body["nonce"] != "second" || body["azp"] != w.a.apps["second"].ClientID || got.text("scope") != "openid profile" || body["sub"] != w.a.users["bob"].ID || body["auth_time"] == signedIn {
		t.Errorf("second: %v, scope %q", body, got.text("scope"))
	}
	// Another session is begun between code and redemption: the code stays whose it was.
	b = w.a.signedIn("alice")
	code = b.code("web")
	b.open(authorizePath + "?" + w.a.request("web", "prompt", "login").Encode()).open(b.at.Path + "?" + b.at.RawQuery).signIn("bob")
	_, body = claims(w.a.redeem("web", code).text("id_token"))
	if body["sub"] != w.a.users["alice"].ID {
		t.Errorf("the code of alice is redeemed for %v", body["sub"])
	}
	// The browser cannot change what the flow asks for: it is sealed.
	b = w.a.agent()
	b.open(authorizePath + "?" + w.a.request("web").Encode())
	for _, more := range []string{"scope=openid+email", "client_id=" + w.a.apps["second"].ClientID, "redirect_uri=https%3A%2F%2Fevil.example", "nonce=other", "state=other"} {
		b.open(authorizePath + "?" + w.a.request("web", "nonce", "mine").Encode())
		b.open(b.at.String() + "&" + more).signIn("alice")
		got := b.result()
		redeemed := w.a.redeem("web", got.Get("code"))
		if _, body := claims(redeemed.text("id_token")); got.Get("state") != "st" || body["nonce"] != "mine" || redeemed.text("scope") != "openid" {
			t.Errorf("%s: %v %v", more, got, body)
		}
		b = w.a.agent()
	}
}

func TestSEC012_ReauthenticationIsReal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.agent()
	b.open(authorizePath + "?" + w.a.request("web").Encode()).signIn("alice")
	old := w.a.redeem("web", b.result().Get("code")).text("id_token")
	_, before := claims(old)
	for _, test := range []struct {
		name    string
		changes []string
		asks    bool
	}{
		{"a session that is young enough", []string{"max_age", "100"}, false},
		{"max_age", []string{"max_age", "1"}, true},
		{"max_age of zero", []string{"max_age", "0"}, true},
		{"max_age with a hint", []string{"max_age", "1", "id_token_hint", old}, true},
		{"prompt=login", []string{"prompt", "login"}, true},
		{"prompt=login with a hint", []string{"prompt", "login", "id_token_hint", old}, true},
		{"prompt=login and a long max_age", []string{"prompt", "login", "max_age", "100000"}, true},
	} {
		w.wait(2 * time.Second)
		got := b.authorize("web", test.changes...)
		if got.Has("code") == test.asks {
			t.Errorf("%s: got %v at %s", test.name, got, b.at)
			continue
		}
		if !test.asks {
			continue
		}
		// Silently it is an error.
		if silent := b.authorize("web", append([]string{"prompt", "none"}, test.changes...)...); silent.Has("code") && !strings.Contains(strings.Join(test.changes, " "), "prompt") {
			t.Errorf("%s: silently got %v", test.name, silent)
		}
		// Neither the pages that are left out, nor the session, finish it.
		b.authorize("web", test.changes...)
		flow := b.at.Query().Get("flow")
		for _, path := range []string{"/login/accounts", "/login/totp", "/login/change-password", "/login/password"} {
			b.open(path + "?flow=" + url.QueryEscape(flow))
			if b.result() != nil {
				t.Fatalf("%s: %s finishes it", test.name, path)
			}
			if path == "/login/accounts" {
				b.send(http.MethodPost, path, pairs("flow", flow, "session", b.sessionID()))
				if b.result() != nil {
					t.Fatalf("%s: the choice of the session finishes it", test.name)
				}
			}
		}
		b.authorize("web", test.changes...)
		for _, wrong := range []string{"", "wrong"} {
			if b.at.Path == "/login" {
				b.fill("loginName", w.a.users["alice"].LoginName)
			}
			b.fill("password", wrong)
			if b.result() != nil {
				t.Fatalf("%s: the password %q finishes it", test.name, wrong)
			}
		}
		b.authorize("web", test.changes...)
		if b.at.Path == "/login" {
			b.fill("loginName", w.a.users["alice"].LoginName)
		}
		action, values := b.fields()
		b.fill("password", password)
		_, after := claims(w.a.redeem("web", b.result().Get("code")).text("id_token"))
		if at, ok := after["auth_time"].(float64); !ok || at <= before["auth_time"].(float64) || int64(at) != w.now().Unix() {
			t.Errorf("%s: auth_time %v, before %v, now %d", test.name, after["auth_time"], before["auth_time"], w.now().Unix())
		}
		// Back in the history and sent once more, without the password.
		w.wait(2 * time.Second)
		b.send(http.MethodPost, action, values)
		if b.result().Has("code") {
			t.Errorf("%s: the old page finishes it again", test.name)
		}
		before = after
	}
}

func TestSEC016_CodesAreShortLivedAndForNobodyWhoIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	code := b.code("web")
	if len(code) < 100 {
		t.Errorf("a code of %d characters", len(code))
	}
	w.wait(59 * time.Second)
	w.a.granted("after 59 s", w.a.redeem("web", code))
	code = b.code("web")
	w.wait(61 * time.Second)
	before := w.a.grants()
	w.a.refused("after 61 s", w.a.redeem("web", code), "invalid_grant")
	for _, table := range []string{"oauth_grants", "events", "sessions", "used_assertions", "revoked_tokens"} {
		text := w.value("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM " + table + " t")
		if strings.Contains(text, "writ_code_") || strings.Contains(text, code[len(code)-40:]) {
			t.Errorf("%s holds a code", table)
		}
	}
	if after := w.a.grants(); after != before {
		t.Errorf("%s grants, want %s", after, before)
	}
	for _, test := range []struct{ name, off, on string }{
		{"the user", "/resources/v3alpha/users/" + w.a.users["alice"].ID + "/_deactivate", "/resources/v3alpha/users/" + w.a.users["alice"].ID + "/_activate"},
		{"a locked user", "/resources/v3alpha/users/" + w.a.users["alice"].ID + "/_lock", "/resources/v3alpha/users/" + w.a.users["alice"].ID + "/_unlock"},
		{"the application", "/resources/v3alpha/apps/" + w.a.apps["spa"].ID + "/_deactivate", "/resources/v3alpha/apps/" + w.a.apps["spa"].ID + "/_activate"},
		{"the project", "/resources/v3alpha/projects/" + w.a.projects["P"] + "/_deactivate", "/resources/v3alpha/projects/" + w.a.projects["P"] + "/_activate"},
		{"the organization", "/resources/v3alpha/organizations/" + w.a.users["olga"].OrgID + "/_deactivate", "/resources/v3alpha/organizations/" + w.a.users["olga"].OrgID + "/_activate"},
		{"the session", "", ""},
	} {
		name := "alice"
		if test.name == "the organization" {
			name = "olga"
		}
		b := w.a.signedIn(name)
		code, other := b.code("spa"), w.a.signedIn("bob").code("web")
		if test.off == "" {
			w.a.must(http.MethodDelete, "/resources/v3alpha/sessions/"+b.sessionID(), "")
		} else {
			w.a.must(http.MethodPost, test.off, "{}")
		}
		got := w.a.redeem("spa", code) // at once: what the application is may be known for a second, not that it was active
		if got.Status == http.StatusOK || got.text("error") != "invalid_grant" && got.text("error") != "invalid_client" {
			t.Errorf("%s: got %d %s", test.name, got.Status, got.Text)
		}
		if test.name != "the project" { // which is that of the other one too
			w.a.granted("what is not of "+test.name, w.a.redeem("web", other))
		}
		if test.on != "" {
			w.a.must(http.MethodPost, test.on, "{}")
			w.soon("on again", func() bool { return w.a.signedIn("alice").authorize("spa").Has("code") })
		}
	}
}

func TestSEC017_OneTimeValuesAreOfAKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.agent()
	b.open(authorizePath + "?" + w.a.request("web").Encode())
	flow := b.at.Query().Get("flow")
	b.signIn("alice")
	code := b.result().Get("code")
	b.open(endSessionPath + "?" + pairs("client_id", w.a.apps["web"].ClientID, "post_logout_redirect_uri", "https://app.example/bye").Encode())
	_, values := b.fields()
	if values.Get("form") == "" {
		t.Fatalf("no form to confirm with: %s", b.got.Text)
	}
	tokens := b.tokens("web", "openid offline_access")
	kinds := map[string]string{
		"flow": flow, "form": values.Get("form"), "code": code, "access token": tokens.text("access_token"), "refresh token": tokens.text("refresh_token"),
		"ID token": tokens.text("id_token"), "session token": "writ_ses_" + b.cookie("__Host-writ_sessions"), "PAT": w.a.users["robot"].Token, "browser": b.cookie("__Host-writ_browser"),
	}
	// A kind does not become another by its prefix either.
	for _, prefix := range []string{"writ_at_", "writ_rt_", "writ_code_", "writ_flow_", "writ_form_"} {
		for _, kind := range []string{"flow", "code", "access token", "refresh token"} {
			_, sealed, _ := strings.Cut(strings.TrimPrefix(kinds[kind], "writ_"), "_")
			if text := prefix + sealed; text != kinds[kind] {
				kinds[kind+" as "+prefix] = text
			}
		}
	}
	before := w.a.grants()
	for kind, text := range kinds {
		if kind != "code" {
			w.a.refused(kind+" as a code", w.a.redeem("web", text), "invalid_grant")
		}
		if kind != "refresh token" {
			w.a.refused(kind+" as a refresh token", w.a.refresh("web", text), "invalid_grant")
		}
		if kind != "access token" && kind != "PAT" {
			if got := w.a.userinfo(text); got.Status != http.StatusUnauthorized {
				t.Errorf("%s at userinfo: %d %s", kind, got.Status, got.Text)
			}
			if kind != "PAT" && w.a.active("api", text) {
				t.Errorf("%s is active", kind)
			}
			if got := w.a.api(text, http.MethodPost, "/resources/v3alpha/users/_search", "[]"); kind != "PAT" && got.Status != http.StatusUnauthorized {
				t.Errorf("%s at the resource API: %d", kind, got.Status)
			}
		}
		if kind != "flow" {
			if b.open("/login/password?flow=" + url.QueryEscape(text)); b.got.Status != http.StatusBadRequest {
				t.Errorf("%s as a flow: %d", kind, b.got.Status)
			}
		}
		if kind != "ID token" {
			if got := b.authorize("web", "id_token_hint", text, "prompt", "none"); got.Get("error") != "login_required" {
				t.Errorf("%s as a hint: %v", kind, got)
			}
		}
		w.a.refused(kind+" as an assertion", w.a.form(tokenPath, pairs("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", text, "scope", "openid")), "invalid_grant")
	}
	if after := w.a.grants(); after != before {
		t.Errorf("%s grants, want %s", after, before)
	}
	w.a.granted("the code as a code", w.a.redeem("web", code))
	w.a.granted("the refresh token as one", w.a.refresh("web", tokens.text("refresh_token")))
}

const urn = "urn:service:iam:"

func TestSEC018_OrganizationScopesHoldOnEveryRoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orgA, orgO := w.a.users["alice"].OrgID, w.a.users["olga"].OrgID
	for name, scopes := range map[string][2]string{
		"by ID":     {urn + "org:id:" + orgA, urn + "org:id:" + orgO},
		"by domain": {urn + "org:domain:primary:org-a.example", urn + "org:domain:primary:org-o.example"},
	} {
		inside, outside := "openid "+scopes[0], "openid "+scopes[1]
		b := w.a.signedIn("alice")
		got := w.a.redeem("web", b.code("web", "scope", inside))
		w.a.granted(name, got)
		if got.text("scope") != inside {
			t.Errorf("%s: granted %q", name, got.text("scope"))
		}
		// An existing session.
		if got := b.authorize("web", "scope", outside, "prompt", "none"); got.Has("code") || got.Get("error") == "" {
			t.Errorf("%s, existing session: %v", name, got)
		}
		if got := b.authorize("implicit", "scope", outside, "prompt", "none"); got.Has("access_token") || got.Has("id_token") {
			t.Errorf("%s, implicit: %v", name, got)
		}
		// A fresh login, and the account chooser, with a session of each.
		for road, b := range map[string]*agent{"fresh": w.a.agent(), "with another session": w.a.signedIn("alice"), "the chooser": w.a.signedIn("alice", "bob")} {
			b.authorize("web", "scope", outside, "prompt", map[bool]string{true: "select_account", false: "-"}[road == "the chooser"])
			if b.at.Path == "/login/accounts" {
				_, values := b.fields()
				b.send(http.MethodPost, "/login/accounts", pairs("flow", values.Get("flow"), "session", b.sessionID()))
			}
			if b.at.Path == "/login" {
				b.fill("loginName", w.a.users["alice"].LoginName)
			}
			if b.at.Path == "/login/password" {
				b.fill("password", password)
			}
			if got := b.result(); got.Has("code") {
				t.Errorf("%s, %s: got %v", name, road, got)
			}
		}
		olga := w.a.agent()
		olga.authorize("web", "scope", outside)
		if olga.signIn("olga"); !olga.result().Has("code") {
			t.Errorf("%s: who belongs is refused: %s", name, olga.got.Text)
		}
		// The token endpoint asks again.
		w.a.refused(name+", client credentials", w.a.service("robot", outside), "invalid_scope")
		w.a.granted(name+", client credentials", w.a.service("robot", inside))
		profile := func(scope string) *answer {
			return w.a.form(tokenPath, pairs("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion", w.a.assertion("robot", nil), "scope", scope))
		}
		w.a.refused(name+", JWT profile", profile(outside), "invalid_scope")
		w.a.granted(name+", JWT profile", profile(inside))
		token := b.tokens("web", inside).text("access_token")
		w.a.refused(name+", exchange", w.a.exchange("web", "subject_token", token, "scope", outside), "invalid_scope")
	}
	// The user leaves the organization's domain between code and token.
	b := w.a.signedIn("olga")
	scope := "openid offline_access " + urn + "org:domain:primary:org-o.example"
	code, refresh := b.code("web", "scope", scope), b.tokens("web", scope).text("refresh_token")
	if _, err := w.db.Pool.Exec(t.Context(), "UPDATE domains SET domain = 'moved.example' WHERE instance_id = $1 AND domain = 'org-o.example'", w.a.instance()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(cache.MaxAge) // no service was asked, so nobody was told
	w.a.refused("a code for a domain that is gone", w.a.redeem("web", code), "invalid_grant")
	w.a.refused("a refresh for it", w.a.refresh("web", refresh), "invalid_grant")
}

func TestSEC019_OnlyKnownScopesAreGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// A project of another organization that granted nothing.
	theirs := w.foreignProject()
	made := "admin made:up urn:service:iam:org:project:role:nothing " + urn + "org:project:role:admin " + urn + "org:project:id:" + theirs + ":aud " +
		urn + "org:project:id:nothing:aud " + urn + "unknown " + urn + "org:project:id: " + urn + "org:project:role:"
	const good = "openid urn:service:iam:org:project:role:reader"
	b := w.a.signedIn("alice")
	for _, app := range []string{"web", "jwtweb", "spa"} {
		got := b.tokens(app, good+" "+made)
		token := got.text("access_token")
		_, body := claims(token)
		shown := w.a.introspect("api", token)
		for where, scope := range map[string]any{"response": got.text("scope"), "introspection": shown.text("scope"), "JWT": body["scope"]} {
			if scope != good && (where != "JWT" || app == "jwtweb") {
				t.Errorf("%s: %s: %v", app, where, scope)
			}
		}
		if text := fmt.Sprint(body, shown.Text); strings.Contains(text, theirs) || strings.Contains(text, "made:up") || strings.Contains(text, "nothing") {
			t.Errorf("%s: %s", app, text)
		}
		if audience := fmt.Sprint(shown.Body["aud"]); audience != fmt.Sprint([]string{w.a.apps[app].ClientID, w.a.projects["P"]}) {
			t.Errorf("%s: audience %s", app, audience)
		}
	}
	if got := b.authorize("implicit", "scope", good+" "+made); got.Get("scope") != good {
		t.Errorf("implicit: %v", got)
	}
	got := w.a.service("robot", "openid "+made)
	if token := w.a.granted("robot", got); got.text("scope") != "openid" || w.a.active("qapi", token) {
		t.Errorf("client credentials: %s", got.Text)
	}
	refreshed := w.a.refresh("web", b.tokens("web", good+" offline_access "+made).text("refresh_token"))
	if got := refreshed.text("scope"); got != good+" offline_access" {
		t.Errorf("refresh: %q", got)
	}
	for _, scope := range []string{"made:up", "admin"} {
		w.a.refused("client credentials "+scope, w.a.service("robot", scope), "invalid_scope")
	}
	w.a.refused("no scope", w.a.service("robot", ""), "invalid_request")
	for _, scope := range []string{"openid \"", "openid \\", "openid \u00e9", "openid \x01", "openid " + strings.Repeat("x ", 101)} {
		if got := b.authorize("web", "scope", scope); got.Get("error") != "invalid_scope" {
			t.Errorf("%.20q: %v", scope, got)
		}
	}
	if got := b.authorize("web", "scope", "profile email"); got.Get("error") != "invalid_scope" {
		t.Errorf("without openid: %v", got)
	}
	// A project of the client's organization may be asked for, and one that was granted.
	shown := w.a.introspect("qapi", b.tokens("web", "openid "+urn+"org:project:id:"+w.a.projects["Q"]+":aud").text("access_token"))
	if shown.Body["active"] != true {
		t.Errorf("a project of one's own: %s", shown.Text)
	}
}

// foreignProject makes a project in the other organization.
func (w *world) foreignProject() string {
	w.Helper()
	made := w.a.must(http.MethodPost, "/resources/v3alpha/projects?ctx.orgId="+w.a.users["olga"].OrgID, `{"name":"Theirs"}`)
	id := made["details"].(map[string]any)["id"].(string)
	if owner := w.value("SELECT org_id FROM projects WHERE instance_id = $1 AND id = $2", w.a.instance(), id); owner != w.a.users["olga"].OrgID {
		w.Fatalf("the project is of %s", owner)
	}
	return id
}
