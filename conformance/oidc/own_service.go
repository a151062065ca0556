package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// service returns the client that acts for itself.
func (r *run) service() *Client {
	if r.suite.config.Service == nil {
		r.skip("no service_user is configured")
	}
	return r.suite.config.Service
}

// clientCredentials: nobody logged in, so there is nobody to identify and
// nothing to refresh (RFC 6749 §4.4.3).
func clientCredentials(r *run) {
	c := r.service()
	if c.ClientSecret == "" {
		r.skip("the service_user has no secret")
	}
	for _, method := range []string{authBasic, authPost} {
		a := r.asClient(c, method, "token_endpoint", url.Values{"grant_type": {"client_credentials"}, "scope": {"openid offline_access"}})
		r.serviceTokens(a)
	}
	wrong := *c
	wrong.ClientSecret += "x"
	r.clientError(r.tokenRequest(&wrong, url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}}), "invalid_client")
}

func (r *run) serviceTokens(a answer) map[string]any {
	tokens := r.tokenAnswer(a)
	if !a.noStore() {
		r.fail("Cache-Control of the token response is %q, want no-store", a.header.Get("Cache-Control"))
	}
	for _, name := range []string{"refresh_token", "id_token"} {
		if name == "id_token" && strings.Contains(r.log.last().requestBody, url.QueryEscape(jwtBearer)) {
			continue // which may have one
		}
		if _, ok := tokens[name]; ok {
			r.fail("a client got a %s for itself", name)
		}
	}
	r.checkStrength("the access token", text(tokens, "access_token"))
	return tokens
}

// clientCredentialsOfAnApplication: an application acts for users only, unless
// the provider let it have the grant.
func clientCredentialsOfAnApplication(r *run) {
	if r.suite.config.Service == nil {
		r.skip("no service_user is configured: the provider may give the grant to every client")
	}
	a := r.tokenRequest(r.client, url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}})
	r.clientError(a, "unauthorized_client", "invalid_client")
}

// grantClaims are those of an assertion of the service user (RFC 7523 §3).
func (r *run) grantClaims(c *Client) map[string]any {
	if c.key == nil {
		r.skip("the service_user has no key_file")
	}
	who := c.userID
	if who == "" {
		who = c.ClientID
	}
	now := time.Now().Unix()
	return map[string]any{
		"iss": who, "sub": who, "aud": r.meta.text("issuer"), "iat": now, "exp": now + 60, "jti": randomText(32, alphanumerics),
	}
}

func (r *run) grant(assertion string) answer {
	return r.call(http.MethodPost, r.meta.text("token_endpoint"), nil, url.Values{
		"grant_type": {jwtBearer}, "assertion": {assertion}, "scope": {"openid"},
	})
}

func (r *run) signGrant(c *Client, claims map[string]any) string {
	return r.sign(map[string]any{"kid": c.keyID}, claims, c.key)
}

// jwtGrant: a service user with a key gets a token, which works.
func jwtGrant(r *run) {
	c := r.service()
	claims := r.grantClaims(c)
	assertion := r.signGrant(c, claims)
	tokens := r.serviceTokens(r.grant(assertion))
	f := &flow{accessToken: text(tokens, "access_token"), tokenType: text(tokens, "token_type")}
	if sub := text(r.userinfo(f), "sub"); sub != claims["sub"] {
		r.fail("userinfo: sub is %q, want the service user %v", sub, claims["sub"])
	}
	r.tokenError(r.grant(assertion), "invalid_grant") // once more
}

// badGrants: all of them are invalid_grant (RFC 7523 §3.1).
func badGrants(r *run) {
	c := r.service()
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		r.stop("%v", err)
	}
	changed := func(name string, value any) string {
		claims := r.grantClaims(c)
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
		return r.signGrant(c, claims)
	}
	foreign := r.sign(map[string]any{"kid": c.keyID}, r.grantClaims(c), stranger)
	unknownKey := r.sign(map[string]any{"kid": "no-such-key"}, r.grantClaims(c), c.key)
	now := time.Now().Unix()
	for what, assertion := range map[string]string{
		"another audience":            changed("aud", "https://elsewhere.example"),
		"two audiences":               changed("aud", []string{r.meta.text("issuer"), "https://elsewhere.example"}),
		"no audience":                 changed("aud", nil),
		"another iss":                 changed("iss", "somebody"),
		"another sub":                 changed("sub", "somebody"),
		"no sub":                      changed("sub", nil),
		"no exp":                      changed("exp", nil),
		"an exp in the past":          changed("exp", now-120),
		"an exp in a year":            changed("exp", now+365*24*3600),
		"an iat in an hour":           changed("iat", now+3600),
		"alg none":                    r.unsigned(r.grantClaims(c)),
		"a MAC":                       r.sign(map[string]any{"kid": c.keyID}, r.grantClaims(c), []byte(c.ClientSecret)),
		"the signature of a stranger": foreign,
		"an unknown kid":              unknownKey,
		"no JWT at all":               "no.jwt",
	} {
		before := len(r.findings)
		r.tokenError(r.grant(assertion), "invalid_grant")
		if len(r.findings) > before {
			r.info("that was an assertion with %s", what)
		}
	}
	r.tokenError(r.grant(""), "invalid_request", "invalid_grant")
}
