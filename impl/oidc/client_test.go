package oidc_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// methods are the ways in which a client can present itself: each returns what a
// request is made of.
func (s *side) methods(app string) map[string]func(url.Values) *answer {
	known, at := s.apps[app], tokenPath
	secret := known.Secret
	if secret == "" {
		secret = "a secret that nobody gave it 0123456789"
	}
	send := func(values url.Values, more url.Values, options ...option) *answer {
		sent := maps.Clone(values)
		path := at
		if p := sent.Get("@"); p != "" {
			path = p
			sent.Del("@")
		}
		maps.Copy(sent, more)
		return s.form(path, sent, options...)
	}
	assertion := func() string { // by a key of its own, or of nobody
		body := map[string]any{"iss": known.ClientID, "sub": known.ClientID, "aud": s.issuer, "exp": s.now().Unix() + 60, "jti": newID()}
		return signed(keyFor(app), map[string]any{"alg": "ES256", "kid": s.keyIDs[app]}, body)
	}
	return map[string]func(url.Values) *answer{
		"none":  func(v url.Values) *answer { return send(v, pairs("client_id", known.ClientID)) },
		"basic": func(v url.Values) *answer { return send(v, nil, basic(known.ClientID, secret)) },
		"post": func(v url.Values) *answer {
			return send(v, pairs("client_id", known.ClientID, "client_secret", secret))
		},
		"jwt": func(v url.Values) *answer {
			return send(v, pairs("client_assertion_type", assertionType, "client_assertion", assertion()))
		},
		"nothing":     func(v url.Values) *answer { return send(v, nil) },
		"empty basic": func(v url.Values) *answer { return send(v, nil, basic(known.ClientID, "")) },
		"wrong basic": func(v url.Values) *answer { return send(v, nil, basic(known.ClientID, secret+"x")) },
		"wrong post": func(v url.Values) *answer {
			return send(v, pairs("client_id", known.ClientID, "client_secret", secret[1:]))
		},
		"empty post": func(v url.Values) *answer {
			return send(v, url.Values{"client_id": {known.ClientID}, "client_secret": {""}})
		},
		"bearer": func(v url.Values) *answer { return send(v, pairs("client_id", known.ClientID), bearer(secret)) },
		"empty jwt": func(v url.Values) *answer {
			return send(v, pairs("client_id", known.ClientID, "client_assertion_type", assertionType))
		},
		"of another id": func(v url.Values) *answer { return send(v, nil, basic(known.ID, secret)) },
	}
}

func TestSEC050_OnlyTheConfiguredMethodAuthenticates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	endpoints := map[string]struct {
		form  url.Values
		takes string // methods
	}{
		"code":       {pairs("grant_type", "authorization_code", "code", "x", "redirect_uri", callback), "basic post none jwt"},
		"refresh":    {pairs("grant_type", "refresh_token", "refresh_token", "x"), "basic post none jwt"},
		"exchange":   {pairs("grant_type", typeExchange, "subject_token", "x", "subject_token_type", typeAccess, "scope", "openid"), "basic post none jwt"},
		"revoke":     {pairs("@", revokePath, "token", "x"), "basic post none jwt"},
		"introspect": {pairs("@", introspectPath, "token", "x"), "basic jwt"},
	}
	for app, own := range map[string]string{"web": "basic", "post": "post", "spa": "none", "native": "none", "jwt": "jwt", "api": "basic", "jwtapi": "jwt", "implicit": "none", "either": "basic post", "eitherapi": "basic post"} {
		for presented, send := range w.a.methods(app) {
			for name, endpoint := range endpoints {
				got := send(endpoint.form)
				code := got.text("error")
				passed := got.Status == http.StatusOK || code != "invalid_client" && code != "invalid_request" || name == "exchange" && code == "invalid_request" && strings.HasPrefix(got.text("error_description"), "subject_token")
				good := slices.Contains(strings.Fields(own), presented) && slices.Contains(strings.Fields(endpoint.takes), presented) || own == "none" && presented == "empty post" && strings.Contains(endpoint.takes, own) // a parameter without a value is not there
				if passed != good || got.Status >= 500 {
					t.Errorf("%s (%s) presents %s at %s: got %d %s", app, own, presented, name, got.Status, got.Text)
				}
				if name == "introspect" && !good && presented != "empty jwt" && (got.Status != http.StatusUnauthorized && code == "invalid_client" || strings.Contains(got.Text, "active")) {
					t.Errorf("%s presents %s at introspection: got %d %s", app, presented, got.Status, got.Text)
				}
				if got.Status == http.StatusUnauthorized && !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
					t.Errorf("%s presents %s at %s: WWW-Authenticate is %q", app, presented, name, got.Header.Get("WWW-Authenticate"))
				}
			}
		}
	}
	// A change of the method counts for the old one too.
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["web"].ID, `{"oidc":{"authMethodType":"AUTH_METHOD_TYPE_POST"}}`)
	form := endpoints["code"].form
	w.soon("the new method", func() bool {
		by := w.a.methods("web")
		return by["post"](form).text("error") == "invalid_grant" && by["basic"](form).text("error") == "invalid_client"
	})
}

func TestSEC051_OneMechanismOfOneClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web, post, jwt := w.a.apps["web"], w.a.apps["post"], w.a.apps["jwt"]
	assertion := func() []string {
		return []string{"client_assertion_type", assertionType, "client_assertion", w.a.assertion("jwt", nil)}
	}
	token := w.a.signedIn("alice").tokens("web", "openid").text("access_token")
	for _, test := range []struct {
		name    string
		form    []string
		options []option
		code    string
	}{
		{"Basic and a secret in the body", []string{"client_id", web.ClientID, "client_secret", web.Secret}, []option{basic(web.ClientID, web.Secret)}, "invalid_request"},
		{"Basic and a secret of another in the body", []string{"client_id", post.ClientID, "client_secret", post.Secret}, []option{basic(web.ClientID, web.Secret)}, "invalid_request"},
		{"Basic and an assertion", assertion(), []option{basic(web.ClientID, web.Secret)}, "invalid_request"},
		{"a secret and an assertion", append(assertion(), "client_id", post.ClientID, "client_secret", post.Secret), nil, "invalid_request"},
		{"Basic and another client_id", []string{"client_id", post.ClientID}, []option{basic(web.ClientID, web.Secret)}, "invalid_request"},
		{"an assertion and another client_id", append(assertion(), "client_id", w.a.apps["jwt2"].ClientID), nil, "invalid_client"},
		{"two Basic", nil, []option{basic(web.ClientID, web.Secret), func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) }}, "invalid_request"},
		{"Basic and Bearer", nil, []option{basic(web.ClientID, web.Secret), bearer(token)}, "invalid_request"},
		{"Bearer", []string{"client_id", web.ClientID}, []option{bearer(token)}, "invalid_client"},
		{"an assertion of no type", assertion()[2:], nil, "invalid_request"},
		{"an assertion of another type", append(assertion()[2:], "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"), nil, "invalid_request"},
		{"a type without an assertion", assertion()[:2], nil, "invalid_request"},
	} {
		for _, at := range []string{tokenPath, revokePath, introspectPath} {
			form := pairs(append([]string{"grant_type", "refresh_token", "refresh_token", "x", "token", token}, test.form...)...)
			w.a.refused(test.name+" at "+at, w.a.form(at, form, test.options...), test.code)
		}
	}
	if !w.a.active("api", token) {
		t.Error("the token was revoked")
	}
	// The same client twice is no contradiction.
	form := pairs("grant_type", "refresh_token", "refresh_token", "x")
	form.Set("client_id", web.ClientID)
	w.a.refused("Basic and its client_id", w.a.form(tokenPath, form, basic(web.ClientID, web.Secret)), "invalid_grant")
	form = pairs(append([]string{"grant_type", "refresh_token", "refresh_token", "x", "client_id", jwt.ClientID}, assertion()...)...)
	w.a.refused("an assertion and its client_id", w.a.form(tokenPath, form), "invalid_grant")
}

func TestSEC052_BasicIsFormDecodedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := w.a.users["jwtrobot"].Secret // s:%+&é and a space
	form := pairs("grant_type", "client_credentials", "scope", "openid")
	send := func(id, secret string) *answer {
		return w.a.form(tokenPath, form, header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(id+":"+secret))))
	}
	w.a.granted("encoded", send("jwtrobot", url.QueryEscape(secret)))
	w.a.granted("encoded otherwise", send("jwtrobot", strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")))
	w.a.granted("encoded without need", send("%6A%77trobot", url.QueryEscape(secret)))
	w.a.granted("by its login name", send(url.QueryEscape(w.a.users["jwtrobot"].LoginName), url.QueryEscape(secret)))
	for name, got := range map[string]*answer{
		"as it is":          send("jwtrobot", secret),
		"encoded twice":     send("jwtrobot", url.QueryEscape(url.QueryEscape(secret))),
		"a broken escape":   send("jwtrobot", "%zz"),
		"half an escape":    send("jwtrobot", "%4"),
		"not UTF-8":         send("jwtrobot", "%ff"),
		"a NUL":             send("jwtrobot%00", url.QueryEscape(secret)),
		"no colon":          w.a.form(tokenPath, form, header("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("jwtrobot")))),
		"not base64":        w.a.form(tokenPath, form, header("Authorization", "Basic jwtrobot:"+secret)),
		"nothing":           w.a.form(tokenPath, form, header("Authorization", "Basic ")),
		"another scheme":    w.a.form(tokenPath, form, header("Authorization", "Digest "+base64.StdEncoding.EncodeToString([]byte("jwtrobot:x")))),
		"an unknown client": send("nobody", "x"),
	} {
		w.a.refused(name, got, "invalid_client")
		if got.Status != http.StatusUnauthorized || !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic realm=") {
			t.Errorf("%s: got %d, WWW-Authenticate %q", name, got.Status, got.Header.Get("WWW-Authenticate"))
		}
	}
	post := w.a.form(tokenPath, pairs("grant_type", "client_credentials", "scope", "openid", "client_id", "jwtrobot", "client_secret", secret))
	w.a.granted("in the form", post)
}

func TestSEC053_SecretsAreLongShownOnceAndHashed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.a.must(http.MethodPost, "/resources/v3alpha/apps", `{"projectId":%q,"name":"new","oidc":{"authMethodType":"AUTH_METHOD_TYPE_BASIC","redirectUris":["https://app.example/cb"]}}`, w.a.projects["P"])
	app, clientSecret := made["details"].(map[string]any)["id"].(string), made["clientSecret"].(string)
	user := w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["helper"].ID+"/secret", "{}")
	userSecret := user["clientSecret"].(string)
	secrets := map[string]string{"client secret": clientSecret, "service user's secret": userSecret}
	for name, value := range secrets {
		if raw, err := base64.RawURLEncoding.DecodeString(value); err != nil || len(raw) < 32 {
			t.Errorf("the %s has %d bytes: %v", name, len(raw), err)
		}
	}
	id := made["clientId"].(string)
	w.a.refused("it authenticates", w.a.form(tokenPath, pairs("grant_type", "refresh_token", "refresh_token", "x"), basic(id, clientSecret)), "unauthorized_client")
	// No table has one in clear, nor does any answer.
	rows, err := w.db.Pool.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
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
	if len(tables) < 20 {
		t.Fatalf("tables: %v", tables)
	}
	tokens := w.a.signedIn("alice").tokens("web", "openid offline_access")
	secrets["access token"], secrets["refresh token"], secrets["ID token"] = tokens.text("access_token"), tokens.text("refresh_token"), tokens.text("id_token")
	secrets["given secret"] = w.a.apps["web"].Secret
	for _, table := range tables {
		text := w.value("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM " + table + " t")
		for name, value := range secrets {
			if strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
				t.Errorf("%s holds the %s", table, name)
			}
		}
	}
	for _, path := range []string{"/resources/v3alpha/apps/" + app, "/resources/v3alpha/users/" + w.a.users["helper"].ID} {
		if got := w.a.api("owner", http.MethodGet, path, ""); got.Status != http.StatusOK || strings.Contains(got.Text, clientSecret) || strings.Contains(got.Text, userSecret) || strings.Contains(strings.ToLower(got.Text), "hash") {
			t.Errorf("%s: %d %s", path, got.Status, got.Text)
		}
	}
	// Unknown and wrong are told apart by nothing.
	form := pairs("grant_type", "refresh_token", "refresh_token", "x")
	unknown, wrong := w.a.form(tokenPath, form, basic("nobody", "x")), w.a.form(tokenPath, form, basic(id, "x"))
	if unknown.Text != wrong.Text || unknown.Status != wrong.Status {
		t.Errorf("unknown: %d %s, wrong: %d %s", unknown.Status, unknown.Text, wrong.Status, wrong.Text)
	}
}

// assertionRoads are the endpoints that take client assertions; each reports whether
// one was accepted.
func (s *side) assertionRoads() map[string]func(app, assertion string) bool {
	send := func(form url.Values, at string) func(string, string) bool {
		return func(_, assertion string) bool {
			sent := maps.Clone(form)
			sent.Set("client_assertion_type", assertionType)
			sent.Set("client_assertion", assertion)
			got := s.form(at, sent)
			if got.Status >= 500 {
				s.Errorf("%s: %d %s", at, got.Status, got.Text)
			}
			return got.text("error") != "invalid_client"
		}
	}
	return map[string]func(string, string) bool{
		"code":       send(pairs("grant_type", "authorization_code", "code", "x", "redirect_uri", callback), tokenPath),
		"refresh":    send(pairs("grant_type", "refresh_token", "refresh_token", "x"), tokenPath),
		"revoke":     send(pairs("token", "x"), revokePath),
		"introspect": send(pairs("token", "x"), introspectPath),
	}
}

func TestSEC054_SEC055_ClientAssertions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now().Unix()
	other := w.a.apps["jwt2"].ClientID
	for _, test := range []struct {
		name   string
		claims map[string]any
		good   bool
	}{
		{"as it is", nil, true},
		{"without jti", map[string]any{"jti": nil, "x": newID}, true}, // each another one
		{"without iat", map[string]any{"iat": nil}, true},
		{"aud as a list of one", map[string]any{"aud": []string{w.a.issuer}}, true},
		{"aud as a list of two", map[string]any{"aud": []string{w.a.issuer, "https://evil.example"}}, false},
		{"the token endpoint", map[string]any{"aud": w.a.issuer + tokenPath}, false},
		{"the other instance", map[string]any{"aud": w.b.issuer}, false},
		{"a longer issuer", map[string]any{"aud": w.a.issuer + "/"}, false},
		{"another scheme", map[string]any{"aud": "http://" + w.a.host}, false},
		{"another case", map[string]any{"aud": strings.ToUpper(w.a.issuer)}, false},
		{"an empty aud", map[string]any{"aud": ""}, false},
		{"no aud", map[string]any{"aud": nil}, false},
		{"no iss", map[string]any{"iss": nil}, false},
		{"no sub", map[string]any{"sub": nil}, false},
		{"another iss", map[string]any{"iss": other}, false},
		{"another sub", map[string]any{"sub": other}, false},
		{"both another", map[string]any{"iss": other, "sub": other}, false},
		{"the ID of the app", map[string]any{"iss": w.a.apps["jwt"].ID, "sub": w.a.apps["jwt"].ID}, false},
		{"no exp", map[string]any{"exp": nil}, false},
		{"exp in an hour", map[string]any{"exp": now + 3600}, true},
		{"exp in an hour and skew", map[string]any{"exp": now + 3610}, true},
		{"exp later", map[string]any{"exp": now + 3620}, false},
		{"exp 9 s ago", map[string]any{"exp": now - 9}, true},
		{"exp 11 s ago", map[string]any{"exp": now - 11}, false},
		{"nbf in 59 s", map[string]any{"nbf": now + 59}, true},
		{"nbf in 62 s", map[string]any{"nbf": now + 62}, false},
		{"iat in 59 s", map[string]any{"iat": now + 59}, true},
		{"iat in 62 s", map[string]any{"iat": now + 62}, false},
		{"iat of yesterday", map[string]any{"iat": now - 86400}, false},
		{"nbf a text", map[string]any{"nbf": "x"}, false},
	} {
		for road, send := range w.a.assertionRoads() {
			if _, ok := test.claims["x"]; ok {
				test.claims["x"] = newID()
			}
			if got := send("jwt", w.a.assertion("jwt", test.claims)); got != test.good {
				t.Errorf("%s at %s: accepted %v", test.name, road, got)
			}
		}
	}
	for road, send := range w.b.assertionRoads() {
		if send("jwt", w.a.assertion("jwt", nil)) {
			t.Errorf("%s: the other instance takes it", road)
		}
		if !send("jwt", w.b.assertion("jwt", nil)) {
			t.Errorf("%s: the other instance takes not its own", road)
		}
	}
}

func TestSEC056_KeysAreThoseThatAreRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, good := claims(w.a.assertion("jwt", map[string]any{"jti": nil}))
	kid := w.a.keyIDs["jwt"]
	jwk := map[string]any{"kty": "EC", "crv": "P-256", "kid": kid, "alg": "ES256"} // of a key of the attacker
	point, _ := keys()[2].PublicKey.Bytes()
	jwk["x"], jwk["y"] = base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:])
	for road, send := range w.a.assertionRoads() {
		for name, assertion := range map[string]string{
			"another client's key":        signed(keys()[1], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["jwt2"]}, good),
			"another client's kid":        signed(keys()[0], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["jwtapi"]}, good),
			"a service user's kid":        signed(keys()[0], map[string]any{"alg": "ES256", "kid": w.a.keyIDs["robot"]}, good),
			"no kid":                      signed(keys()[0], map[string]any{"alg": "ES256"}, good),
			"an unknown kid":              signed(keys()[0], map[string]any{"alg": "ES256", "kid": "x"}, good),
			"a kid of SQL":                signed(keys()[0], map[string]any{"alg": "ES256", "kid": kid + "' OR '1'='1"}, good),
			"a kid of a path":             signed(keys()[0], map[string]any{"alg": "ES256", "kid": "../../" + kid}, good),
			"a kid that is a number":      signed(keys()[0], map[string]any{"alg": "ES256", "kid": 1}, good),
			"another algorithm":           signed(keys()[0], map[string]any{"alg": "ES512", "kid": kid}, good),
			"a key in the header":         signed(keys()[2], map[string]any{"alg": "ES256", "kid": kid, "jwk": jwk}, good),
			"a key in the header alone":   signed(keys()[2], map[string]any{"alg": "ES256", "jwk": jwk}, good),
			"somebody's key":              signed(keys()[2], map[string]any{"alg": "ES256", "kid": kid}, good),
			"an unknown crit":             signed(keys()[0], map[string]any{"alg": "ES256", "kid": kid, "crit": []string{"x"}, "x": 1}, good),
			"an empty crit":               signed(keys()[0], map[string]any{"alg": "ES256", "kid": kid, "crit": []string{}}, good),
			"typed as an access token":    signed(keys()[0], map[string]any{"alg": "ES256", "kid": kid, "typ": "at+jwt"}, good),
			"a key address in the header": signed(keys()[2], map[string]any{"alg": "ES256", "kid": kid, "jku": "https://evil.example/jwks"}, good),
		} {
			if send("jwt", assertion) {
				t.Errorf("%s: accepted at %s", name, road)
			}
		}
		good["x"] = road // without a jti it is good once
		if !send("jwt", signed(keys()[0], map[string]any{"alg": "ES256", "kid": kid}, good)) {
			t.Errorf("a good one is refused at %s", road)
		}
	}
	// A key that expires, and one that is removed, on both nodes.
	at := "/resources/v3alpha/apps/" + w.a.apps["jwt"].ID + "/keys"
	added := w.a.must(http.MethodPost, at, `{"publicKey":%q,"expirationDate":%q}`, publicPEM(keys()[2]), w.now().Add(time.Hour).Format(time.RFC3339))
	second := added["details"].(map[string]any)["id"].(string)
	with := func(node int) bool {
		_, body := claims(w.a.assertion("jwt", nil))
		return w.a.on(node).assertionRoads()["introspect"]("jwt", signed(keys()[2], map[string]any{"alg": "ES256", "kid": second}, body))
	}
	for node := range 2 {
		w.soon("a new key", func() bool { return with(node) })
	}
	w.wait(time.Hour)
	for node := range 2 {
		if with(node) {
			t.Errorf("node %d takes an expired key", node)
		}
		if !w.a.on(node).assertionRoads()["introspect"]("jwt", w.a.assertion("jwt", nil)) {
			t.Errorf("node %d does not take the other key", node)
		}
	}
	w.a.must(http.MethodDelete, at+"/"+kid, "")
	for node := range 2 {
		w.soon("a removed key", func() bool {
			return !w.a.on(node).assertionRoads()["introspect"]("jwt", w.a.assertion("jwt", nil))
		})
	}
}

func TestSEC057_AssertionsAreGoodOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	roads := w.a.assertionRoads()
	for road, send := range roads {
		assertion := w.a.assertion("jwt", nil)
		if !send("jwt", assertion) {
			t.Errorf("%s: refused at first", road)
		}
		for again, send := range roads {
			if send("jwt", assertion) {
				t.Errorf("used at %s, accepted at %s", road, again)
			}
		}
		if w.a.on(1).assertionRoads()[road]("jwt", assertion) {
			t.Errorf("%s: accepted at the other node", road)
		}
		// The signature may be written in another way; the assertion is the same one.
		if send("jwt", malleated(assertion)) {
			t.Errorf("%s: accepted with the other signature", road)
		}
	}
	// The same jti is another one of another client, on the other instance, and when
	// it is about something else.
	jti := newID()
	for name, accepted := range map[string]bool{
		"the one":            roads["code"]("jwt", w.a.assertion("jwt", map[string]any{"jti": jti})),
		"another client":     roads["code"]("jwt2", w.a.assertion("jwt2", map[string]any{"jti": jti})),
		"the other instance": w.b.assertionRoads()["code"]("jwt", w.b.assertion("jwt", map[string]any{"jti": jti})),
		"a service user":     w.a.form(tokenPath, pairs("grant_type", grantJWT, "scope", "openid", "assertion", w.a.assertion("robot", map[string]any{"jti": jti}))).Status == http.StatusOK,
	} {
		if !accepted {
			t.Errorf("%s: refused", name)
		}
	}
	// What is remembered is remembered for as long as the assertion is good, and only
	// then.
	late := w.a.assertion("jwt", map[string]any{"exp": w.now().Unix() + 3600})
	if !roads["code"]("jwt", late) {
		t.Error("refused")
	}
	for range 4 {
		w.wait(15*time.Minute - time.Second)
		if roads["code"]("jwt", late) {
			t.Error("accepted again before it expired")
		}
	}
}

func TestSEC059_SecretsAreRotatedWithOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web := w.a.apps["web"]
	good := func(node int, secret string) bool {
		got := w.a.on(node).form(tokenPath, pairs("grant_type", "refresh_token", "refresh_token", "x"), basic(web.ClientID, secret))
		return got.text("error") == "invalid_grant"
	}
	rotate := func(body string) string {
		return w.a.must(http.MethodPost, "/resources/v3alpha/apps/"+web.ID+"/_regenerate_secret", body)["clientSecret"].(string)
	}
	second := rotate(`{"overlap":"3600s"}`)
	for node := range 2 {
		w.soon("both are good", func() bool { return good(node, web.Secret) && good(node, second) })
	}
	w.wait(time.Hour)
	for node := range 2 {
		if good(node, web.Secret) || !good(node, second) {
			t.Errorf("node %d after the overlap: old %v, new %v", node, good(node, web.Secret), good(node, second))
		}
	}
	third := rotate(`{}`)
	for node := range 2 {
		w.soon("the old one ends", func() bool { return !good(node, second) && good(node, third) })
	}
	robot := "/resources/v3alpha/users/" + w.a.users["robot"].ID
	changed := w.a.must(http.MethodPost, robot+"/secret", `{}`)["clientSecret"].(string)
	as := func(secret string) bool {
		return w.a.form(tokenPath, pairs("grant_type", "client_credentials", "scope", "openid"), basic("robot", secret)).Status == http.StatusOK
	}
	w.soon("a service user's", func() bool { return !as(w.a.users["robot"].Secret) && as(changed) })
	w.a.must(http.MethodDelete, robot+"/secret", "")
	w.soon("no secret", func() bool { return !as(changed) })
	if as("") {
		t.Error("an empty secret is good")
	}
}
