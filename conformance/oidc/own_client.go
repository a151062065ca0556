package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// clientAuth runs the flow of a client, then shows that the client cannot
// authenticate in any other way than its own (OpenID Connect Core 1.0 §9: one
// method is registered).
func clientAuth(own string) func(*run) {
	return func(r *run) {
		r.complete(r.request())
		for _, method := range []string{authBasic, authPost, authNone} {
			if method == own {
				continue
			}
			f := r.authorize(r.request())
			c := *r.client
			if c.ClientSecret == "" {
				c.ClientSecret = "a-secret-that-the-client-does-not-have"
			}
			r.clientError(r.asClient(&c, method, "token_endpoint", f.codeForm()), "invalid_client")
		}
		if r.client.ClientSecret == "" {
			return
		}
		f := r.authorize(r.request())
		c := *r.client
		c.ClientSecret += "x"
		r.clientError(r.tokenRequest(&c, f.codeForm()), "invalid_client")
	}
}

// twoMethods: a client authenticates in one way in a request (RFC 6749 §2.3).
func twoMethods(r *run) {
	f := r.authorize(r.request())
	form := f.codeForm()
	form.Set("client_id", r.client.ClientID)
	form.Set("client_secret", r.client.ClientSecret)
	a := r.tokenRequest(r.client, form)
	r.clientError(a, "invalid_request", "invalid_client")
}

// challengeOn401: who tried Basic is told the scheme (RFC 6749 §5.2).
func challengeOn401(r *run) {
	c := *r.client
	c.ClientSecret = "wrong-" + randomText(20, alphanumerics)
	a := r.asClient(&c, authBasic, "token_endpoint", url.Values{"grant_type": {"authorization_code"}, "code": {"x"}, "redirect_uri": {c.RedirectURI}})
	if a.status != http.StatusUnauthorized {
		r.fail("the token endpoint answered %d to a wrong Basic header, want 401 (RFC 6749 §5.2)", a.status)
	}
	r.tokenErrorOf(a, "invalid_client")
	if !strings.HasPrefix(strings.ToLower(a.header.Get("WWW-Authenticate")), "basic") {
		r.fail("WWW-Authenticate is %q, want the scheme Basic (RFC 6749 §5.2)", a.header.Get("WWW-Authenticate"))
	}
}

// assertionForTokenEndpoint: OpenID Connect Core 1.0 §9 names the URL of the token
// endpoint as the audience. That lets another server use what it was sent, so the
// successor of RFC 7523 wants the issuer; refusing the URL is as good as taking it.
func assertionForTokenEndpoint(r *run) {
	f := r.authorize(r.request())
	form := f.codeForm()
	r.addAssertion(form, r.assertion(r.client, map[string]any{"aud": r.meta.text("token_endpoint")}))
	a := r.call(http.MethodPost, r.meta.text("token_endpoint"), nil, form)
	if a.status != http.StatusOK {
		r.clientError(a, "invalid_client")
		r.info("the token endpoint does not take its URL as the audience of a client assertion")
		return
	}
	r.takeTokens(f, a)
}

// badAssertions: RFC 7523 §3 says what an assertion has to have.
func badAssertions(r *run) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		r.stop("%v", err)
	}
	now := time.Now().Unix()
	claims := func() map[string]any {
		return map[string]any{
			"iss": r.client.ClientID, "sub": r.client.ClientID, "aud": r.meta.text("issuer"),
			"jti": randomText(32, alphanumerics), "iat": now, "exp": now + 60,
		}
	}
	foreign := r.sign(map[string]any{"kid": r.client.keyID}, claims(), other)
	unknownKey := r.sign(map[string]any{"kid": "no-such-key"}, claims(), r.client.key)
	critical := r.sign(map[string]any{"kid": r.client.keyID, "crit": []string{"b65"}, "b65": false}, claims(), r.client.key)
	for what, assertion := range map[string]string{
		"another audience":            r.assertion(r.client, map[string]any{"aud": "https://elsewhere.example"}),
		"no audience":                 r.assertion(r.client, map[string]any{"aud": nil}),
		"no sub":                      r.assertion(r.client, map[string]any{"sub": nil}),
		"another sub":                 r.assertion(r.client, map[string]any{"sub": "somebody"}),
		"another iss":                 r.assertion(r.client, map[string]any{"iss": "somebody"}),
		"no exp":                      r.assertion(r.client, map[string]any{"exp": nil}),
		"an exp five minutes ago":     r.assertion(r.client, map[string]any{"exp": now - 300, "iat": now - 360, "nbf": now - 360}),
		"an nbf far in the future":    r.assertion(r.client, map[string]any{"nbf": now + 3600, "exp": now + 7200}),
		"alg none":                    r.unsigned(claims()),
		"a MAC with the public id":    r.sign(map[string]any{"kid": r.client.keyID}, claims(), []byte(r.client.ClientID)),
		"the signature of a stranger": foreign,
		"an unknown kid":              unknownKey,
		"an unknown crit":             critical,
		"no JWT at all":               "no.jwt",
	} {
		f := url.Values{"grant_type": {"authorization_code"}, "code": {"x"}, "redirect_uri": {r.client.RedirectURI}}
		r.addAssertion(f, assertion)
		before := len(r.findings)
		r.clientError(r.call(http.MethodPost, r.meta.text("token_endpoint"), nil, f), "invalid_client", "invalid_request")
		if len(r.findings) > before {
			r.info("that was a client assertion with %s", what)
		}
	}
}

// replayedAssertion: an assertion is good for one time (OpenID Connect Core 1.0
// §9: the jti).
func replayedAssertion(r *run) {
	assertion := r.assertion(r.client, nil)
	f := r.authorize(r.request())
	form := f.codeForm()
	r.addAssertion(form, assertion)
	r.takeTokens(f, r.call(http.MethodPost, r.meta.text("token_endpoint"), nil, form))

	form = r.authorize(r.request()).codeForm()
	r.addAssertion(form, assertion)
	a := r.call(http.MethodPost, r.meta.text("token_endpoint"), nil, form)
	r.clientError(a, "invalid_client")
}

// assertionSkew: a clock may be some seconds ahead.
func assertionSkew(r *run) {
	f := r.authorize(r.request())
	form, ahead := f.codeForm(), time.Now().Unix()+8
	r.addAssertion(form, r.assertion(r.client, map[string]any{"nbf": ahead, "iat": ahead}))
	r.takeTokens(f, r.call(http.MethodPost, r.meta.text("token_endpoint"), nil, form))
}
