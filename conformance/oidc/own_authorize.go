package oidc

import (
	"crypto/rsa"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// idTokenSignature holds clients that did not register themselves to the default
// (OpenID Connect Core 1.0 §15.1): RS256, with a kid.
func idTokenSignature(r *run) {
	header := r.complete(r.request()).idToken().header
	if text(header, "kid") == "" || text(header, "alg") != "RS256" {
		r.fail("the ID token has the header %v, want a kid and RS256", header)
	}
}

// redirectVariants are what a comparison that is not exact would take (RFC 9700
// §4.1.3, OpenID Connect Core 1.0 §3.1.2.1).
func redirectVariants(r *run) {
	registered := r.browser.parse(nil, r.client.RedirectURI)
	change := func(f func(*url.URL)) string {
		u := *registered
		f(&u)
		return u.String()
	}
	for _, uri := range []string{
		r.client.RedirectURI + "?foo=bar",
		r.client.RedirectURI + "/",
		r.client.RedirectURI + "#fragment",
		r.client.RedirectURI + "/../callback",
		r.client.RedirectURI + "%2f..",
		r.client.RedirectURI + ".evil.example",
		r.client.RedirectURI + " https://evil.example",
		change(func(u *url.URL) { u.Path = strings.ToUpper(u.Path) }),
		change(func(u *url.URL) { u.Host = "sub." + u.Host }),
		change(func(u *url.URL) { u.User = url.User("evil") }),
		change(func(u *url.URL) { u.Scheme = "ftp" }),
		"javascript:alert(1)",
		"",
	} {
		q := r.request().with("redirect_uri", uri).as(nobody)
		a := r.send(q)
		if a.client || a.page.status < 300 || a.page.status >= 500 {
			r.fail("redirect_uri=%q was not refused: the browser is at %s", uri, a.at)
			continue
		}
		r.errorPage(a, "redirect")
	}
}

func unknownClient(r *run) {
	for _, id := range []string{"no-such-client", ""} {
		r.errorPage(r.send(r.request().with("client_id", id).as(nobody)), "client")
	}
	r.errorPage(r.send(r.request().without("client_id").as(nobody)), "client")
}

// responseTypeToken: OpenID Connect has no use for an access token alone.
func responseTypeToken(r *run) {
	q := r.request().with("response_type", "token").as(nobody)
	a := r.send(q)
	if !a.client {
		r.errorPage(a, "response_type", "response type")
		return
	}
	response := a.at.Query()
	if fragment, err := url.ParseQuery(a.at.EscapedFragment()); err == nil && len(response) == 0 {
		response = fragment
	}
	r.checkState(q, response)
	r.refusal(a, response, "unsupported_response_type", "invalid_request", "unauthorized_client")
	r.notIn(response, "response", "access_token", "code")
}

// duplicateParameter: nobody knows which of the two is meant (RFC 6749 §3.1).
func duplicateParameter(r *run) {
	for _, name := range []string{"scope", "nonce", "response_type", "redirect_uri"} {
		q := r.request().as(nobody)
		q.more = name + "=" + url.QueryEscape(q.params[name])
		a := r.send(q)
		if !a.client {
			if a.page.status < 400 {
				r.fail("a request with %s twice was not refused", name)
				continue
			}
			r.errorPage(a, name, strings.ReplaceAll(name, "_", " "), "twice", "once", "duplicate", "repeated")
			continue
		}
		r.refused(q, a, r.mode(), "invalid_request")
	}
}

// promptNoneCombined: none excludes every other value (§3.1.2.1).
func promptNoneCombined(r *run) {
	q := r.request().with("prompt", "none login").as(nobody)
	a := r.send(q)
	if !a.client {
		r.errorPage(a, "prompt")
		return
	}
	r.refused(q, a, r.mode(), "invalid_request")
}

// requestURI: a provider that says that it does not take request_uri refuses it,
// and does not fetch it (§3.1.2.6).
func requestURI(r *run) {
	if r.meta.members["request_uri_parameter_supported"] != false {
		r.skip("discovery: request_uri_parameter_supported is not false")
	}
	q := r.request().as(nobody).with("request_uri", r.client.RedirectURI+"/request.jwt")
	a := r.send(q)
	if !a.client {
		r.errorPage(a, "request_uri")
		return
	}
	r.refused(q, a, r.mode(), "request_uri_not_supported")
}

func scopeOrder(r *run) {
	f := r.complete(r.request().with("scope", "email profile openid"))
	if r.userinfo(f)["email"] == nil {
		r.fail("userinfo: no email although the scope has it")
	}
}

func withoutState(r *run) {
	q := r.request().without("state")
	f := r.complete(q)
	if f.response.Has("state") {
		r.fail("the response has state=%q, but the request had none", f.response.Get("state"))
	}
}

// longStateAndNonce: both come back whole, or the request is refused; neither is
// cut off. A nonce of 64 characters has to work.
func longStateAndNonce(r *run) {
	r.complete(r.request().with("nonce", longText(64)))
	q := r.request().with("state", longText(1000)).with("nonce", longText(384))
	a := r.send(q)
	if a.client && r.delivered(q, a, r.mode()).Has("error") {
		r.refused(q, a, r.mode(), "invalid_request")
		return
	}
	r.finish(r.accept(q, a))
}

// stateOfAllCharacters: state may have everything that prints (RFC 6749 §A.5).
func stateOfAllCharacters(r *run) {
	r.authorize(r.request().with("state", nastyState()+" +;&state=x"))
}

// promptNoneWrongHint: the user at the browser is not whom the hint is about, or
// the hint is worth nothing.
func promptNoneWrongHint(r *run) {
	f := r.complete(r.request())
	claims := map[string]any{}
	for name, value := range f.idToken().claims {
		claims[name] = value
	}
	claims["sub"] = "somebody-else"
	for _, hint := range []string{r.unsigned(claims), "no-jwt"} {
		q := r.request().with("prompt", "none").with("id_token_hint", hint).as(nobody)
		a := r.send(q)
		if !a.client {
			r.errorPage(a, "hint")
			continue
		}
		r.refused(q, a, r.mode(), append([]string{"invalid_request"}, interaction...)...)
	}
}

// userCancels: who does not want to log in goes back with access_denied
// (§3.1.2.6).
func userCancels(r *run) {
	h := user
	h.cancel = true
	q := r.request().with("state", longText(128)).as(h)
	a := r.send(q)
	if a.client && a.logins > 0 || !a.client && a.clicks == 0 {
		r.skip("the login has no button or link to cancel it")
	}
	r.refused(q, a, r.mode(), "access_denied")
}

// issuerInResponse: a client of many providers has to see which one answered
// (RFC 9207 §2), in errors too.
func issuerInResponse(r *run) {
	if r.meta.members["authorization_response_iss_parameter_supported"] != true {
		r.warn("discovery: authorization_response_iss_parameter_supported is not true (RFC 9207 §3)")
		return
	}
	f := r.authorize(r.request())
	q := r.request().with("prompt", "none").as(nobody)
	r.browser = r.newBrowser()
	a := r.send(q)
	for what, response := range map[string]url.Values{"response": f.response, "error": r.delivered(q, a, r.mode())} {
		switch {
		case response.Get("iss") == r.meta.text("issuer"):
		case !response.Has("iss") && response.Has("id_token"): // which has an iss of its own
			r.warn("the authorization response has no iss beside its ID token (RFC 9207 §2 makes no exception)")
		default:
			r.fail("iss of the authorization %s is %q, want %q", what, response.Get("iss"), r.meta.text("issuer"))
		}
	}
}

// unknownValues: these parameters are wishes; one that cannot be met is no error
// (§3.1.2.1).
func unknownValues(r *run) {
	issuer, _ := url.Parse(r.meta.text("issuer")) // setup has parsed it
	r.complete(r.request().with("display", "hologram").with("acr_values", "urn:example:unknown 1").
		with("login_hint", "nobody@"+issuer.Hostname()).with("ui_locales", "xx not_a_locale").with("claims_locales", "xx").
		with("scope", "openid urn:example:unknown"))
}

// postInSession: a form of another site brings no Lax cookies, so the user may
// have to log in again, but must not be stuck.
func postInSession(r *run) {
	first := r.complete(r.request())
	q := r.request()
	q.post = true
	r.sameUser(first, r.finish(r.accept(q, r.send(q))))
}

// slimIDToken: with an access token the claims of the scopes are at userinfo, so
// that no ID token in a URL or a log tells them (§5.4).
func slimIDToken(r *run) {
	f := r.complete(r.request().with("scope", "openid profile email phone address"))
	for scope, claims := range scopeClaims {
		for _, name := range claims {
			if _, ok := f.idToken().claims[name]; ok {
				r.fail("ID token: %s of the scope %s belongs to userinfo", name, scope)
			}
		}
	}
	r.checkSlim(f.idToken())
}

// discoveryStrength: what the provider says that it can has to be worth saying.
func discoveryStrength(r *run) {
	for _, key := range r.keys.keys {
		if public, ok := key.public.(*rsa.PublicKey); ok && public.N.BitLen() < 2048 {
			r.fail("JWKS: the RSA key %s has %d bits, want 2048 (RFC 7518 §3.3)", key.text("kid"), public.N.BitLen())
		}
	}
	methods, _ := r.meta.list("code_challenge_methods_supported")
	if !slices.Contains(methods, "S256") || slices.Contains(methods, "plain") {
		r.fail("discovery: code_challenge_methods_supported is %v, want S256 and not plain (RFC 9700 §2.1.1)", methods)
	}
	if r.meta.supports("id_token_signing_alg_values_supported", "none") {
		r.fail("discovery: id_token_signing_alg_values_supported lists none")
	}
	for _, endpoint := range []string{"token", "introspection", "revocation"} {
		name := endpoint + "_endpoint_auth_signing_alg_values_supported"
		algorithms, listed := r.meta.list(name)
		if r.meta.supports(endpoint+"_endpoint_auth_methods_supported", authJWT) && !listed {
			r.fail("discovery: %s is missing, but private_key_jwt is supported (RFC 8414 §2)", name)
		}
		if slices.Contains(algorithms, "none") {
			r.fail("discovery: %s lists none", name)
		}
	}
	if _, said := r.meta.members["request_uri_parameter_supported"]; !said {
		r.fail("discovery: request_uri_parameter_supported is missing, which means true (OpenID Connect Discovery 1.0 §3)")
	}
}

// authorizeCORS: the authorization endpoint is for navigation; no script has to
// read its answers (RFC 9700 §2.6).
func authorizeCORS(r *run) {
	a := r.call(http.MethodGet, r.meta.text("authorization_endpoint")+"?"+r.request().encode(), http.Header{"Origin": {"https://evil.example"}}, nil)
	if allowed := a.header.Get("Access-Control-Allow-Origin"); allowed != "" {
		r.fail("the authorization endpoint lets scripts of %s read its answers", allowed)
	}
}
