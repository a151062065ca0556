package oidc_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSEC115_IntrospectionIsForTheAudience(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	own := alice.tokens("web", "openid").text("access_token")
	wide := alice.tokens("web", "openid "+urn+"org:project:id:"+w.a.projects["Q"]+":aud").text("access_token")
	api := alice.tokens("web", "openid "+apiAudience).text("access_token")
	robot := w.a.service("robot", "openid").text("access_token")
	robotP := w.a.service("robot", "openid "+urn+"org:project:id:"+w.a.projects["P"]+":aud").text("access_token")
	for name, test := range map[string]struct {
		token string
		for_  []string
	}{
		"of a client":                  {own, []string{"web", "second", "jwt", "api", "jwtapi"}}, // all of its project
		"for another project too":      {wide, []string{"web", "second", "jwt", "api", "jwtapi", "qapi", "qweb"}},
		"for the resource API too":     {api, []string{"web", "second", "jwt", "api", "jwtapi"}},
		"of a service user":            {robot, nil},
		"of a service user, a project": {robotP, []string{"web", "second", "jwt", "api", "jwtapi"}},
	} {
		for _, app := range []string{"web", "second", "jwt", "api", "jwtapi", "qapi", "qweb"} {
			for node := range 2 {
				if got, want := w.a.on(node).active(app, test.token), slices.Contains(test.for_, app); got != want {
					t.Errorf("%s, asked by %s: active %v, want %v", name, app, got, want)
				}
			}
		}
		for _, app := range []string{"web", "api", "qapi"} {
			if w.b.active(app, test.token) {
				t.Errorf("%s: active for %s of the other instance", name, app)
			}
		}
	}
	for _, app := range []string{"post", "spa", "native"} { // whose methods the endpoint does not take
		got := w.a.introspect(app, own)
		if w.a.refused(app, got, "invalid_client"); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: got %d", app, got.Status)
		}
	}
	for name, got := range map[string]*answer{
		"nobody":          w.a.form(introspectPath, pairs("token", own)),
		"a service user":  w.a.form(introspectPath, pairs("token", own), basic("robot", w.a.users["robot"].Secret)),
		"the token":       w.a.form(introspectPath, pairs("token", own), bearer(own)),
		"a PAT":           w.a.form(introspectPath, pairs("token", own), bearer(w.a.users["owner"].Token)),
		"the other's app": w.a.form(introspectPath, pairs("token", own), basic("nobody", w.a.apps["api"].Secret)),
	} {
		if w.a.refused(name, got, "invalid_client"); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: got %d", name, got.Status)
		}
	}
}

func TestSEC116_InactiveIsInactive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	expired := alice.tokens("web", "openid").text("access_token")
	w.wait(12 * time.Hour)
	alice = w.a.signedIn("alice")
	revoked, ended := alice.tokens("web", "openid").text("access_token"), w.a.signedIn("alice")
	w.a.as("web", revokePath, pairs("token", revoked))
	logged := ended.tokens("jwtweb", "openid").text("access_token")
	w.a.must(http.MethodDelete, "/resources/v3alpha/sessions/"+ended.sessionID(), "")
	good := alice.tokens("web", offline)
	tokens := map[string]string{
		"unknown": "writ_at_unknown", "expired": expired, "revoked": revoked, "of a session that ended": logged, "malformed": "{}", "a JWT of nobody": w.a.assertion("jwt", nil),
		"an ID token": good.text("id_token"), "a refresh token": good.text("refresh_token"), "not for the caller": alice.tokens("qweb", "openid").text("access_token"),
		"of the other instance": w.b.signedIn("alice").tokens("web", "openid").text("access_token"), "long": strings.Repeat("x", 60000), "a long JWT": "eyJ" + strings.Repeat("x", 17<<10),
		"an unknown PAT": "writ_pat_" + strings.Repeat("A", 43), "markup": "<script>", "text": "\u00e9\u2028", "a space": " ",
	}
	fixed := func(header http.Header) string {
		kept := header.Clone()
		for _, name := range []string{"Date", "X-Request-Id"} {
			kept.Del(name)
		}
		return fmt.Sprint(kept)
	}
	var first *answer
	for name, token := range tokens {
		for _, app := range []string{"api", "jwtapi"} {
			got := w.a.introspect(app, token)
			if first == nil {
				first = got
			}
			if got.Status != http.StatusOK || got.Text != `{"active":false}` || fixed(got.Header) != fixed(first.Header) {
				t.Errorf("%s: got %d %s %v, want %v", name, got.Status, got.Text, got.Header, first.Header)
			}
		}
	}
	if got := w.a.introspect("api", good.text("access_token")); got.Body["active"] != true || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a good one: %s", got.Text)
	}
	w.a.refused("no token", w.a.introspect("api", ""), "invalid_request")
}

// TestSEC117_ClaimsByScope is the table of which claims a scope brings (field facts,
// 5.1), for a human, with the role claims and those of document 2.
func TestSEC117_ClaimsByScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, org := w.a.users["alice"], w.a.users["alice"].OrgID
	b := w.a.signedIn("alice")
	project := urn + "org:project:" + w.a.projects["P"] + ":roles"
	other := urn + "org:project:" + w.a.projects["Q"] + ":roles"
	short := urn + "org:project:roles"
	both := map[string]any{"reader": map[string]any{org: "org-a.example"}, "writer": map[string]any{org: "org-a.example"}}
	one := map[string]any{"reader": map[string]any{org: "org-a.example"}}
	profile := map[string]any{
		"name": w.value("SELECT display_name FROM users WHERE instance_id = $1 AND id = $2", w.a.instance(), alice.ID), "given_name": "Alice", "family_name": "Adams", "nickname": "Al",
		"preferred_username": alice.LoginName, "locale": "en", "updated_at": nil,
	}
	owner := map[string]any{urn + "user:resourceowner:id": org, urn + "user:resourceowner:name": "A", urn + "user:resourceowner:primary_domain": "org-a.example"}
	for _, test := range []struct {
		scope string
		want  map[string]any // nil: any value
	}{
		{"", nil},
		{"profile", profile},
		{"email", map[string]any{"email": "alice@mail.example", "email_verified": true}},
		{"phone", map[string]any{"phone_number": "+41791234567", "phone_number_verified": true}},
		{"address", nil},
		{"offline_access", nil},
		{urn + "org:project:role:reader", map[string]any{short: one, project: one}},
		{urn + "org:project:role:reader " + urn + "org:project:role:writer", map[string]any{short: both, project: both}},
		{urn + "org:projects:roles", map[string]any{short: both, project: both}},
		{urn + "org:projects:roles " + urn + "org:project:id:" + w.a.projects["Q"] + ":aud", map[string]any{short: both, project: both, other: map[string]any{"admin": map[string]any{org: "org-a.example"}}}},
		{urn + "org:projects:roles " + urn + "org:roles:id:" + org, map[string]any{short: both, project: both}},
		{urn + "org:projects:roles " + urn + "org:roles:id:" + w.a.users["olga"].OrgID, nil},
		{urn + "user:metadata", map[string]any{urn + "user:metadata": map[string]any{"tier": base64.RawURLEncoding.EncodeToString([]byte("gold>?")), "b": "Yg"}}},
		{urn + "user:resourceowner", owner},
		{urn + "org:id:" + org, join(owner, map[string]any{urn + "org:id": org})},
		{urn + "org:domain:primary:org-a.example", map[string]any{urn + "org:domain:primary": "org-a.example"}},
		{"profile email phone", join(profile, map[string]any{"email": "alice@mail.example", "email_verified": true, "phone_number": "+41791234567", "phone_number_verified": true})},
	} {
		tokens := b.tokens("web", strings.TrimSpace("openid "+test.scope))
		token := tokens.text("access_token")
		_, id := claims(tokens.text("id_token"))
		places := map[string]map[string]any{"userinfo": w.a.userinfo(token).Body, "introspection": w.a.introspect("web", token).Body, "introspection by another": w.a.introspect("api", token).Body}
		for place, got := range places {
			if got["sub"] != alice.ID || got["sub"] != id["sub"] {
				t.Errorf("%q at %s: sub %v, that of the ID token is %v", test.scope, place, got["sub"], id["sub"])
			}
			known := map[string]bool{}
			for name, want := range test.want {
				known[name] = true
				if name == other && place != "userinfo" { // introspection tells of the caller's project only
					if got[name] != nil {
						t.Errorf("%q at %s: %s is %v", test.scope, place, name, got[name])
					}
					continue
				}
				if got[name] == nil || want != nil && fmt.Sprint(got[name]) != fmt.Sprint(want) {
					t.Errorf("%q at %s: %s is %v, want %v", test.scope, place, name, got[name], want)
				}
			}
			for name := range got {
				protocol := slices.Contains(strings.Fields("active iss sub aud client_id exp iat nbf jti scope token_type username"), name)
				if !known[name] && (!protocol || place == "userinfo" && name != "sub") {
					t.Errorf("%q at %s: %s is there: %v", test.scope, place, name, got[name])
				}
			}
		}
		for _, name := range []string{"name", "given_name", "email", "phone_number", short, urn + "user:metadata", urn + "user:resourceowner:id"} {
			if id[name] != nil && (name == "name" || name == "given_name" || name == "email" || name == "phone_number" || name == short) {
				t.Errorf("%q: the ID token has %s although there is an access token", test.scope, name)
			}
		}
		introspection := places["introspection"]
		if introspection["token_type"] != "Bearer" || introspection["username"] != alice.LoginName || introspection["client_id"] != w.a.apps["web"].ClientID || introspection["iss"] != w.a.issuer ||
			introspection["exp"] != float64(w.now().Unix()+43200) || introspection["iat"] != float64(w.now().Unix()) || introspection["nbf"] != introspection["iat"] || introspection["scope"] != tokens.text("scope") {
			t.Errorf("%q: introspection is %v", test.scope, introspection)
		}
	}
	// The settings of the application decide what is in its tokens.
	tokens := b.tokens("jwtweb", "openid email "+urn+"org:project:role:reader")
	_, access := claims(tokens.text("access_token"))
	_, id := claims(tokens.text("id_token"))
	if fmt.Sprint(access[short]) != fmt.Sprint(one) || fmt.Sprint(id[short]) != fmt.Sprint(one) || id["email"] != "alice@mail.example" || access["email"] != nil {
		t.Errorf("asserted: access token %v, ID token %v", access, id)
	}
	got := b.authorize("implicit", "response_type", "id_token", "scope", "openid email")
	if _, id := claims(got.Get("id_token")); id["email"] != "alice@mail.example" {
		t.Errorf("without an access token the ID token is %v", id)
	}
	if got = b.authorize("implicit", "scope", "openid email"); got.Get("id_token") == "" {
		t.Errorf("implicit: %v", got)
	} else if _, id := claims(got.Get("id_token")); id["email"] != nil {
		t.Errorf("with an access token the ID token is %v", id)
	}
	// Service users have few claims.
	info := w.a.userinfo(w.a.service("robot", "openid profile email phone").text("access_token"))
	if info.text("name") != "Robot" || info.text("preferred_username") != w.a.users["robot"].LoginName || info.Body["email"] != nil || info.Body["given_name"] != nil || info.text("sub") != w.a.users["robot"].ID {
		t.Errorf("a service user: %s", info.Text)
	}
	// A project that asserts roles does so without scopes.
	w.a.must(http.MethodPatch, "/resources/v3alpha/projects/"+w.a.projects["P"], `{"projectRoleAssertion":true}`)
	token := tokens.text("access_token")
	w.soon("asserted roles", func() bool { return fmt.Sprint(w.a.introspect("api", token).Body[short]) == fmt.Sprint(both) })
}

func join(maps ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, one := range maps {
		for name, value := range one {
			all[name] = value
		}
	}
	return all
}

func TestPersonalAccessTokensAtIntrospection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	robot := w.a.users["robot"]
	w.a.must(http.MethodPost, "/resources/v3alpha/user_grants", `{"userId":%q,"projectId":%q,"roleKeys":["reader"]}`, robot.ID, w.a.projects["P"])
	got := w.a.introspect("api", robot.Token)
	if got.Body["active"] != true || got.text("sub") != robot.ID || got.text("username") != robot.LoginName || got.text("token_type") != "Bearer" || got.text("client_id") != "robot" {
		t.Errorf("a PAT is %s", got.Text)
	}
	if roles := fmt.Sprint(got.Body[urn+"org:project:roles"]); roles != "map[reader:map["+robot.OrgID+":org-a.example]]" {
		t.Errorf("its roles are %s", roles)
	}
	if roles := w.a.introspect("qapi", robot.Token).Body[urn+"org:project:roles"]; roles != nil {
		t.Errorf("another project's client sees the roles %v", roles)
	}
	w.b.active("api", robot.Token)
	if got := w.a.userinfo(robot.Token); got.text("sub") != robot.ID {
		t.Errorf("a PAT at userinfo: %d %s", got.Status, got.Text)
	}
	w.a.as("web", revokePath, pairs("token", robot.Token)) // is not the client's
	if !w.a.active("api", robot.Token) {
		t.Error("a client revoked a PAT")
	}
	made := w.a.must(http.MethodPost, "/resources/v3alpha/users/"+robot.ID+"/pats", `{"expirationDate":%q}`, w.now().Add(time.Hour).Format(time.RFC3339))
	token, _ := made["personalAccessToken"].(string)
	if token == "" {
		for name, value := range made {
			if text, ok := value.(string); ok && strings.HasPrefix(text, "writ_pat_") {
				token = made[name].(string)
			}
		}
	}
	if !w.a.active("api", token) {
		t.Fatalf("a new PAT is not active: %v", made)
	}
	w.wait(time.Hour)
	if w.a.active("api", token) {
		t.Error("a PAT is active after it expired")
	}
	id := w.value("SELECT id FROM personal_access_tokens WHERE instance_id = $1 AND user_id = $2 AND expiration_date IS NULL", w.a.instance(), robot.ID)
	w.a.must(http.MethodDelete, "/resources/v3alpha/users/"+robot.ID+"/pats/"+id, "")
	for node := range 2 {
		if w.a.on(node).active("api", robot.Token) {
			t.Errorf("node %d: a PAT is active after it was removed", node)
		}
	}
}

func TestSEC118_RevokedIsRevokedOnEveryNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	for i := range rounds {
		app := []string{"web", "jwtweb"}[i%2]
		tokens := b.tokens(app, offline)
		token, near, far := tokens.text("access_token"), w.a.on(i%2), w.a.on(1-i%2)
		for range 3 { // so that every cache knows it
			if !far.active("api", token) || far.userinfo(token).Status != http.StatusOK {
				t.Fatal("not active")
			}
		}
		revoked := token
		if i%3 == 0 {
			revoked = tokens.text("refresh_token")
		}
		if got := near.as(app, revokePath, pairs("token", revoked)); got.Status != http.StatusOK || got.Text != "" {
			t.Fatalf("revoke: %d %s", got.Status, got.Text)
		}
		for _, at := range []*side{far, near} {
			if at.active("api", token) || at.userinfo(token).Status != http.StatusUnauthorized {
				t.Errorf("round %d: active after its revocation", i)
			}
		}
	}
}

func TestSEC119_OnlyTheOwnerRevokes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, owner := range []string{"web", "post", "spa", "jwt", "jwtweb"} {
		tokens := b.tokens(owner, offline)
		access, refresh := tokens.text("access_token"), tokens.text("refresh_token")
		for _, other := range []string{"web", "second", "post", "spa", "native", "jwt", "api", "qweb"} {
			if other == owner {
				continue
			}
			for kind, token := range map[string]string{"access": access, "refresh": refresh, "unknown": "x", "access that is damaged": access + "x"} {
				got := w.a.as(other, revokePath, pairs("token", token, "token_type_hint", "access_token"))
				if got.Status != http.StatusOK || got.Text != "" {
					t.Errorf("%s's %s token revoked by %s: got %d %s", owner, kind, other, got.Status, got.Text)
				}
			}
		}
		service := w.a.form(revokePath, pairs("token", access), basic("robot", w.a.users["robot"].Secret))
		if service.Status != http.StatusOK {
			t.Errorf("by a service user: %d %s", service.Status, service.Text)
		}
		if !w.a.active("api", access) {
			t.Fatalf("%s's token was revoked by somebody else", owner)
		}
		next := w.a.refresh(owner, refresh)
		w.a.granted("refresh", next)
		// An access token alone, then all by the refresh token, by hints that are wrong.
		if got := w.a.as(owner, revokePath, pairs("token", access, "token_type_hint", "refresh_token")); got.Status != http.StatusOK {
			t.Errorf("%s: %d", owner, got.Status)
		}
		if w.a.active("api", access) || !w.a.active("api", next.text("access_token")) {
			t.Errorf("%s: revoking an access token revokes another one, or not itself", owner)
		}
		if got := w.a.as(owner, revokePath, pairs("token", next.text("refresh_token"), "token_type_hint", "x")); got.Status != http.StatusOK {
			t.Errorf("%s: %d", owner, got.Status)
		}
		if w.a.active("api", next.text("access_token")) {
			t.Errorf("%s: revoking a refresh token leaves its access token", owner)
		}
		w.a.refused(owner, w.a.refresh(owner, next.text("refresh_token")), "invalid_grant")
		if got := w.a.as(owner, revokePath, pairs("token", next.text("refresh_token"))); got.Status != http.StatusOK {
			t.Errorf("%s: again: %d", owner, got.Status)
		}
	}
	token := w.a.service("robot", "openid "+urn+"org:project:id:"+w.a.projects["P"]+":aud").text("access_token")
	w.a.form(revokePath, pairs("token", token), basic("helper", w.a.users["helper"].Secret))
	if !w.a.active("api", token) {
		t.Error("another service user revoked it")
	}
	w.a.form(revokePath, pairs("token", token), basic("robot", w.a.users["robot"].Secret))
	if w.a.active("api", token) {
		t.Error("a service user cannot revoke its own")
	}
	w.a.refused("without a token", w.a.as("web", revokePath, nil), "invalid_request")
	w.a.refused("without authentication", w.a.form(revokePath, pairs("token", token)), "invalid_client")
}

func TestSEC120_RevocationThatFailsIsNotReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	tokens := b.tokens("web", offline)
	for kind, test := range map[string]struct{ token, table string }{
		"access token": {tokens.text("access_token"), "revoked_tokens"}, "refresh token": {tokens.text("refresh_token"), "oauth_grants"},
	} {
		if _, err := w.db.Pool.Exec(t.Context(), `
			CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON `+test.table+` FOR EACH ROW EXECUTE FUNCTION refuse()`); err != nil {
			t.Fatal(err)
		}
		got := w.a.as("web", revokePath, pairs("token", test.token))
		if got.Status < 500 || strings.Contains(got.Text, "disk") {
			t.Errorf("%s: got %d %s", kind, got.Status, got.Text)
		}
		if kind == "access token" && !w.a.active("api", test.token) {
			t.Error("the token is inactive although nothing was stored")
		}
		if _, err := w.db.Pool.Exec(t.Context(), "DROP TRIGGER refuse ON "+test.table); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"refresh_token", "access_token"} {
		if got := w.a.as("web", revokePath, pairs("token", tokens.text(kind))); got.Status != http.StatusOK {
			t.Errorf("again: %d %s", got.Status, got.Text)
		}
	}
	if w.a.active("api", tokens.text("access_token")) {
		t.Error("it is still active")
	}
	// Without a database nothing is said about a token (REL-006).
	token := b.tokens("web", "openid").text("access_token")
	if _, err := w.db.Pool.Exec(t.Context(), "ALTER VIEW subjects RENAME TO subjects_gone"); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]*answer{"introspection": w.a.introspect("web", token), "userinfo": w.a.userinfo(token)} {
		if got.Status < 500 || strings.Contains(got.Text, "active") || strings.Contains(got.Text, "subjects") {
			t.Errorf("%s: got %d %s", name, got.Status, got.Text)
		}
	}
	if _, err := w.db.Pool.Exec(t.Context(), "ALTER VIEW subjects_gone RENAME TO subjects"); err != nil {
		t.Fatal(err)
	}
	if !w.a.active("web", token) {
		t.Error("it is not active afterwards")
	}
}

func TestSEC121_BearerTokensAreInTheHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	token := b.tokens("web", "openid email "+apiAudience).text("access_token")
	form := header("Content-Type", "application/x-www-form-urlencoded")
	cookie := func(r *http.Request) {
		r.Header.Set("Cookie", "__Host-writ_sessions="+b.cookie("__Host-writ_sessions")+"; access_token="+token)
	}
	self := "/resources/v3alpha/users/" + w.a.users["alice"].ID
	for name, test := range map[string]struct {
		got    *answer
		status int
	}{
		"header":               {w.a.userinfo(token), 200},
		"header, lower case":   {w.a.call(http.MethodGet, userinfoPath, "", header("Authorization", "bearer "+token)), 200},
		"POST with a header":   {w.a.call(http.MethodPost, userinfoPath, "", bearer(token)), 200},
		"form":                 {w.a.call(http.MethodPost, userinfoPath, pairs("access_token", token).Encode(), form), 200},
		"query":                {w.a.call(http.MethodGet, userinfoPath+"?access_token="+token, ""), 401},
		"query of a POST":      {w.a.call(http.MethodPost, userinfoPath+"?access_token="+token, "", form), 400},
		"form of a GET":        {w.a.call(http.MethodGet, userinfoPath, pairs("access_token", token).Encode(), form), 401},
		"header and form":      {w.a.call(http.MethodPost, userinfoPath, pairs("access_token", token).Encode(), form, bearer(token)), 400},
		"header twice":         {w.a.call(http.MethodGet, userinfoPath, "", bearer(token), bearer(token)), 400},
		"JSON":                 {w.a.call(http.MethodPost, userinfoPath, `{"access_token":"`+token+`"}`, header("Content-Type", "application/json")), 400},
		"cookie":               {w.a.call(http.MethodGet, userinfoPath, "", cookie), 401},
		"Basic":                {w.a.call(http.MethodGet, userinfoPath, "", header("Authorization", "Basic "+token)), 401},
		"no scheme":            {w.a.call(http.MethodGet, userinfoPath, "", header("Authorization", token)), 401},
		"nothing":              {w.a.call(http.MethodGet, userinfoPath, ""), 401},
		"a wrong one":          {w.a.userinfo("x"), 401},
		"without openid":       {w.a.userinfo(w.a.service("robot", "profile").text("access_token")), 403},
		"the API by header":    {w.a.api(token, http.MethodGet, self, ""), 200},
		"the API by query":     {w.a.call(http.MethodGet, self+"?access_token="+token, ""), 401},
		"the API by cookie":    {w.a.call(http.MethodGet, self, "", cookie), 401},
		"the API by nothing":   {w.a.call(http.MethodGet, self, ""), 401},
		"the API by two":       {w.a.call(http.MethodGet, self, "", bearer(token), bearer(token)), 401},
		"the API by the query": {w.a.call(http.MethodGet, self+"?authorization=Bearer%20"+token, ""), 401},
	} {
		if api := strings.HasPrefix(name, "the API"); test.got.Status != test.status && (!api || test.status != 401 || test.got.Status != 400) {
			t.Errorf("%s: got %d %s, want %d", name, test.got.Status, test.got.Text, test.status)
		}
		if test.got.Status != 200 && strings.Contains(test.got.Text, "alice@") {
			t.Errorf("%s: claims in a refusal", name)
		}
		if test.got.Status == 401 && !strings.HasPrefix(test.got.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: WWW-Authenticate is %q", name, test.got.Header.Get("WWW-Authenticate"))
		}
	}
	if got := w.a.userinfo("x").Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="invalid_token"`) {
		t.Errorf("a wrong one: %q", got)
	}
	if got := w.a.call(http.MethodGet, userinfoPath, "").Header.Get("WWW-Authenticate"); strings.Contains(got, "error=") {
		t.Errorf("nothing: %q", got)
	}
}

func TestSEC122_TheResourceAPIIsAnAudience(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("chief")
	self := "/resources/v3alpha/users/" + w.a.users["chief"].ID
	for _, app := range []string{"web", "jwtweb"} {
		without, with := b.tokens(app, "openid").text("access_token"), b.tokens(app, "openid "+apiAudience).text("access_token")
		other := b.tokens(app, "openid "+urn+"org:project:id:"+w.a.projects["Q"]+":aud").text("access_token")
		for name, token := range map[string]string{"without its audience": without, "with another": other} {
			for _, node := range []int{0, 1} {
				if got := w.a.on(node).api(token, http.MethodGet, self, ""); got.Status != http.StatusUnauthorized {
					t.Errorf("%s, %s: got %d", app, name, got.Status)
				}
				if got := w.a.on(node).web(token); got != "16" { // UNAUTHENTICATED
					t.Errorf("%s, %s, gRPC-web: got %s", app, name, got)
				}
			}
		}
		if got := w.a.api(with, http.MethodGet, self, ""); got.Status != http.StatusOK {
			t.Errorf("%s, with it: got %d %s", app, got.Status, got.Text)
		}
		if got := w.a.web(with); got != "0" {
			t.Errorf("%s, with it, gRPC-web: got %s", app, got)
		}
	}
	// The scope gives the audience, not permissions: those are the user's.
	alice := w.a.signedIn("alice").tokens("web", "openid "+apiAudience).text("access_token")
	if got := w.a.api(alice, http.MethodPost, "/resources/v3alpha/users/"+w.a.users["bob"].ID+"/_deactivate", "{}"); got.Status != http.StatusForbidden && got.Status != http.StatusNotFound {
		t.Errorf("alice switches off bob: %d", got.Status)
	}
	w.a.granted("bob signs in", w.a.signedIn("bob").tokens("web", "openid"))
	robot := w.a.service("robot", "openid "+apiAudience).text("access_token")
	if got := w.a.api(robot, http.MethodGet, "/resources/v3alpha/users/"+w.a.users["robot"].ID, ""); got.Status != http.StatusOK {
		t.Errorf("robot reads itself: %d %s", got.Status, got.Text)
	}
}

// web searches users by gRPC-web and returns the grpc-status.
func (s *side) web(token string) string {
	s.Helper()
	got := s.call(http.MethodPost, "/writ.user.v3alpha.ServiceUsers/SearchUsers", "\x00\x00\x00\x00\x00", bearer(token), header("Content-Type", "application/grpc-web+proto"))
	if status := got.Header.Get("Grpc-Status"); status != "" {
		return status
	}
	_, trailer, _ := strings.Cut(strings.ToLower(got.Text), "grpc-status:")
	status, _, _ := strings.Cut(strings.TrimSpace(trailer), "\r\n")
	return status
}
