package oidc

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
)

// server is the whole flow, with a close look at what it issues.
func server(r *run) {
	f := r.complete(r.request())
	if r.codeFlow() {
		r.checkStrength("the code", f.code)
		if _, ok := f.tokens["expires_in"]; !ok {
			r.warn("the token response has no expires_in")
		}
	}
	for _, t := range []*jwt{f.front, f.back} {
		if t == nil {
			continue
		}
		if f.accessToken != "" {
			r.checkHash(t, "at_hash", f.accessToken, t == f.front)
		}
		if f.code != "" {
			r.checkHash(t, "c_hash", f.code, false)
		}
		r.checkSlim(t)
	}
}

// alternateHappyFlow sends the scopes and the parameters in another order.
func alternateHappyFlow(r *run) {
	q := r.request().with("scope", "email openid")
	q.reversed = true
	r.scopeFlow(q, []string{"email"})
}

func validPKCE(r *run) {
	q := r.request()
	r.prove(q)
	r.complete(q)
}

// withParameter runs the flow with a parameter that must not break it.
func withParameter(name, value string) func(*run) {
	return func(r *run) { r.complete(r.request().with(name, value)) }
}

func loginHint(r *run) {
	issuer, _ := url.Parse(r.meta.text("issuer")) // setup has parsed it
	withParameter("login_hint", cmp.Or(r.suite.config.LoginHint, "buffy@"+issuer.Hostname()))(r)
}

func uiLocales(r *run) {
	withParameter("ui_locales", cmp.Or(r.suite.config.UILocales, "se"))(r)
}

// acrValues asks for every class that the provider says it has.
func acrValues(r *run) {
	values, ok := r.meta.list("acr_values_supported")
	if !ok || len(values) == 0 {
		values = []string{"1", "2"}
	}
	f := r.complete(r.request().with("acr_values", strings.Join(values, " ")))
	for _, t := range []*jwt{f.front, f.back} {
		if t != nil && !slices.Contains(values, text(t.claims, "acr")) {
			r.warn("ID token: acr is %v, want one of %v", t.claims["acr"], values)
		}
	}
}

// postRequest sends the authorization request as a form (§3.1.2.1).
func postRequest(r *run) {
	q := r.request()
	q.post = true
	a := r.send(q)
	if !a.client {
		r.warn("a POST to the authorization endpoint ended on a page (%s: status %d, %s)", a.at.Path, a.page.status, brief(a.page.words()))
		r.done()
	}
	r.finish(r.accept(q, a))
}

func withoutNonceSucceeds(r *run) { r.authorize(r.request().without("nonce")) }

// withoutNonceFails: nonce is required where an ID token comes by the front
// channel (§3.2.2.1).
func withoutNonceFails(r *run) {
	q := r.request().without("nonce")
	a := r.send(q)
	if !a.client {
		r.errorPage(a, "nonce")
		return
	}
	r.refused(q, a, r.mode(), "invalid_request")
}

// responseTypeMissing: without a response type the response mode is query,
// unless the request says otherwise.
func responseTypeMissing(r *run) {
	q := r.request().without("response_type")
	a := r.send(q)
	if !a.client {
		r.errorPage(a, "response_type", "response type")
		return
	}
	mode := "query"
	if r.formPost {
		mode = "form_post"
	}
	r.refused(q, a, mode, "invalid_request", "unsupported_response_type")
}

// registeredRedirectURI: a URI below the registered one is not registered
// (§3.1.2.1 wants an exact match).
func registeredRedirectURI(r *run) {
	q := r.request()
	q.with("redirect_uri", q.client.RedirectURI+"/"+randomText(10, alphanumerics))
	r.errorPage(r.send(q), "redirect")
}

// requestObject moves the parameters of q into an unsigned request object; those
// that OAuth requires stay outside too (§6.1).
func (r *run) requestObject(q *request) *request {
	inside, outside := map[string]any{}, map[string]string{}
	for name, value := range q.params {
		inside[name] = value
		if slices.Contains([]string{"client_id", "redirect_uri", "response_type", "scope"}, name) {
			outside[name] = value
		}
	}
	outside["request"] = r.unsigned(inside)
	return &request{client: q.client, params: outside, hands: q.hands}
}

// wantUnsigned skips the module when the provider says that it takes only
// signed request objects.
func (r *run) wantUnsigned() {
	if list, ok := r.meta.list("request_object_signing_alg_values_supported"); ok && !slices.Contains(list, "none") {
		r.skip("request_object_signing_alg_values_supported does not list none")
	}
}

// unsignedRequestObject: a request object is either honoured or refused, never
// overlooked (§3.1.2.6, §6.1).
func unsignedRequestObject(r *run) {
	r.wantUnsigned()
	q := r.request()
	a := r.send(r.requestObject(q))
	r.notSupported(q, a, "request_not_supported")
	r.finish(r.accept(q, a))
	if r.meta.members["request_parameter_supported"] != true {
		r.warn("discovery: request_parameter_supported is not true, but request is supported")
	}
}

// notSupported skips the module when the client was told that the provider does
// not support what q did.
func (r *run) notSupported(q *request, a *arrival, code string) {
	if !a.client {
		return
	}
	if response := r.delivered(q, a, r.mode()); response.Get("error") == code {
		r.refusal(a, response, code)
		r.skip("the provider answers %s", code)
	}
}

// requestObjectWithRedirectURI: the parameter in the object wins over the one
// outside, which is not registered.
func requestObjectWithRedirectURI(r *run) {
	r.wantUnsigned()
	q := r.request()
	outer := r.requestObject(q)
	outer.with("redirect_uri", q.client.RedirectURI+"_invalid")
	a := r.send(outer)
	if !a.client {
		r.errorPage(a, "redirect")
		return
	}
	r.finish(r.accept(q, a))
}
