package oidc

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// pkceVerifier redeems a code with a verifier that does not fit its challenge
// (RFC 7636 §4.6), "" for none. That the code is not used up is nobody's rule.
func pkceVerifier(kind string) func(*run) {
	return func(r *run) {
		q := r.request()
		r.prove(q)
		want := []string{"invalid_grant"}
		if kind == "short" { // 43 characters are the least (§4.1)
			q.verifier = "short"
			q.with("code_challenge", challenge(q.verifier))
			want = append(want, "invalid_request")
		}
		a := r.send(q)
		if kind == "short" && a.client && r.delivered(q, a, r.mode()).Has("error") {
			return // a challenge cannot show it, but who refuses is right too
		}
		f := r.accept(q, a)
		switch kind {
		case "wrong":
			f.verifier = longText(128)
		case "":
			f.verifier = ""
			want = append(want, "invalid_request")
		}
		r.tokenError(r.tokenRequest(f.client, f.codeForm()), want...)
	}
}

// pkceDowngrade: a verifier for a code without a challenge means that somebody
// took the challenge away (RFC 9700 §4.8.2).
func pkceDowngrade(r *run) {
	f := r.authorize(r.request())
	f.verifier = longText(128)
	r.tokenError(r.tokenRequest(f.client, f.codeForm()), "invalid_grant", "invalid_request")
}

// pkceRequired: a public client has nothing else (RFC 9700 §2.1.1).
func pkceRequired(r *run) {
	q := r.request().without("code_challenge").without("code_challenge_method")
	a := r.send(q)
	if !a.client {
		r.errorPage(a, "code_challenge", "pkce", "proof key")
		return
	}
	r.refused(q, a, r.mode(), "invalid_request")
}

func pkcePlain(r *run) {
	q := r.request()
	q.with("code_challenge", q.verifier).with("code_challenge_method", "plain")
	a := r.send(q)
	if !a.client {
		r.errorPage(a, "code_challenge", "pkce", "plain")
		return
	}
	r.refused(q, a, r.mode(), "invalid_request")
}

// other returns another client than the module's.
func (r *run) other(role string) *Client {
	c := r.suite.config.Clients[role]
	if c == nil {
		r.skip("no client is configured as %q", role)
	}
	return c
}

// codeOfAnotherClient: who redeems a code is who asked for it (RFC 6749 §4.1.3).
func codeOfAnotherClient(r *run) {
	second := r.other(roleSecond)
	f := r.authorize(r.request())
	r.tokenError(r.tokenRequest(second, f.codeForm()), "invalid_grant")
}

func codeOfAnotherRedirectURI(r *run) {
	f := r.authorize(r.request())
	for _, uri := range []string{f.client.RedirectURI + "/", f.client.RedirectURI + "?a=b", ""} {
		form := f.codeForm()
		form.Set("redirect_uri", uri)
		if uri == "" {
			form.Del("redirect_uri")
		}
		r.tokenError(r.tokenRequest(f.client, form), "invalid_grant", "invalid_request")
	}
}

// codeReuseRevokes is the end of oidcc-codereuse-30seconds without the wait, and
// with the refresh token.
func codeReuseRevokes(r *run) {
	f := r.complete(r.offline(r.request()))
	r.tokenError(r.tokenRequest(f.client, f.codeForm()), "invalid_grant")
	if a := r.call(http.MethodGet, r.meta.text("userinfo_endpoint"), bearer(f), nil); a.status != http.StatusUnauthorized {
		r.fail("userinfo answered %d to the access token of a code that was used twice, want 401", a.status)
	}
	if f.refreshToken != "" {
		r.tokenError(r.tokenRequest(f.client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refreshToken}}), "invalid_grant")
	}
}

// codeRace: of many who redeem a code at the same time one gets something.
func codeRace(r *run) {
	f := r.authorize(r.request())
	answers := make([]answer, 6)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			// Apart from the module, whose methods are for one goroutine.
			each := &run{variant: r.variant, ctx: r.ctx, suite: r.suite, client: r.client, meta: r.meta, log: r.log}
			each.execute(func(each *run) { answers[i] = each.tokenRequest(f.client, f.codeForm()) })
		})
	}
	all.Wait()
	good := 0
	for _, a := range answers {
		if a.status == http.StatusOK {
			good++
		}
	}
	if good > 1 {
		r.fail("%d of %d requests at the same time redeemed the code", good, len(answers))
	}
}

// tokenHeaders: tokens and errors are nobody else's (RFC 6749 §5.1).
func tokenHeaders(r *run) {
	f := r.authorize(r.request())
	a := r.tokenRequest(f.client, f.codeForm())
	r.takeTokens(f, a)
	if !a.noStore() {
		r.fail("Cache-Control of the token response is %q, want no-store", a.header.Get("Cache-Control"))
	}
	if a.kind() != "application/json" {
		r.fail("the token response has the type %q, want application/json", a.header.Get("Content-Type"))
	}
	a = r.tokenRequest(f.client, url.Values{"grant_type": {"authorization_code"}, "code": {"wrong"}, "redirect_uri": {f.client.RedirectURI}})
	if !a.noStore() {
		r.warn("Cache-Control of a token error is %q, want no-store", a.header.Get("Cache-Control"))
	}
}

// tokenRefusals are the errors of RFC 6749 §5.2 and what each is for.
func tokenRefusals(r *run) {
	grant := func(kind string, more ...string) url.Values {
		form := url.Values{"grant_type": {kind}}
		for i := 0; i < len(more); i += 2 {
			form.Add(more[i], more[i+1])
		}
		return form
	}
	uri := r.client.RedirectURI
	for _, test := range []struct {
		what string
		form url.Values
		want []string
	}{
		{"no grant type", url.Values{"code": {"x"}}, []string{"invalid_request"}},
		{"an unknown grant type", grant("urn:example:nothing"), []string{"unsupported_grant_type"}},
		{"the implicit flow is no grant type", grant("implicit"), []string{"unsupported_grant_type", "unauthorized_client"}},
		{"the password grant", grant("password", "username", "u", "password", "p"), []string{"unsupported_grant_type"}},
		{"no code", grant("authorization_code", "redirect_uri", uri), []string{"invalid_request"}},
		{"an unknown code", grant("authorization_code", "redirect_uri", uri, "code", "wrong"), []string{"invalid_grant"}},
		{"a code with a zero byte", grant("authorization_code", "redirect_uri", uri, "code", "a\x00b"), []string{"invalid_grant", "invalid_request"}},
		{"a parameter twice", grant("authorization_code", "redirect_uri", uri, "code", "a", "code", "b"), []string{"invalid_request"}},
		{"no refresh token", grant("refresh_token"), []string{"invalid_request"}},
		{"an unknown refresh token", grant("refresh_token", "refresh_token", "wrong"), []string{"invalid_grant"}},
	} {
		before := len(r.findings)
		r.tokenError(r.tokenRequest(r.client, test.form), test.want...)
		if len(r.findings) > before {
			r.info("that was: %s", test.what)
		}
	}
	c := *r.client
	c.ClientID = "no-such-client"
	r.clientError(r.tokenRequest(&c, grant("authorization_code", "redirect_uri", uri, "code", "x")), "invalid_client")
}

// tokenByGet: a token request is a POST (RFC 6749 §3.2), so that nothing of it
// gets into logs.
func tokenByGet(r *run) {
	f := r.authorize(r.request())
	header, form := http.Header{}, f.codeForm()
	r.authenticate(f.client, f.client.auth, header, form)
	a := r.call(http.MethodGet, r.meta.text("token_endpoint")+"?"+form.Encode(), header, nil)
	if a.status < 400 || a.status > 499 {
		r.fail("the token endpoint answered %d to a GET, want 4xx", a.status)
	}
	a = r.call(http.MethodPost, r.meta.text("token_endpoint")+"?"+form.Encode(), header, url.Values{})
	if a.status == http.StatusOK {
		r.fail("the token endpoint takes parameters from the query (RFC 6749 §3.2)")
	}
}

// refreshRotation: who presents a refresh token that was replaced is the thief
// or the victim, and nobody knows which: all that came of it ends (RFC 9700
// §4.14.2).
func refreshRotation(r *run) {
	f := r.complete(r.offline(r.request()))
	if f.refreshToken == "" {
		r.skip("the provider issued no refresh token")
	}
	old := f.refreshToken
	r.refresh(f, "")
	if f.refreshToken == old {
		r.skip("the provider does not rotate the refresh tokens of confidential clients")
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old}}
	r.tokenError(r.tokenRequest(f.client, form), "invalid_grant")
	form.Set("refresh_token", f.refreshToken)
	r.tokenError(r.tokenRequest(f.client, form), "invalid_grant")
	if a := r.call(http.MethodGet, r.meta.text("userinfo_endpoint"), bearer(f), nil); a.status != http.StatusUnauthorized {
		r.warn("userinfo answered %d to an access token whose refresh token was used twice, want 401", a.status)
	}
}

// refreshScope: a refresh may narrow the scope, never widen it (RFC 6749 §6).
func refreshScope(r *run) {
	f := r.complete(r.offline(r.request()))
	if f.refreshToken == "" {
		r.skip("the provider issued no refresh token")
	}
	a := r.tokenRequest(f.client, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {f.refreshToken}, "scope": {f.params["scope"] + " email"},
	})
	if a.status != http.StatusOK {
		r.tokenError(a, "invalid_scope")
		return
	}
	tokens := r.tokenAnswer(a)
	if slices.Contains(strings.Fields(text(tokens, "scope")), "email") {
		r.fail("a refresh widened the scope to %q", tokens["scope"])
	}
	f.accessToken = text(tokens, "access_token")
	if _, ok := r.userinfo(f)["email"]; ok {
		r.fail("after a refresh with a wider scope userinfo tells the email")
	}
}

// refreshWithoutClient: a refresh token alone is worth nothing.
func refreshWithoutClient(r *run) {
	f := r.complete(r.offline(r.request()))
	if f.refreshToken == "" {
		r.skip("the provider issued no refresh token")
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {f.refreshToken}}
	want := []string{"invalid_client", "invalid_grant", "invalid_request"}
	r.clientError(r.call(http.MethodPost, r.meta.text("token_endpoint"), nil, form), want...)
	r.clientError(r.asClient(f.client, authNone, "token_endpoint", form), want...)
}

// codeLifetime: a minute is more than a redirect takes (FAPI 2.0 Security Profile
// §5.3.2.1).
func codeLifetime(r *run) {
	f := r.authorize(r.request())
	r.wait(62 * time.Second)
	r.tokenError(r.tokenRequest(f.client, f.codeForm()), "invalid_grant")
}
