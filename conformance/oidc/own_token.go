package oidc

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// userinfoBearer holds userinfo to RFC 6750.
func userinfoBearer(r *run) {
	f := r.complete(r.request())
	endpoint := r.meta.text("userinfo_endpoint")
	if a := r.call(http.MethodGet, endpoint, http.Header{"Authorization": {"bEaReR " + f.accessToken}}, nil); a.status != http.StatusOK {
		r.fail("userinfo answered %d to the scheme bEaReR, want 200: a scheme has no case (RFC 9110 §11.1)", a.status)
	}
	a := r.call(http.MethodGet, endpoint, nil, nil)
	if a.status != http.StatusUnauthorized || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
		r.fail("userinfo without a token answered %d with the challenge %q, want 401 and Bearer (RFC 6750 §3)", a.status, a.header.Get("WWW-Authenticate"))
	}
	if strings.Contains(a.header.Get("WWW-Authenticate"), "error=") {
		r.warn("the challenge to a request without a token has an error: %s (RFC 6750 §3.1)", a.header.Get("WWW-Authenticate"))
	}
	r.badToken("a token that is none", http.Header{"Authorization": {"Bearer " + randomText(40, alphanumerics)}})
	if a := r.call(http.MethodGet, endpoint+"?"+url.Values{"access_token": {f.accessToken}}.Encode(), nil, nil); a.status < 400 || a.status > 499 {
		r.fail("userinfo answered %d to a token in the query, want 4xx (RFC 9700 §4.3.2)", a.status)
	}
	if a := r.call(http.MethodGet, endpoint, http.Header{"Authorization": {"Basic " + f.accessToken}}, nil); a.status < 400 || a.status > 499 {
		r.fail("userinfo answered %d to a token with the scheme Basic, want 4xx", a.status)
	}
}

// badToken wants the refusal of RFC 6750 §3.1.
func (r *run) badToken(what string, header http.Header) {
	a := r.call(http.MethodGet, r.meta.text("userinfo_endpoint"), header, nil)
	if a.status != http.StatusUnauthorized {
		r.fail("userinfo answered %d to %s, want 401", a.status, what)
		return
	}
	if challenge := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(challenge, "Bearer") || !strings.Contains(challenge, `error="invalid_token"`) {
		r.fail("userinfo answered %s with the challenge %q, want Bearer with error=\"invalid_token\" (RFC 6750 §3.1)", what, challenge)
	}
}

// userinfoIDToken: an ID token opens nothing, it says who somebody is.
func userinfoIDToken(r *run) {
	f := r.complete(r.request())
	r.badToken("an ID token", http.Header{"Authorization": {"Bearer " + f.idToken().raw}})
}

// userinfoTampered: one changed character, and for a JWT one without signature.
func userinfoTampered(r *run) {
	f := r.complete(r.request())
	middle := len(f.accessToken) / 2
	other := byte('A')
	if f.accessToken[middle] == other {
		other = 'B'
	}
	changed := f.accessToken[:middle] + string(other) + f.accessToken[middle+1:]
	r.badToken("a token with another character", http.Header{"Authorization": {"Bearer " + changed}})
	r.badToken("a shorter token", http.Header{"Authorization": {"Bearer " + f.accessToken[:middle]}})
	if t, err := parseJWT(f.accessToken); err == nil {
		r.badToken("a token with alg none", http.Header{"Authorization": {"Bearer " + r.unsigned(t.claims)}})
		for _, key := range r.keys.keys { // HS256 with what the provider publishes
			if n, err := base64.RawURLEncoding.DecodeString(key.text("n")); err == nil && len(n) > 0 {
				forged := r.sign(map[string]any{"kid": key.text("kid"), "typ": text(t.header, "typ")}, t.claims, n)
				r.badToken("a token with a MAC of the public key", http.Header{"Authorization": {"Bearer " + forged}})
			}
		}
	}
}

// wantEndpoint skips the module when the provider does not have an endpoint.
func (r *run) wantEndpoint(name string) {
	if r.meta.text(name) == "" {
		r.skip("discovery: no %s", name)
	}
}

// introspect asks about a token and returns a sound answer (RFC 7662 §2.2).
func (r *run) introspect(c *Client, token string) map[string]any {
	a := r.asClient(c, c.auth, "introspection_endpoint", url.Values{"token": {token}})
	members, err := parseObject(a.body)
	if a.status != http.StatusOK || err != nil {
		r.stop("introspection answered %d, %v, want 200 and an object", a.status, err)
	}
	active, ok := members["active"].(bool)
	if !ok {
		r.fail("introspection: active is %v, want a boolean", members["active"])
	}
	if !active && len(members) > 1 {
		r.fail("introspection tells more than active: false of a token that is not (RFC 7662 §2.2): %v", members)
	}
	return members
}

func introspection(r *run) {
	r.wantEndpoint("introspection_endpoint")
	f := r.complete(r.request())
	form := url.Values{"token": {f.accessToken}}
	a := r.call(http.MethodPost, r.meta.text("introspection_endpoint"), nil, form)
	if a.status != http.StatusUnauthorized && a.status != http.StatusBadRequest {
		r.fail("introspection answered %d without client authentication, want 401 (RFC 7662 §2.3)", a.status)
	}
	c := *r.client
	c.ClientSecret += "x"
	if a := r.asClient(&c, c.auth, "introspection_endpoint", form); a.status != http.StatusUnauthorized {
		r.fail("introspection answered %d to a wrong secret, want 401", a.status)
	}
	for _, token := range []string{randomText(40, alphanumerics), "", f.accessToken + "x"} {
		if token != "" && r.introspect(r.client, token)["active"] != false {
			r.fail("introspection calls a token active that is none")
		}
	}
	members := r.introspect(r.client, f.accessToken)
	if members["active"] != true {
		r.warn("introspection calls the token of the client that asks not active")
		return
	}
	for name, want := range map[string]any{"client_id": r.client.ClientID, "sub": f.idToken().claims["sub"], "iss": r.meta.text("issuer")} {
		if got, ok := members[name]; ok && got != want {
			r.fail("introspection: %s is %v, want %v", name, got, want)
		}
	}
	if scope, ok := members["scope"]; ok && !slices.Contains(strings.Fields(text(members, "scope")), "openid") {
		r.fail("introspection: scope is %v, want openid in it", scope)
	}
	if kind, ok := members["token_type"]; ok && !strings.EqualFold(text(members, "token_type"), "Bearer") {
		r.fail("introspection: token_type is %v, want Bearer", kind)
	}
	for _, name := range []string{"exp", "iat"} {
		if value, ok := members[name]; ok {
			if _, isNumber := number(value); !isNumber {
				r.fail("introspection: %s is %v, want a number", name, value)
			}
		}
	}
}

// revoke revokes a token as a client (RFC 7009 §2.1).
func (r *run) revoke(c *Client, token string) answer {
	return r.asClient(c, c.auth, "revocation_endpoint", url.Values{"token": {token}})
}

func revocation(r *run) {
	r.wantEndpoint("revocation_endpoint")
	f := r.complete(r.request())
	if a := r.call(http.MethodPost, r.meta.text("revocation_endpoint"), nil, url.Values{"token": {f.accessToken}}); a.status != http.StatusUnauthorized && a.status != http.StatusBadRequest {
		r.fail("revocation answered %d without a client, want 401", a.status)
	}
	r.ping(f)
	for _, token := range []string{randomText(40, alphanumerics), f.accessToken, f.accessToken} {
		if a := r.revoke(r.client, token); a.status != http.StatusOK {
			r.fail("revocation answered %d, want 200 also for what is unknown or revoked (RFC 7009 §2.2)", a.status)
		}
	}
	r.badToken("a revoked token", bearer(f))
	if r.meta.text("introspection_endpoint") != "" && r.introspect(r.client, f.accessToken)["active"] != false {
		r.fail("introspection calls a revoked token active")
	}
}

// revokeForeign: a token of another client stays (RFC 7009 §2.1).
func revokeForeign(r *run) {
	r.wantEndpoint("revocation_endpoint")
	second := r.other(roleSecond)
	f := r.complete(r.offline(r.request()))
	for _, token := range []string{f.accessToken, f.refreshToken} {
		if token == "" {
			continue
		}
		if a := r.revoke(second, token); a.status >= 500 {
			r.fail("revocation of another client's token answered %d", a.status)
		}
	}
	r.ping(f)
	if f.refreshToken != "" {
		r.refresh(f, "")
	}
}

// revokeRefresh: the access tokens go with their refresh token (RFC 7009 §2.1).
func revokeRefresh(r *run) {
	r.wantEndpoint("revocation_endpoint")
	f := r.complete(r.offline(r.request()))
	if f.refreshToken == "" {
		r.skip("the provider issued no refresh token")
	}
	if a := r.revoke(r.client, f.refreshToken); a.status != http.StatusOK {
		r.fail("revocation answered %d, want 200", a.status)
	}
	r.tokenError(r.tokenRequest(f.client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refreshToken}}), "invalid_grant")
	if a := r.call(http.MethodGet, r.meta.text("userinfo_endpoint"), bearer(f), nil); a.status != http.StatusUnauthorized {
		r.warn("userinfo answered %d to an access token whose refresh token is revoked, want 401", a.status)
	}
}

// tokenStrength: numbers and identifiers can be guessed.
func tokenStrength(r *run) {
	f := r.complete(r.offline(r.request()))
	r.checkStrength("the code", f.code)
	r.checkStrength("the access token", f.accessToken)
	if f.refreshToken != "" {
		r.checkStrength("the refresh token", f.refreshToken)
	}
}
