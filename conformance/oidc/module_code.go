package oidc

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// codeReuse: a code is good for one time (RFC 6749 §4.1.2).
func codeReuse(r *run) {
	f := r.complete(r.request())
	a := r.tokenRequest(f.client, f.codeForm())
	if a.status == http.StatusOK {
		r.warn("the token endpoint took the code a second time")
		return
	}
	r.tokenError(a, "invalid_grant")
}

// codeReuse30Seconds also wants the first tokens revoked, since who came second
// may have been the honest one.
func codeReuse30Seconds(r *run) {
	f := r.complete(r.request())
	r.wait(30 * time.Second)
	r.tokenError(r.tokenRequest(f.client, f.codeForm()), "invalid_grant")
	a := r.call(http.MethodGet, r.meta.text("userinfo_endpoint"), bearer(f), nil)
	if a.status < 400 || a.status > 499 {
		r.warn("userinfo answered %d to the access token of a code that was used twice, want 4xx: it should be revoked", a.status)
	}
}

// refreshToken refreshes for two clients and checks that a refresh token is
// bound to its client (RFC 6749 §6, §10.4).
func refreshToken(r *run) {
	second := r.suite.config.Clients[roleSecond]
	if second == nil {
		r.skip("no client is configured as %q", roleSecond)
	}
	q := r.offline(r.request())
	first := r.complete(q)
	r.wantRefreshToken(first)
	r.refresh(first, q.params["scope"])

	q = r.offline(r.requestOf(second)).with("nonce", longText(43))
	other := r.complete(q)
	r.wantRefreshToken(other)
	r.refresh(other, "")
	r.tokenError(r.tokenRequest(first.client, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {other.refreshToken},
	}), "invalid_grant")
}

// offline asks for a refresh token (OpenID Connect Core 1.0 §11).
func (r *run) offline(q *request) *request {
	if r.meta.supports("scopes_supported", "offline_access") {
		q.with("scope", "openid offline_access").with("prompt", "consent")
	}
	return q
}

func (r *run) wantRefreshToken(f *flow) {
	claimed := r.meta.supports("grant_types_supported", "refresh_token")
	if f.refreshToken == "" {
		if claimed {
			r.warn("discovery: grant_types_supported lists refresh_token, but there was none")
		}
		r.skip("the provider issued no refresh token")
	}
	if !claimed {
		r.warn("discovery: grant_types_supported does not list refresh_token, but there was one")
	}
	if strings.ContainsFunc(f.refreshToken, func(c rune) bool { return c < 0x20 || c > 0x7E }) {
		r.fail("the refresh token has characters beyond printable ASCII")
	}
}

// refresh uses the refresh token of f, which then has what came of it.
func (r *run) refresh(f *flow, scope string) {
	r.wait(time.Second) // an ID token that is issued now has another iat
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refreshToken}}
	if scope != "" {
		form.Set("scope", scope)
	}
	a := r.tokenRequest(f.client, form)
	tokens := r.tokenAnswer(a)
	if a.kind() != "application/json" {
		r.fail("the refresh response has the type %q, want application/json", a.header.Get("Content-Type"))
	}
	if !a.noStore() {
		r.fail("Cache-Control of the refresh response is %q, want no-store (RFC 6749 §5.1)", a.header.Get("Cache-Control"))
	}
	access := text(tokens, "access_token")
	if kind := text(tokens, "token_type"); !strings.EqualFold(kind, "Bearer") {
		r.fail("token_type is %q, want Bearer", kind)
	}
	if bits := entropy(access); bits <= 96 {
		r.fail("the access token has about %.0f bits of entropy, want more than 96", bits)
	}
	if strings.ContainsFunc(access, func(c rune) bool { return c < 0x20 || c > 0x7E }) {
		r.fail("the access token has characters beyond printable ASCII")
	}
	if _, ok := tokens["expires_in"]; !ok {
		r.warn("the refresh response has no expires_in")
	}
	if access == f.accessToken {
		r.info("the access token is the one from before")
	}
	f.accessToken, f.tokenType, f.tokens = access, text(tokens, "token_type"), tokens
	if next := text(tokens, "refresh_token"); next != "" {
		r.checkStrength("the new refresh token", next)
		f.refreshToken = next
	}
	if raw := text(tokens, "id_token"); raw != "" {
		r.refreshedIDToken(f.idToken(), raw)
	}
	r.ping(f)
}

// refreshedIDToken compares with the first one (OpenID Connect Core 1.0 §12.2).
func (r *run) refreshedIDToken(first *jwt, raw string) {
	t, err := parseJWT(raw)
	if err != nil {
		r.stop("the refreshed ID token: %v", err)
	}
	if err := r.keys.verify(t); err != nil {
		r.fail("the refreshed ID token: %v", err)
	}
	for _, name := range []string{"iss", "sub", "azp"} {
		if t.claims[name] != first.claims[name] {
			r.fail("the refreshed ID token: %s was %v and is %v", name, first.claims[name], t.claims[name])
		}
	}
	if a, b := audience(first.claims["aud"]), audience(t.claims["aud"]); !slices.Equal(a, b) {
		r.fail("the refreshed ID token: aud was %v and is %v", a, b)
	}
	if t.claims["iat"] == first.claims["iat"] {
		r.fail("the refreshed ID token has the iat of the first one")
	}
	if at, ok := t.claims["auth_time"]; ok && at != first.claims["auth_time"] {
		r.fail("the refreshed ID token: auth_time was %v and is %v", first.claims["auth_time"], at)
	}
}
