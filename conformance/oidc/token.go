package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// prove adds PKCE to a request (RFC 7636 §4.2). The verifier has all characters
// that a verifier may have, and the greatest length.
func (r *run) prove(q *request) {
	q.verifier = longText(128)
	q.with("code_challenge", challenge(q.verifier)).with("code_challenge_method", "S256")
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// authenticate adds a client's authentication (RFC 6749 §2.3, OpenID Connect
// Core 1.0 §9). A client with a key sends no client_id: the assertion names it.
func (r *run) authenticate(c *Client, method string, header http.Header, form url.Values) {
	switch method {
	case authBasic:
		// The two are form-encoded first (RFC 6749 §2.3.1).
		r.suite.masks.basic(c)
		pair := url.QueryEscape(c.ClientID) + ":" + url.QueryEscape(c.ClientSecret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case authPost:
		form.Set("client_id", c.ClientID)
		form.Set("client_secret", c.ClientSecret)
	case authNone:
		form.Set("client_id", c.ClientID)
	case authJWT:
		r.addAssertion(form, r.assertion(c, nil))
	}
}

func (r *run) addAssertion(form url.Values, assertion string) {
	form.Set("client_assertion", assertion)
	form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
}

// assertion returns a fresh client assertion with some claims changed; nil
// takes one away. Its audience is the issuer, which every provider has to take.
func (r *run) assertion(c *Client, changed map[string]any) string {
	if c.key == nil {
		r.stop("the client %s has no key_file", c.ClientID)
	}
	now := time.Now().Unix()
	claims := map[string]any{
		"iss": c.ClientID, "sub": c.ClientID, "aud": r.meta.text("issuer"), "jti": randomText(32, alphanumerics),
		"nbf": now, "iat": now, "exp": now + 60,
	}
	for name, value := range changed {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return r.sign(map[string]any{"kid": c.keyID}, claims, c.key)
}

// tokenRequest calls the token endpoint as a client.
func (r *run) tokenRequest(c *Client, form url.Values) answer {
	return r.asClient(c, c.auth, "token_endpoint", form)
}

// asClient calls an endpoint with a client's authentication.
func (r *run) asClient(c *Client, method, endpoint string, form url.Values) answer {
	header, full := http.Header{}, url.Values{}
	for name, values := range form {
		full[name] = slices.Clone(values)
	}
	r.authenticate(c, method, header, full)
	return r.call(http.MethodPost, r.meta.text(endpoint), header, full)
}

// codeForm is the request that redeems the code of f.
func (f *flow) codeForm() url.Values {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {f.code}, "redirect_uri": {f.client.RedirectURI}}
	if f.verifier != "" {
		form.Set("code_verifier", f.verifier)
	}
	return form
}

// exchange redeems the code of f.
func (r *run) exchange(f *flow) {
	r.takeTokens(f, r.tokenRequest(f.client, f.codeForm()))
}

var base64urlAndDots = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// takeTokens checks a token response to a code (OpenID Connect Core 1.0
// §3.1.3.3) and keeps what is in it.
func (r *run) takeTokens(f *flow, a answer) {
	f.tokens = r.tokenAnswer(a)
	f.accessToken, f.tokenType = text(f.tokens, "access_token"), text(f.tokens, "token_type")
	f.refreshToken = text(f.tokens, "refresh_token")
	if _, ok := f.tokens["expires_in"]; !ok {
		r.info("the token response has no expires_in")
	}
	raw := text(f.tokens, "id_token")
	if !base64urlAndDots.MatchString(raw) {
		r.stop("the token response has no id_token of base64url and dots: %q", raw)
	}
	f.back = r.idToken(f.request, raw)
}

// tokenAnswer checks what every token response has (RFC 6749 §5.1).
func (r *run) tokenAnswer(a answer) map[string]any {
	tokens, err := parseObject(a.body)
	if err != nil {
		r.stop("the token response (status %d): %v", a.status, err)
	}
	for _, name := range []string{"access_token", "refresh_token"} {
		r.suite.masks.token(text(tokens, name))
	}
	if a.status != http.StatusOK || tokens["error"] != nil {
		r.stop("the token endpoint answered %d, error %v: %v", a.status, tokens["error"], tokens["error_description"])
	}
	if text(tokens, "access_token") == "" || text(tokens, "token_type") == "" {
		r.stop("the token response has no access_token or no token_type")
	}
	if value, ok := tokens["expires_in"]; ok {
		if seconds, ok := number(value); !ok || seconds <= 0 || seconds > 31_536_000 {
			r.fail("expires_in is %v, want a JSON number of seconds, up to a year", value)
		}
	}
	return tokens
}

// number returns a JSON number.
func number(value any) (float64, bool) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// tokenError checks an error of the token endpoint (RFC 6749 §5.2).
func (r *run) tokenError(a answer, want ...string) {
	if a.status != http.StatusBadRequest {
		r.fail("the token endpoint answered %d, want 400 with error %s", a.status, strings.Join(want, " or "))
	}
	r.tokenErrorOf(a, want...)
}

// clientError checks the refusal of a client's authentication, which may be 401.
func (r *run) clientError(a answer, want ...string) {
	if a.status != http.StatusBadRequest && a.status != http.StatusUnauthorized {
		r.fail("the token endpoint answered %d, want 400 or 401 with error %s", a.status, strings.Join(want, " or "))
	}
	r.tokenErrorOf(a, want...)
}

func (r *run) tokenErrorOf(a answer, want ...string) {
	if a.kind() != "application/json" {
		r.fail("the error of the token endpoint has the type %q, want application/json", a.header.Get("Content-Type"))
	}
	object, err := parseObject(a.body)
	if err != nil {
		r.fail("the error of the token endpoint: %v", err)
		return
	}
	code := text(object, "error")
	if !slices.Contains(want, code) {
		r.fail("the token endpoint answered error %q (%v), want %s", code, object["error_description"], strings.Join(want, " or "))
	}
	if !isErrorText(code, false) {
		r.fail("error has a character that RFC 6749 §5.2 does not allow: %q", code)
	}
	_, hasURI := object["error_uri"]
	r.checkErrorMembers(text(object, "error_description"), text(object, "error_uri"), hasURI)
}

// checkStrength checks that a secret cannot be guessed: 128 bits of length and
// an estimated 96 bits of entropy, by how often each character occurs. Numbers
// fail it.
func (r *run) checkStrength(what, secret string) {
	if len(secret) < 16 {
		r.fail("%s has %d bytes, want at least 16", what, len(secret))
	}
	if bits := entropy(secret); bits <= 96 {
		r.fail("%s has about %.0f bits of entropy, want more than 96", what, bits)
	}
}

// entropy is Shannon's, of one character times the length.
func entropy(s string) float64 {
	counts := map[rune]float64{}
	for _, c := range s {
		counts[c]++
	}
	bits, n := 0.0, float64(len(s))
	for _, count := range counts {
		bits -= count / n * math.Log2(count/n)
	}
	return bits * n
}
