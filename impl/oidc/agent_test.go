package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// agent is a browser: its cookies, and the page that it shows.
type agent struct {
	*side
	client *http.Client
	got    *answer
	at     *url.URL
}

func (s *side) agent() *agent {
	jar, _ := cookiejar.New(nil) // never fails
	return &agent{side: s, client: &http.Client{
		Transport: s, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// signedIn returns a browser with a session of a user, by the sessions API: where
// the pages are not the point they would only take time.
func (s *side) signedIn(names ...string) *agent {
	s.Helper()
	return s.signedInWith(password, names...)
}

// signedInWith is signedIn with another password than that of the seed.
func (s *side) signedInWith(password string, names ...string) *agent {
	s.Helper()
	a := s.agent()
	var tokens []string
	for _, name := range names {
		made := s.must(http.MethodPost, "/resources/v3alpha/sessions", `{"checks":{"user":{"loginName":%q},"password":{"password":%q}}}`, s.users[name].LoginName, password)
		_, short, _ := strings.Cut(made["sessionToken"].(string), "writ_ses_")
		if short == "" {
			s.Fatalf("not a session token: %v", made)
		}
		tokens = append(tokens, short)
	}
	a.setCookie("__Host-writ_sessions", strings.Join(tokens, "."))
	return a
}

func (a *agent) setCookie(name, value string) {
	at, _ := url.Parse(a.issuer)
	a.client.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true}})
}

// cookie returns the value of a cookie.
func (a *agent) cookie(name string) string {
	at, _ := url.Parse(a.issuer)
	for _, cookie := range a.client.Jar.Cookies(at) {
		if cookie.Name == name {
			return cookie.Value
		}
	}
	return ""
}

// sessionID returns the newest session of the browser.
func (a *agent) sessionID() string {
	a.Helper()
	newest, _, _ := strings.Cut(a.cookie("__Host-writ_sessions"), ".")
	hash := sha256.Sum256([]byte("writ_ses_" + newest))
	return a.value("SELECT id FROM sessions WHERE instance_id = $1 AND token_hash = $2", a.instance(), hash[:])
}

// open goes to an address and on through redirects, as long as they stay here.
func (a *agent) open(address string, options ...option) *agent {
	a.Helper()
	return a.send(http.MethodGet, address, nil, options...)
}

func (a *agent) send(method, address string, values url.Values, options ...option) *agent {
	a.Helper()
	for range 10 {
		req, err := http.NewRequest(method, a.issuer, strings.NewReader(values.Encode()))
		if err != nil {
			a.Fatal(err)
		}
		if req.URL, err = req.URL.Parse(address); err != nil {
			a.Fatal(err)
		}
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", "null")
			req.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		for _, option := range options {
			option(req)
		}
		res, err := a.client.Do(req)
		if err != nil {
			a.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			a.Fatal(err)
		}
		a.at, a.got = req.URL, &answer{Status: res.StatusCode, Header: res.Header, Text: string(text)}
		location := res.Header.Get("Location")
		if location == "" || !strings.HasPrefix(location, "/") {
			return a
		}
		method, address, values, options = http.MethodGet, location, nil, nil
	}
	a.Fatalf("no end of redirects at %s", a.at)
	return nil
}

var (
	formTag   = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	inputTag  = regexp.MustCompile(`<input[^>]*>`)
	nameAttr  = regexp.MustCompile(` name="([^"]*)"`)
	valueAttr = regexp.MustCompile(` value="([^"]*)"`)
)

// fields returns where the first form of the page goes, and its fields.
func (a *agent) fields() (action string, values url.Values) {
	_, text, _ := strings.Cut(a.got.Text, "<form")
	text, _, _ = strings.Cut("<form"+text, "</form")
	if found := formTag.FindStringSubmatch(text); found != nil {
		action = html.UnescapeString(found[1])
	}
	values = url.Values{}
	for _, input := range inputTag.FindAllString(text, -1) {
		name, value := nameAttr.FindStringSubmatch(input), valueAttr.FindStringSubmatch(input)
		if name != nil && value != nil {
			values.Add(html.UnescapeString(name[1]), html.UnescapeString(value[1]))
		}
	}
	return action, values
}

// fill sends the form of the page with some fields filled in.
func (a *agent) fill(list ...string) *agent {
	a.Helper()
	action, values := a.fields()
	if action == "" {
		a.Fatalf("there is no form at %s: %d %s", a.at, a.got.Status, a.got.Text)
	}
	for i := 0; i < len(list); i += 2 {
		values.Set(list[i], list[i+1])
	}
	return a.send(http.MethodPost, action, values)
}

// signIn goes through the pages for name and password, from the first one.
func (a *agent) signIn(name string) *agent {
	a.Helper()
	if a.at.Path == "/login" {
		a.fill("loginName", a.users[name].LoginName)
	}
	if a.at.Path != "/login/password" {
		a.Fatalf("not at the password: %s %d %s", a.at, a.got.Status, a.got.Text)
	}
	return a.fill("password", password)
}

// result returns the parameters that the page sends to the client: in a redirect or
// in a form. It is nil when it sends nothing.
func (a *agent) result() url.Values {
	a.Helper()
	location := a.got.Header.Get("Location")
	if location == "" {
		action, values := a.fields()
		if a.got.Status == http.StatusOK && strings.Contains(action, "app.example") {
			return values
		}
		return nil
	}
	to, err := url.Parse(location)
	if err != nil {
		a.Fatal(err)
	}
	query := to.RawQuery
	if to.Fragment != "" {
		query = to.EscapedFragment()
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		a.Fatal(err)
	}
	return values
}

const (
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	callback = "https://app.example/cb"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// request returns the parameters of a good authorization request of an app, with
// changes; "-" takes one away.
func (s *side) request(app string, changes ...string) url.Values {
	s.Helper()
	known := s.apps[app]
	if known.ID == "" {
		s.Fatalf("there is no app %q", app)
	}
	values := pairs("client_id", known.ClientID, "redirect_uri", known.RedirectURIs[0], "response_type", "code", "scope", "openid", "state", "st")
	switch app {
	case "spa", "native":
		values.Set("code_challenge", challengeOf(verifier))
		values.Set("code_challenge_method", "S256")
	case "implicit":
		values.Set("response_type", "id_token token")
		values.Set("nonce", "n-1")
	}
	for i := 0; i < len(changes); i += 2 {
		values.Set(changes[i], changes[i+1])
		if changes[i+1] == "-" {
			values.Del(changes[i])
		}
	}
	return values
}

// authorize sends an authorization request and returns what the client gets of it; the user
// lets it act at the resource API, if it asks for that.
func (a *agent) authorize(app string, changes ...string) url.Values {
	a.Helper()
	a.open(authorizePath + "?" + a.request(app, changes...).Encode())
	if a.at.Path == consentPath {
		a.fill()
	}
	return a.result()
}

const consentPath = "/login/consent"

// code returns a code for an app.
func (a *agent) code(app string, changes ...string) string {
	a.Helper()
	got := a.authorize(app, changes...)
	if got.Get("code") == "" {
		a.Fatalf("no code for %s %v: %d %v %s", app, changes, a.got.Status, got, a.got.Text)
	}
	return got.Get("code")
}

// redemption is the form that redeems a code of request.
func (s *side) redemption(app, code string) url.Values {
	values := pairs("grant_type", "authorization_code", "code", code, "redirect_uri", s.apps[app].RedirectURIs[0])
	if app == "spa" || app == "native" {
		values.Set("code_verifier", verifier)
	}
	return values
}

// redeem redeems a code as the app it was issued to.
func (s *side) redeem(app, code string) *answer {
	s.Helper()
	return s.as(app, tokenPath, s.redemption(app, code))
}

// tokens gets tokens for an app by a code. offline_access brings a refresh token.
func (a *agent) tokens(app, scope string) *answer {
	a.Helper()
	got := a.redeem(app, a.code(app, "scope", scope))
	a.granted("code of "+app, got)
	return got
}

func (s *side) refresh(app, token string, more ...string) *answer {
	s.Helper()
	return s.as(app, tokenPath, pairs(append([]string{"grant_type", "refresh_token", "refresh_token", token}, more...)...))
}

// service gets a token of a service user by its secret.
func (s *side) service(name, scope string) *answer {
	s.Helper()
	return s.form(tokenPath, pairs("grant_type", "client_credentials", "scope", scope), basic(name, s.users[name].Secret))
}

// claims returns those of a JWT, and its header, unverified.
func claims(jwt string) (header, body map[string]any) {
	for i, part := range strings.SplitN(jwt, ".", 3)[:2] {
		text, _ := base64.RawURLEncoding.DecodeString(part)
		into := map[string]any{}
		_ = json.Unmarshal(text, &into) // what is none has no claims
		if i == 0 {
			header = into
		} else {
			body = into
		}
	}
	return header, body
}

// signed makes a JWT.
func signed(key *ecdsa.PrivateKey, header, body map[string]any) string {
	input := segment(header) + "." + segment(body)
	return input + "." + base64.RawURLEncoding.EncodeToString(signature(key, input))
}

func segment(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// signature is ES256 (RFC 7518, section 3.4).
func signature(key *ecdsa.PrivateKey, input string) []byte {
	hash := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, hash[:])
	if err != nil {
		panic(err)
	}
	both := make([]byte, 64)
	r.FillBytes(both[:32])
	s.FillBytes(both[32:])
	return both
}

// keyFor is the private key of an app or a service user.
func keyFor(name string) *ecdsa.PrivateKey {
	if name == "jwt2" || name == "jwtrobot" {
		return keys()[1]
	}
	return keys()[0]
}

// assertion makes a good assertion of an app or a service user, with changes of its
// claims; nil takes one away.
func (s *side) assertion(name string, changes map[string]any) string {
	id := s.apps[name].ClientID
	if id == "" {
		id = s.users[name].ID
	}
	now := s.now().Unix()
	body := map[string]any{"iss": id, "sub": id, "aud": s.issuer, "iat": now, "exp": now + 300, "jti": newID()}
	for claim, value := range changes {
		body[claim] = value
		if value == nil {
			delete(body, claim)
		}
	}
	return signed(keyFor(name), map[string]any{"alg": "ES256", "kid": s.keyIDs[name]}, body)
}

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newListener starts a server that nobody should call, and returns its address.
func newListener(t *testing.T, called chan<- struct{}) string {
	listener := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called <- struct{}{} }))
	t.Cleanup(listener.Close)
	return listener.URL
}

// malleated returns a JWT with the other signature that ECDSA has for the same text
// (s and its negation).
func malleated(jwt string) string {
	at := strings.LastIndexByte(jwt, '.')
	raw, err := base64.RawURLEncoding.DecodeString(jwt[at+1:])
	if err != nil || len(raw) != 64 {
		panic("not ES256")
	}
	s := new(big.Int).SetBytes(raw[32:])
	s.Sub(elliptic.P256().Params().N, s)
	s.FillBytes(raw[32:])
	return jwt[:at+1] + base64.RawURLEncoding.EncodeToString(raw)
}
