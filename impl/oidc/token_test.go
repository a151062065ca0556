package oidc_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const grantJWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"

func TestSEC030_TokenRequestsArePostedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	before := w.a.grants()
	web := w.a.apps["web"]
	form := w.a.redemption("web", b.code("web"))
	auth, kind := basic(web.ClientID, web.Secret), header("Content-Type", "application/x-www-form-urlencoded")
	for name, got := range map[string]*answer{
		"GET":                    w.a.call(http.MethodGet, tokenPath+"?"+form.Encode(), "", auth),
		"PUT":                    w.a.call(http.MethodPut, tokenPath, form.Encode(), auth, kind),
		"HEAD":                   w.a.call(http.MethodHead, tokenPath+"?"+form.Encode(), "", auth),
		"parameters in the URL":  w.a.call(http.MethodPost, tokenPath+"?"+form.Encode(), "", auth, kind),
		"one of them in the URL": w.a.call(http.MethodPost, tokenPath+"?code_verifier=x", form.Encode(), auth, kind),
		"credentials in the URL": w.a.call(http.MethodPost, tokenPath+"?"+pairs("client_id", web.ClientID, "client_secret", web.Secret).Encode(), form.Encode(), kind),
		"JSON":                   w.a.call(http.MethodPost, tokenPath, `{"grant_type":"authorization_code"}`, auth, header("Content-Type", "application/json")),
		"a form as text":         w.a.call(http.MethodPost, tokenPath, form.Encode(), auth, header("Content-Type", "text/plain")),
		"a form without a type":  w.a.call(http.MethodPost, tokenPath, form.Encode(), auth),
		"not form-encoded":       w.a.call(http.MethodPost, tokenPath, form.Encode()+"&scope=%zz", auth, kind),
		"a NUL":                  w.a.call(http.MethodPost, tokenPath, form.Encode()+"&scope=%00", auth, kind),
		"not UTF-8":              w.a.call(http.MethodPost, tokenPath, form.Encode()+"&scope=%ff", auth, kind),
		"too long":               w.a.call(http.MethodPost, tokenPath, form.Encode()+"&scope="+strings.Repeat("x", 65<<10), auth, kind),
	} {
		if got.Status < 400 || got.Status >= 500 || strings.Contains(got.Text, "access_token") {
			t.Errorf("%s: got %d %s", name, got.Status, got.Text)
		}
		if got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control %q", name, got.Header.Get("Cache-Control"))
		}
	}
	if after := w.a.grants(); after != before {
		t.Errorf("%s grants, want %s", after, before)
	}
	good, bad := w.a.form(tokenPath, form, auth), w.a.form(tokenPath, form, auth)
	w.a.granted("a form", good)
	for _, got := range []*answer{good, bad} {
		for name, want := range map[string]string{"Cache-Control": "no-store", "Pragma": "no-cache", "Content-Type": "application/json", "X-Content-Type-Options": "nosniff"} {
			if got.Header.Get(name) != want {
				t.Errorf("%d: %s is %q, want %q", got.Status, name, got.Header.Get(name), want)
			}
		}
	}
	if good.text("token_type") != "Bearer" || good.Body["expires_in"] != float64(43200) || good.text("refresh_token") != "" {
		t.Errorf("the answer is %s", good.Text)
	}
}

func TestSEC031_ACodeIsForItsClientOnItsInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, owner := range []string{"web", "post", "spa", "jwt"} {
		b := w.a.signedIn("alice")
		for _, other := range []string{"second", "plain", "post", "native", "spa", "jwt2", "jwt", "web", "api"} {
			if other == owner {
				continue
			}
			code := b.code(owner)
			form := w.a.redemption(owner, code)
			before := w.a.grants()
			got := w.a.as(other, tokenPath, form)
			if other == "api" && got.text("error") == "unauthorized_client" { // which may use no code at all
				got.Body["error"] = "invalid_grant"
			}
			w.a.refused(owner+"'s code as "+other, got, "invalid_grant")
			if after := w.a.grants(); after != before {
				t.Errorf("%s's code as %s: %s grants, want %s", owner, other, after, before)
			}
			w.a.granted(owner+"'s code as "+owner, w.a.redeem(owner, code)) // nobody else can spend it
		}
		// The same client, with the same secret, on the other instance.
		code := b.code(owner)
		w.b.refused(owner+"'s code on the other instance", w.b.redeem(owner, code), "invalid_grant")
		if w.b.grants() != "0" {
			t.Errorf("the other instance has a grant")
		}
		w.a.granted(owner+"'s code", w.a.on(1).redeem(owner, code))
	}
}

func TestSEC032_TheRedirectURIIsThatOfTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, test := range []struct{ uri, code string }{
		{"", "invalid_request"}, {"https://app.example/other?x=1", "invalid_grant"}, {callback + "/", "invalid_grant"}, {"HTTPS://app.example/cb", "invalid_grant"},
		{callback + "?", "invalid_grant"}, {"https://app.example:443/cb", "invalid_grant"}, {"https://evil.example", "invalid_grant"},
	} {
		form := w.a.redemption("web", b.code("web"))
		form.Set("redirect_uri", test.uri)
		before := w.a.grants()
		w.a.refused(test.uri, w.a.as("web", tokenPath, form), test.code)
		if after := w.a.grants(); after != before {
			t.Errorf("%q: %s grants, want %s", test.uri, after, before)
		}
	}
	w.a.granted("the same", w.a.redeem("web", b.code("web")))
}

func TestSEC033_ACodeThatIsUsedTwiceEndsWhatCameOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, app := range []string{"web", "spa", "jwtweb"} {
		code := b.code(app, "scope", "openid offline_access "+urn+"org:project:id:service:aud")
		first := w.a.redeem(app, code)
		refreshed := w.a.refresh(app, first.text("refresh_token"))
		w.a.granted("a refresh", refreshed)
		for _, token := range []string{first.text("access_token"), refreshed.text("access_token")} {
			if got := w.a.api(token, http.MethodGet, "/resources/v3alpha/users/"+w.a.users["alice"].ID, ""); !w.a.active("api", token) || w.a.on(1).userinfo(token).Status != http.StatusOK || got.Status != http.StatusOK {
				t.Fatalf("%s: a token is not good before, %d", app, got.Status)
			}
		}
		w.a.refused("the second use", w.a.on(1).redeem(app, code), "invalid_grant")
		for _, token := range []string{first.text("access_token"), refreshed.text("access_token")} {
			for node := range 2 {
				at := w.a.on(node)
				if at.active("api", token) || at.userinfo(token).Status != http.StatusUnauthorized {
					t.Errorf("%s: a token is good after it", app)
				}
				w.soon("the resource API", func() bool {
					return at.api(token, http.MethodGet, "/resources/v3alpha/users/"+w.a.users["alice"].ID, "").Status == http.StatusUnauthorized
				})
			}
		}
		w.a.refused("the refresh token", w.a.refresh(app, refreshed.text("refresh_token")), "invalid_grant")
		w.a.refused("the third use", w.a.redeem(app, code), "invalid_grant")
	}
	if n := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND event_type = 'oidc_session.refresh_token.revoked'", w.a.instance()); n != "3" {
		t.Errorf("%s events of it, want 3", n)
	}
}

func TestSEC034_NobodyGetsToGuess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	code := b.code("spa", "scope", "openid offline_access")
	form := w.a.redemption("spa", code)
	for i := range 10 {
		form.Set("code_verifier", strings.Repeat(string(rune('a'+i)), 43))
		w.a.refused("a wrong verifier", w.a.on(i%2).as("spa", tokenPath, form), "invalid_grant")
	}
	w.a.refused("the right one", w.a.redeem("spa", code), "invalid_grant")
	// A wrong one after the right one ends what came of it too.
	code = b.code("spa", "scope", "openid offline_access")
	tokens := w.a.redeem("spa", code)
	w.a.granted("the right one", tokens)
	form = w.a.redemption("spa", code)
	form.Set("code_verifier", strings.Repeat("a", 43))
	w.a.refused("a wrong one", w.a.as("spa", tokenPath, form), "invalid_grant")
	if w.a.active("api", tokens.text("access_token")) {
		t.Error("the token is still active")
	}
	// Who does not authenticate cannot spend a code.
	code = b.code("web")
	web := w.a.apps["web"]
	for range 10 {
		w.a.refused("a wrong secret", w.a.form(tokenPath, w.a.redemption("web", code), basic(web.ClientID, "wrong")), "invalid_client")
	}
	w.a.granted("the right one", w.a.redeem("web", code))
}

func TestSEC035_VerifierIfAndOnlyIfChallenge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	long := strings.Repeat("~", 128)
	for _, test := range []struct {
		challenge, verifier string
		good                bool
	}{
		{"", "", true}, {"", verifier, false}, {"", "x", false},
		{verifier, verifier, true}, {verifier, "", false}, {verifier, verifier[:42] + "x", false}, {verifier, challengeOf(verifier), false},
		{verifier, verifier + "x", false}, {verifier, " " + verifier, false},
		{long, long, true}, {long + "~", long + "~", false}, {verifier[:42], verifier[:42], false},
		{strings.Repeat("é", 43), strings.Repeat("é", 43), false}, {strings.Repeat("+", 43), strings.Repeat("+", 43), false},
	} {
		for _, app := range []string{"web", "spa"} {
			if app == "spa" && test.challenge == "" {
				continue // which cannot begin without (SEC-007)
			}
			changes := []string{"code_challenge", "-", "code_challenge_method", "-"}
			if test.challenge != "" {
				changes = []string{"code_challenge", challengeOf(test.challenge), "code_challenge_method", "S256"}
			}
			form := w.a.redemption(app, b.code(app, changes...))
			form.Del("code_verifier")
			if test.verifier != "" {
				form.Set("code_verifier", test.verifier)
			}
			got := w.a.as(app, tokenPath, form)
			switch what := fmt.Sprintf("%s: challenge of %.10q, verifier %.10q", app, test.challenge, test.verifier); {
			case test.good:
				w.a.granted(what, got)
			case test.verifier == "": // which proves nothing and guesses nothing
				w.a.refused(what, got, "invalid_request")
				form.Set("code_verifier", test.challenge)
				w.a.granted(what+", then the right one", w.a.as(app, tokenPath, form))
			default:
				w.a.refused(what, got, "invalid_grant")
			}
		}
	}
}

func TestSEC036_GrantTypesArePerClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	token := b.tokens("web", "openid").text("access_token")
	const none, unauthorized, client = "unsupported_grant_type", "unauthorized_client", "invalid_client"
	for _, test := range []struct{ app, grant, want string }{
		{"plain", "authorization_code", ""}, {"plain", "refresh_token", unauthorized}, {"plain", typeExchange, unauthorized}, {"plain", "client_credentials", unauthorized},
		{"api", "authorization_code", unauthorized}, {"api", "refresh_token", unauthorized}, {"api", typeExchange, unauthorized}, {"api", "client_credentials", unauthorized},
		{"jwtapi", "authorization_code", unauthorized}, {"jwtapi", "client_credentials", client},
		{"implicit", "authorization_code", unauthorized}, {"implicit", "refresh_token", unauthorized}, {"implicit", typeExchange, unauthorized}, {"implicit", "client_credentials", client},
		{"web", "authorization_code", ""}, {"web", typeExchange, ""}, {"web", "client_credentials", unauthorized}, {"post", "client_credentials", unauthorized}, {"spa", "client_credentials", client},
		{"web", "password", none}, {"web", "implicit", none}, {"web", "urn:ietf:params:oauth:grant-type:device_code", none}, {"web", "urn:openid:params:grant-type:ciba", none},
		{"web", "AUTHORIZATION_CODE", none}, {"web", " authorization_code", none}, {"web", "authorization_code refresh_token", none}, {"web", "", "invalid_request"},
	} {
		form := pairs("grant_type", test.grant, "scope", "openid", "username", "alice", "password", password, "refresh_token", "x", "subject_token", token, "subject_token_type", typeAccess)
		if test.grant == "authorization_code" {
			form = pairs("grant_type", test.grant, "code", "x", "redirect_uri", callback)
			if test.want == "" {
				form = w.a.redemption(test.app, b.code(test.app))
			}
		}
		got := w.a.as(test.app, tokenPath, form)
		if what := test.app + " " + test.grant; test.want == "" {
			w.a.granted(what, got)
		} else {
			w.a.refused(what, got, test.want)
		}
	}
	if got := b.tokens("plain", "openid offline_access"); got.text("refresh_token") != "" || got.text("scope") != "openid" {
		t.Errorf("a client without refresh tokens: %s", got.Text)
	}
	// What is switched off stays off for what was issued before.
	refresh := b.tokens("web", "openid offline_access").text("refresh_token")
	code := b.code("web")
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["web"].ID, `{"oidc":{"grantTypes":{"types":["GRANT_TYPE_IMPLICIT"]}}}`)
	w.soon("a refresh token", func() bool { return w.a.refresh("web", refresh).text("error") == unauthorized })
	w.a.refused("a code", w.a.redeem("web", code), unauthorized)
}

func TestSEC037_ServicesAreNeverPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Humans, and applications, are no clients of the service grants.
	for _, name := range []string{"alice", w.a.users["alice"].LoginName, w.a.users["alice"].ID, "web", w.a.apps["web"].ClientID, w.a.apps["web"].ID} {
		for _, secret := range []string{password, w.a.apps["web"].Secret, w.a.users["robot"].Secret} {
			want := "invalid_client"
			if name == w.a.apps["web"].ClientID && secret == w.a.apps["web"].Secret {
				want = "unauthorized_client" // it is who it says, and has no tokens of its own
			}
			w.a.refused(name, w.a.form(tokenPath, pairs("grant_type", "client_credentials", "scope", "openid"), basic(name, secret)), want)
		}
	}
	alice := w.a.users["alice"]
	for name, assertion := range map[string]string{
		"about a human":           w.a.assertion("robot", map[string]any{"sub": alice.ID}),
		"of a human":              w.a.assertion("robot", map[string]any{"iss": alice.ID, "sub": alice.ID}),
		"about another service":   w.a.assertion("robot", map[string]any{"sub": w.a.users["jwtrobot"].ID}),
		"in the name of another":  w.a.assertion("robot", map[string]any{"iss": w.a.users["jwtrobot"].ID, "sub": w.a.users["jwtrobot"].ID}),
		"an application's":        w.a.assertion("jwt", nil),
		"by the name of the user": w.a.assertion("robot", map[string]any{"iss": "robot", "sub": "robot"}),
	} {
		w.a.refused(name, w.a.form(tokenPath, pairs("grant_type", grantJWT, "assertion", assertion, "scope", "openid")), "invalid_grant")
	}
	// Claims and IDs are not the client's to choose.
	form := pairs("grant_type", "client_credentials", "scope", "openid", "sub", alice.ID, "user_id", alice.ID, "username", "alice", "claims", `{"sub":"x"}`, "audience", w.a.projects["Q"])
	token := w.a.granted("client credentials", w.a.form(tokenPath, form, basic("jwtrobot", w.a.users["jwtrobot"].Secret)))
	if _, body := claims(token); body["sub"] != w.a.users["jwtrobot"].ID || fmt.Sprint(body["aud"]) != "["+urn+"user:id:"+w.a.users["jwtrobot"].ID+"]" || body["azp"] != nil {
		t.Errorf("the token is %v", body)
	}
	assertion := w.a.assertion("jwtrobot", map[string]any{"email": "alice@mail.example", "act": map[string]any{"sub": alice.ID}, "scope": "openid " + urn + "org:project:id:service:aud", "role": "admin"})
	got := w.a.form(tokenPath, pairs("grant_type", grantJWT, "assertion", assertion, "scope", "openid"))
	if _, body := claims(w.a.granted("JWT profile", got)); body["sub"] != w.a.users["jwtrobot"].ID || body["act"] != nil || body["email"] != nil || body["role"] != nil || body["scope"] != "openid" {
		t.Errorf("the token is %v", body)
	}
	if got.text("id_token") == "" || got.text("refresh_token") != "" {
		t.Errorf("JWT profile: %s", got.Text)
	}
	if got := w.a.service("robot", "openid offline_access"); got.text("id_token") != "" || got.text("refresh_token") != "" || got.text("scope") != "openid" {
		t.Errorf("client credentials: %s", got.Text)
	}
	// No service user signs in at the pages.
	b := w.a.agent()
	b.open(authorizePath+"?"+w.a.request("web").Encode()).fill("loginName", w.a.users["robot"].LoginName)
	b.fill("password", w.a.users["robot"].Secret)
	if b.result() != nil {
		t.Errorf("a service user signed in: %v", b.result())
	}
}

func TestSEC038_AssertionsOfServiceUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := func() int64 { return w.now().Unix() }
	profile := func(assertion string) *answer {
		return w.a.form(tokenPath, pairs("grant_type", grantJWT, "assertion", assertion, "scope", "openid"))
	}
	for _, test := range []struct {
		name   string
		claims map[string]any
		good   bool
	}{
		{"as it is", nil, true},
		{"aud as a list", map[string]any{"aud": []string{w.a.issuer}}, true},
		{"without jti", map[string]any{"jti": nil}, true},
		{"without iat", map[string]any{"iat": nil}, true},
		{"exp in an hour", map[string]any{"exp": now() + 3600}, true},
		{"exp 5 s ago", map[string]any{"exp": now() - 5}, true},
		{"iat in a minute", map[string]any{"iat": now() + 59}, true},
		{"without iss", map[string]any{"iss": nil}, false},
		{"without sub", map[string]any{"sub": nil}, false},
		{"without aud", map[string]any{"aud": nil}, false},
		{"without exp", map[string]any{"exp": nil}, false},
		{"an empty list as aud", map[string]any{"aud": []string{}}, false},
		{"one more in aud", map[string]any{"aud": []string{w.a.issuer, "https://other.example"}}, false},
		{"the same twice in aud", map[string]any{"aud": []string{w.a.issuer, w.a.issuer}}, true},
		{"the other instance", map[string]any{"aud": w.b.issuer}, false},
		{"aud with a slash", map[string]any{"aud": w.a.issuer + "/"}, false},
		{"the token endpoint", map[string]any{"aud": w.a.issuer + tokenPath}, false},
		{"exp a minute ago", map[string]any{"exp": now() - 60}, false},
		{"exp in a day", map[string]any{"exp": now() + 86400}, false},
		{"exp as a text", map[string]any{"exp": fmt.Sprint(now() + 60)}, false},
		{"exp negative", map[string]any{"exp": -1}, false},
		{"exp huge", map[string]any{"exp": 1e300}, false},
		{"iat in two minutes", map[string]any{"iat": now() + 120}, false},
		{"iat two hours ago", map[string]any{"iat": now() - 7300}, false},
		{"iat a text", map[string]any{"iat": "now"}, false},
		{"nbf in two minutes", map[string]any{"nbf": now() + 120}, false},
		{"jti a number", map[string]any{"jti": 7}, false},
		{"jti empty", map[string]any{"jti": ""}, false},
	} {
		got := profile(w.a.assertion("robot", test.claims))
		if test.good {
			w.a.granted(test.name, got)
		} else {
			w.a.refused(test.name, got, "invalid_grant")
		}
	}
	good := w.a.assertion("robot", nil)
	_, body := claims(good)
	for name, assertion := range map[string]string{
		"the key of another user":    signed(keys()[0], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["jwtrobot"]}, body),
		"a key of another user":      signed(keys()[1], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["jwtrobot"]}, body),
		"signed by another key":      signed(keys()[1], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["robot"]}, body),
		"the key of an application":  signed(keys()[0], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["jwt"]}, body),
		"without kid":                signed(keys()[0], map[string]any{"alg": "ES256"}, body),
		"another algorithm":          signed(keys()[0], map[string]any{"alg": "ES384", "kid": w.a.keyIDs["robot"]}, body),
		"typed as an access token":   signed(keys()[0], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["robot"], "typ": "at+jwt"}, body),
		"an assertion that was used": good,
	} {
		if name == "an assertion that was used" {
			w.a.granted(name, profile(good))
		}
		w.a.refused(name, profile(assertion), "invalid_grant")
	}
	w.b.refused("on the other instance", w.b.form(tokenPath, pairs("grant_type", grantJWT, "assertion", w.a.assertion("robot", nil), "scope", "openid")), "invalid_grant")
	// A key that expired, one that was removed, and a user who is gone.
	if _, err := w.db.Pool.Exec(t.Context(), "UPDATE machine_keys SET expiration_date = $2 WHERE instance_id = $1 AND id = $3", w.a.instance(), w.now().Add(time.Hour), w.a.keyIDs["robot"]); err != nil {
		t.Fatal(err)
	}
	w.soon("expiry", func() bool {
		w.clock.Add((2 * time.Hour).Microseconds())
		return profile(w.a.assertion("robot", nil)).Status != http.StatusOK
	})
	w.a.refused("an expired key", profile(w.a.assertion("robot", nil)), "invalid_grant")
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["jwtrobot"].ID+"/_deactivate", "{}")
	w.a.refused("a user who is not active", profile(w.a.assertion("jwtrobot", nil)), "invalid_grant")
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["jwtrobot"].ID+"/_activate", "{}")
	w.soon("active again", func() bool { return profile(w.a.assertion("jwtrobot", nil)).Status == http.StatusOK })
	w.a.must(http.MethodDelete, "/resources/v3alpha/users/"+w.a.users["jwtrobot"].ID+"/keys/"+w.a.keyIDs["jwtrobot"], "")
	for node := range 2 {
		w.soon("a removed key", func() bool {
			return w.a.on(node).form(tokenPath, pairs("grant_type", grantJWT, "assertion", w.a.assertion("jwtrobot", nil), "scope", "openid")).text("error") == "invalid_grant"
		})
	}
}

// race sends the same request n times at once, over both nodes, and returns the
// answers that were given a token, and how many were refused for a reason.
func (w *world) race(n int, send func(node int) *answer) (won []*answer, lost map[string]int) {
	w.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	lost = map[string]int{}
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			got := send(i % len(w.nodes))
			mu.Lock()
			defer mu.Unlock()
			if got.Status == http.StatusOK {
				won = append(won, got)
			} else {
				lost[got.text("error")]++
			}
		})
	}
	close(start)
	group.Wait()
	return won, lost
}
