package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// signer returns the key that an instance signs with, opened as its nodes do.
func (s *side) signer() (id string, private *rsa.PrivateKey) {
	s.Helper()
	s.call(http.MethodGet, keysPath, "") // makes the first
	var sealed []byte
	if err := s.db.Pool.QueryRow(s.Context(), "SELECT id, private_key FROM signing_keys WHERE instance_id = $1 AND state = 2", s.instance()).Scan(&id, &sealed); err != nil {
		s.Fatal(err)
	}
	der, err := s.sealer.Open(sealed, "signing_keys/"+s.instance()+"/"+id)
	if err != nil {
		s.Fatal(err)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		s.Fatal(err)
	}
	return id, key.(*rsa.PrivateKey)
}

// sign signs any header and claims with the key of an instance, or of a client.
func sign(key crypto.Signer, header, body any) string {
	input := segment(header) + "." + segment(body)
	return input + "." + base64.RawURLEncoding.EncodeToString(signatureOf(key, input))
}

func signatureOf(key crypto.Signer, input string) []byte {
	if ec, ok := key.(*ecdsa.PrivateKey); ok {
		return signature(ec, input)
	}
	digest := sha256.Sum256([]byte(input))
	made, err := rsa.SignPKCS1v15(rand.Reader, key.(*rsa.PrivateKey), crypto.SHA256, digest[:])
	if err != nil {
		panic(err)
	}
	return made
}

// place is where a JWT is taken: made makes a good one, takes tells whether one was
// accepted.
type place struct {
	key    crypto.Signer
	header map[string]any
	claims func() map[string]any
	takes  func(jwt string) bool
}

func (p *place) make() string { return sign(p.key, p.header, p.claims()) }

// places are all of them, of an instance.
func (s *side) places() map[string]*place {
	s.Helper()
	kid, key := s.signer()
	alice := s.signedIn("alice")
	access := s.granted("access token", alice.tokens("jwtweb", "openid profile "+urn+"org:project:id:service:aud"))
	id := alice.tokens("web", "openid").text("id_token")
	_, accessClaims := claims(access)
	_, idClaims := claims(id)
	of := func(body map[string]any) func() map[string]any {
		return func() map[string]any { return maps.Clone(body) }
	}
	ours := func(typ string, body map[string]any, takes func(string) bool) *place {
		return &place{key, map[string]any{"alg": "RS256", "kid": kid, "typ": typ}, of(body), takes}
	}
	theirs := func(name string, takes func(string) bool) *place {
		return &place{keyFor(name), map[string]any{"alg": "ES256", "kid": s.keyIDs[name]}, func() map[string]any {
			_, body := claims(s.assertion(name, nil))
			return body
		}, takes}
	}
	is := func(got *answer) bool {
		if got.Status >= 500 {
			s.Errorf("%d %s", got.Status, got.Text)
		}
		return got.Status == http.StatusOK
	}
	places := map[string]*place{
		"introspection": ours("at+jwt", accessClaims, func(jwt string) bool { return s.active("api", jwt) }),
		"userinfo":      ours("at+jwt", accessClaims, func(jwt string) bool { return is(s.userinfo(jwt)) }),
		"resource API": ours("at+jwt", accessClaims, func(jwt string) bool {
			return is(s.api(jwt, http.MethodGet, "/resources/v3alpha/users/"+s.users["alice"].ID, ""))
		}),
		"hint": ours("JWT", idClaims, func(jwt string) bool {
			return alice.authorize("web", "prompt", "none", "id_token_hint", jwt).Has("code")
		}),
		"logout": ours("JWT", idClaims, func(jwt string) bool {
			got := s.call(http.MethodGet, endSessionPath+"?"+pairs("id_token_hint", jwt, "post_logout_redirect_uri", "https://app.example/bye").Encode(), "")
			return got.Status == http.StatusFound
		}),
		"client assertion": theirs("jwt", func(jwt string) bool {
			return s.form(tokenPath, pairs("grant_type", "refresh_token", "refresh_token", "x", "client_assertion_type", assertionType, "client_assertion", jwt)).text("error") != "invalid_client"
		}),
		"JWT profile": theirs("robot", func(jwt string) bool {
			return is(s.form(tokenPath, pairs("grant_type", grantJWT, "assertion", jwt, "scope", "openid")))
		}),
	}
	if s.name == "a" { // the other one has no exchange
		places["exchanged access token"] = ours("at+jwt", accessClaims, func(jwt string) bool { return is(s.exchange("web", "subject_token", jwt)) })
		places["exchanged ID token"] = ours("JWT", idClaims, func(jwt string) bool {
			return is(s.exchange("web", "subject_token", jwt, "subject_token_type", typeID))
		})
	}
	return places
}

// check checks that a place takes what it should and refuses what it should not.
func (p *place) check(t *testing.T, what, jwt string, want bool) {
	t.Helper()
	if got := p.takes(jwt); got != want {
		t.Errorf("%s: accepted %v, want %v", what, got, want)
	}
}

func with(body map[string]any, changes ...any) map[string]any {
	body = maps.Clone(body)
	for i := 0; i < len(changes); i += 2 {
		body[changes[i].(string)] = changes[i+1]
		if changes[i+1] == nil {
			delete(body, changes[i].(string))
		}
	}
	return body
}

func hs256(secret []byte, header, body any) string {
	input := segment(header) + "." + segment(body)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestSEC070_TheAlgorithmIsThatOfTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, p := range w.a.places() {
		p.check(t, name+": as it is", p.make(), true)
		for _, none := range []string{"none", "None", "NONE", "nOnE", "", " none"} {
			header := with(p.header, "alg", none)
			unsigned := segment(header) + "." + segment(p.claims())
			p.check(t, fmt.Sprintf("%s: %q", name, none), unsigned+".", false)
			p.check(t, fmt.Sprintf("%s: %q with a signature", name, none), sign(p.key, header, p.claims()), false)
			p.check(t, fmt.Sprintf("%s: %q with some bytes", name, none), unsigned+".AAAA", false)
		}
		der, err := x509.MarshalPKIXPublicKey(p.key.Public())
		if err != nil {
			t.Fatal(err)
		}
		secrets := map[string][]byte{
			"PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "DER": der, "nothing": {}, "key set": []byte(w.a.call(http.MethodGet, keysPath, "").Text),
		}
		for kind, secret := range secrets {
			for _, algorithm := range []string{"HS256", "HS384", "RS256", "ES256"} {
				p.check(t, name+": HMAC with the "+kind+" as "+algorithm, hs256(secret, with(p.header, "alg", algorithm), p.claims()), false)
			}
		}
		for _, algorithm := range []any{"RS512", "PS256", "ES384", "EdDSA", "rs256", "es256", "RS256 ", 1, nil, []string{"RS256"}} {
			p.check(t, fmt.Sprintf("%s: %v", name, algorithm), sign(p.key, with(p.header, "alg", algorithm), p.claims()), false)
		}
	}
}

func TestSEC071_HeadersBringNoKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	called := make(chan struct{}, 100)
	address := newListener(t, called)
	evil, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	jwk := map[string]any{"kty": "RSA", "n": base64.RawURLEncoding.EncodeToString(evil.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(evil.E)).Bytes())}
	for name, p := range w.a.places() {
		kid := p.header["kid"]
		for what, header := range map[string]map[string]any{
			"jwk": with(p.header, "jwk", jwk), "jwk without kid": with(p.header, "jwk", jwk, "kid", nil), "jku": with(p.header, "jku", address+"/jwks"),
			"jku without kid": with(p.header, "jku", address+"/jwks", "kid", nil), "x5u": with(p.header, "x5u", address+"/x5u"), "x5c": with(p.header, "x5c", []string{"MIIB"}),
			"kid as an address": with(p.header, "kid", address+"/key"), "RS256": with(p.header, "alg", "RS256", "jwk", jwk),
		} {
			p.check(t, name+": "+what+" of another key", sign(evil, header, p.claims()), false)
		}
		for _, bad := range []any{nil, "", "x", "../" + fmt.Sprint(kid), fmt.Sprint(kid) + "' OR 1=1 --", fmt.Sprint(kid) + "\x00", strings.Repeat("k", 5000), 7, []any{kid}, map[string]any{"kid": kid}} {
			p.check(t, fmt.Sprintf("%s: kid %.20v", name, bad), sign(p.key, with(p.header, "kid", bad), p.claims()), false)
		}
		for _, crit := range []any{[]string{"exp"}, []string{"b64"}, []string{}, "x", nil} {
			if crit == nil {
				p.check(t, name+": without crit", p.make(), true)
				continue
			}
			p.check(t, fmt.Sprintf("%s: crit %v", name, crit), sign(p.key, with(p.header, "crit", crit, "b64", true), p.claims()), false)
		}
		p.check(t, name+": a header that brings nothing", sign(p.key, with(p.header, "jku", address, "x5u", address, "cty", "x"), p.claims()), true)
	}
	select {
	case <-called:
		t.Error("somebody called")
	default:
	}
}

func TestSEC072_ATokenOfOneKindIsNoneOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	places := w.a.places()
	alice := w.a.signedIn("alice")
	const all = "openid offline_access " + urn + "org:project:id:service:aud"
	opaque, jwt := alice.tokens("web", all), alice.tokens("jwtweb", all)
	access := []string{"introspection", "userinfo", "resource API", "exchanged access token"}
	id := []string{"hint", "logout", "exchanged ID token"}
	for kind, test := range map[string]struct {
		token string
		good  []string
	}{
		"opaque access token": {opaque.text("access_token"), access},
		"JWT access token":    {jwt.text("access_token"), access},
		"ID token":            {opaque.text("id_token"), id},
		"refresh token":       {opaque.text("refresh_token"), nil},
		"code":                {alice.code("web"), nil},
		"PAT":                 {w.a.users["robot"].Token, []string{"introspection", "userinfo", "resource API", "exchanged access token"}},
		"session token":       {"writ_ses_" + alice.cookie("__Host-writ_sessions"), nil},
		"client assertion":    {w.a.assertion("jwt", nil), []string{"client assertion"}},
		"user assertion":      {w.a.assertion("robot", nil), []string{"JWT profile"}},
		"flow":                {w.a.agent().open(authorizePath + "?" + w.a.request("web").Encode()).at.Query().Get("flow"), nil},
	} {
		for name, p := range places {
			want := slices.Contains(test.good, name)
			if kind == "PAT" && name == "resource API" { // robot may not read alice
				want = false
			}
			p.check(t, kind+" at "+name, test.token, want)
		}
		// Also not when only its type was changed, by the right key.
		if kind == "ID token" || kind == "JWT access token" {
			head, body := claims(test.token)
			_, key := w.a.signer()
			other := map[string]string{"ID token": "at+jwt", "JWT access token": "JWT"}[kind]
			for _, typ := range []any{nil, "", "jwt+at", "at", "logout+jwt", "secevent+jwt", 7, "at+jwt ", other} {
				for name, p := range places {
					retyped := sign(key, with(head, "typ", typ), body)
					if typ == other {
						continue // what we sign as another kind is one: only we do
					}
					p.check(t, fmt.Sprintf("%s as %v at %s", kind, typ, name), retyped, false)
				}
			}
		}
	}
	if !w.a.active("api", opaque.text("access_token")) {
		t.Error("the access token is not active any more")
	}
}

func TestSEC073_ParsingIsStrict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	encode := base64.RawURLEncoding.EncodeToString
	for name, p := range w.a.places() {
		raw := func(header, body string) string { // signed properly
			input := encode([]byte(header)) + "." + encode([]byte(body))
			return input + "." + encode(signatureOf(p.key, input))
		}
		text := func(v any) string {
			decoded, _ := base64.RawURLEncoding.DecodeString(segment(v))
			return string(decoded)
		}
		header := text(p.header)
		object := func() string { return text(p.claims()) }
		p.check(t, name+": as it is", raw(header, object()), true)
		p.check(t, name+": with spaces", raw(header, " "+object()+"\n"), true)
		last := func(s string) string { return s[:len(s)-1] } // without its brace
		for what, jwt := range map[string]string{
			"a member twice":             raw(header, last(object())+`,"iss":"x"}`),
			"a member twice, the same":   raw(header, last(object())+`,"exp":99999999999}`),
			"a member twice, escaped":    raw(header, last(object())+`,"\u0069ss":"x"}`),
			"alg twice":                  raw(last(header)+`,"alg":"none"}`, object()),
			"kid twice":                  raw(last(header)+`,"kid":"x"}`, object()),
			"names in capitals":          raw(header, strings.NewReplacer(`"iss"`, `"Iss"`, `"exp"`, `"EXP"`).Replace(object())),
			"alg in capitals":            raw(strings.ReplaceAll(header, `"alg"`, `"Alg"`), object()),
			"data behind":                raw(header, object()+"{}"),
			"data behind the header":     raw(header+" x", object()),
			"an array":                   raw(header, "["+object()+"]"),
			"null":                       raw(header, "null"),
			"nothing":                    raw(header, ""),
			"an array as header":         raw("["+header+"]", object()),
			"a comment":                  raw(header, "/* */"+object()),
			"a trailing comma":           raw(header, last(object())+",}"),
			"not UTF-8":                  raw(header, last(object())+",\"x\":\"\xff\"}"),
			"a byte order mark":          raw(header, "\ufeff"+object()),
			"too long":                   raw(header, last(object())+`,"x":"`+strings.Repeat("x", 13<<10)+`"}`),
			"very deep":                  raw(header, last(object())+`,"x":`+strings.Repeat("[", 11000)),
			"two segments":               strings.Join(strings.Split(raw(header, object()), ".")[:2], "."),
			"four segments":              raw(header, object()) + ".x",
			"five segments (encryption)": raw(header, object()) + ".x.y",
			"empty segments":             "..",
			"padding":                    strings.Replace(raw(header, object()), ".", "=.", 1),
			"a space behind":             raw(header, object()) + "\u00a0",
			"a bit behind":               loosened(raw(header, object())),
			"the other alphabet":         strings.NewReplacer("-", "+", "_", "/").Replace(raw(header, last(object())+`,"x":"???>>>~~~"}`)),
		} {
			p.check(t, name+": "+what, jwt, false)
		}
	}
}

// loosened returns a JWT whose last character has another bit that a lax decoder
// does not look at. Signatures of 256 and 64 bytes end in such bits.
func loosened(jwt string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, jwt[len(jwt)-1])
	return jwt[:len(jwt)-1] + string(alphabet[last^1])
}

func TestSEC074_ClaimsThatAreMissingFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := func() int64 { return w.now().Unix() }
	for name, p := range w.a.places() {
		changed := func(changes ...any) string { return sign(p.key, p.header, with(p.claims(), changes...)) }
		required := []string{"iss", "sub", "aud"}
		hint := name == "hint" || name == "logout"
		if !hint { // these identify, however old (SEC-133)
			required = append(required, "exp")
		} else {
			required = append(required, "azp")
		}
		if p.header["typ"] == "at+jwt" {
			required = append(required, "jti", "client_id", "iat")
		}
		for _, claim := range required {
			p.check(t, name+" without "+claim, changed(claim, nil), false)
			for _, bad := range []any{"", 0, true, []any{}, map[string]any{}, "x"} {
				if bad == 0 && claim == "iat" || bad == "x" && (claim == "jti" || claim == "sub" && name == "logout" || claim == "aud" && name == "userinfo") {
					continue // is a time, is an ID, ends no session, is for whoever shows it
				}
				p.check(t, fmt.Sprintf("%s with %s %v", name, claim, bad), changed(claim, bad), false)
			}
		}
		for what, changes := range map[string][]any{
			"iss of the other instance": {"iss", w.b.issuer}, "iss with a slash": {"iss", w.a.issuer + "/"}, "iss by http": {"iss", "http://" + w.a.host},
			"sub of nobody": {"sub", "nobody"},
		} {
			if what == "sub of nobody" && name == "logout" {
				continue // ends no session, but the client is the one it says
			}
			p.check(t, name+": "+what, changed(changes...), false)
		}
		if !hint {
			p.check(t, name+": expired", changed("exp", now()-11), false)
		}
		if p.header["typ"] == "at+jwt" {
			p.check(t, name+": nbf in the future", changed("nbf", now()+60), false)
			p.check(t, name+": of another client", changed("client_id", "x"), false)
			p.check(t, name+": of nobody's session", changed("sid", "x"), false)
			p.check(t, name+": of nobody's grant", changed("jti", "x.y"), false)
		}
		p.check(t, name+": as it is", p.make(), true)
	}
}

func TestSEC075_SEC217_NothingOfOneInstanceIsGoodOnAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ofA, ofB := w.a.places(), w.b.places()
	for name, p := range ofB {
		p.check(t, name+": its own", p.make(), true)
		p.check(t, name+": of the other instance", ofA[name].make(), false)
		// As if made for this one, but signed by the key of the other.
		forged := sign(ofA[name].key, ofA[name].header, with(p.claims(), "iss", p.claims()["iss"]))
		if p.header["typ"] != nil {
			p.check(t, name+": signed by the other instance", forged, false)
		}
	}
	alice := w.a.signedIn("alice")
	for _, app := range []string{"web", "jwtweb"} {
		const all = "openid offline_access " + urn + "org:project:id:service:aud"
		tokens := alice.tokens(app, all)
		if w.b.active("api", tokens.text("access_token")) || !w.a.active("api", tokens.text("access_token")) {
			t.Errorf("%s: introspection", app)
		}
		if got := w.b.userinfo(tokens.text("access_token")); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: userinfo %d", app, got.Status)
		}
		if got := w.b.api(tokens.text("access_token"), http.MethodGet, "/resources/v3alpha/users/"+w.a.users["alice"].ID, ""); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: resource API %d", app, got.Status)
		}
		w.b.refused(app+": refresh", w.b.refresh(app, tokens.text("refresh_token")), "invalid_grant")
		w.b.refused(app+": code", w.b.redeem(app, alice.code(app)), "invalid_grant")
		for _, token := range []string{"access_token", "refresh_token"} {
			if got := w.b.as(app, revokePath, pairs("token", tokens.text(token))); got.Status != http.StatusOK {
				t.Errorf("%s: revoke %d", app, got.Status)
			}
		}
		if !w.a.active("api", tokens.text("access_token")) {
			t.Errorf("%s: revoked by the other instance", app)
		}
		w.a.granted(app+": refresh at home", w.a.refresh(app, tokens.text("refresh_token")))
	}
	for name, user := range w.a.users {
		if user.Token != "" && w.b.active("api", user.Token) {
			t.Errorf("the PAT of %s is active on the other instance", name)
		}
		if user.Token != "" {
			if got := w.b.api(user.Token, http.MethodPost, "/resources/v3alpha/users/_search", "[]"); got.Status != http.StatusUnauthorized {
				t.Errorf("the PAT of %s: %d", name, got.Status)
			}
		}
	}
	// Cookies and flows.
	b := w.b.agent()
	b.setCookie("__Host-writ_sessions", alice.cookie("__Host-writ_sessions"))
	if got := b.authorize("web", "prompt", "none"); got.Get("error") != "login_required" {
		t.Errorf("the session of the other instance: %v", got)
	}
	flow := w.a.agent().open(authorizePath + "?" + w.a.request("web").Encode())
	b.setCookie("__Host-writ_browser", flow.cookie("__Host-writ_browser"))
	if b.open("/login?flow=" + flow.at.Query().Get("flow")); b.got.Status != http.StatusBadRequest {
		t.Errorf("the flow of the other instance: %d", b.got.Status)
	}
}

func TestSEC078_SEC079_OnlyTheIssuedStringIsGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	variants := func(text string, step int) []string {
		list := []string{text + "A", text + "=", text + ".", text + text, "A" + text, strings.ToUpper(text), text[:len(text)-1], text[:len(text)/2], text[1:], ""}
		list = append(list, strings.ReplaceAll(text, "writ_", "WRIT_"), strings.Replace(text, "_", "%5F", 1), text+"\u200b", "\ufeff"+text)
		for i := strings.LastIndexByte(text[:12], '_') + 1; i < len(text); i += step {
			at := strings.IndexByte(alphabet, text[i])
			if at < 0 {
				continue
			}
			for bit := range 6 {
				if bit == i%6 || i == len(text)-1 { // each bit somewhere, and all of the last character
					list = append(list, text[:i]+string(alphabet[at^1<<bit])+text[i+1:])
				}
			}
			if i%16 == 0 {
				list = append(list, text[:i], text[:i]+text[i+1:], text[:i]+"A"+text[i:])
			}
		}
		return list
	}
	const all = "openid offline_access " + urn + "org:project:id:service:aud"
	for _, app := range []string{"web", "jwtweb"} {
		tokens := b.tokens(app, all)
		access, refresh := tokens.text("access_token"), tokens.text("refresh_token")
		for i, text := range variants(access, 3) {
			if text == access || text == "" {
				continue
			}
			if w.a.active("api", text) {
				t.Errorf("%s: active: %s", app, text)
			}
			if i%4 == 0 && !strings.ContainsAny(text, "\u200b\ufeff") {
				if w.a.userinfo(text).Status == http.StatusOK || w.a.exchange("web", "subject_token", text).Status == http.StatusOK ||
					w.a.api(text, http.MethodGet, "/resources/v3alpha/users/"+w.a.users["alice"].ID, "").Status == http.StatusOK {
					t.Errorf("%s: good: %s", app, text)
				}
			}
		}
		if !w.a.active("api", access) {
			t.Errorf("%s: not active", app)
		}
		for _, text := range variants(refresh, 5) {
			if text != refresh && text != "" {
				w.a.refused(app+": a refresh token", w.a.refresh(app, text), "invalid_grant")
			}
		}
		w.a.granted(app+": the refresh token", w.a.refresh(app, refresh))
		code := b.code(app)
		for _, text := range variants(code, 5) {
			if text != code && text != "" {
				w.a.refused(app+": a code", w.a.redeem(app, text), "invalid_grant")
			}
		}
		w.a.granted(app+": the code", w.a.redeem(app, code))
		// What is revoked stays so, however it is written.
		if got := w.a.as(app, revokePath, pairs("token", access)); got.Status != http.StatusOK {
			t.Fatalf("revoke: %d", got.Status)
		}
		for _, text := range append(variants(access, 7), access) {
			if text != "" && w.a.active("api", text) {
				t.Errorf("%s: active after its revocation: %s", app, text)
			}
		}
	}
}
