package oidc

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

func userinfoGet(r *run) {
	f := r.complete(r.request())
	a := r.ping(f)
	r.wantJSON(a)
	r.claimsOf(f, a)
}

func userinfoPostHeader(r *run) {
	f := r.complete(r.request())
	a := r.postUserinfo(bearer(f), url.Values{})
	if a.status != http.StatusOK {
		r.fail("userinfo answered %d to a POST with the access token in the header, want 200", a.status)
	}
	r.wantJSON(a)
	r.claimsOf(f, a)
}

// userinfoPostBody: the token in the body is optional (RFC 6750 §2.2).
func userinfoPostBody(r *run) {
	f := r.complete(r.request())
	a := r.postUserinfo(nil, url.Values{"access_token": {f.accessToken}})
	if a.status < 200 || a.status > 299 {
		r.warn("userinfo answered %d to a POST with the access token in the body; this is optional", a.status)
		return
	}
	r.wantJSON(a)
	r.claimsOf(f, a)
}

func (r *run) wantJSON(a answer) {
	if a.kind() != "application/json" {
		r.fail("userinfo has the type %q, want application/json", a.header.Get("Content-Type"))
	}
}

// scope asks for the claims of scopes.
func scope(names ...string) func(*run) {
	return func(r *run) {
		r.scopeFlow(r.request().with("scope", "openid "+strings.Join(names, " ")), names)
	}
}

// scopeFlow checks that the claims of scopes are where they belong: at userinfo
// when there is an access token, else in the ID token (§5.4).
func (r *run) scopeFlow(q *request, scopes []string) {
	supported, ok := r.meta.list("scopes_supported")
	if !ok {
		r.skip("discovery: no scopes_supported")
	}
	for _, name := range append([]string{"openid"}, scopes...) {
		if !slices.Contains(supported, name) {
			r.skip("discovery: scopes_supported does not list %s", name)
		}
	}
	f := r.complete(q)
	var want []string
	for _, name := range scopes {
		want = append(want, scopeClaims[name]...)
	}
	where, claims := "ID token", f.idToken().claims
	if r.givesAccessToken() {
		where, claims = "userinfo", r.userinfo(f)
	}
	if absent := missing(claims, want); len(absent) > 0 {
		r.warn("%s: scope %s, but not the claims %s", where, strings.Join(scopes, " "), strings.Join(absent, ", "))
	}
	if len(scopes) != 1 || scopes[0] != "email" {
		return
	}
	for _, t := range []*jwt{f.front, f.back} {
		if t == nil {
			continue
		}
		if _, ok := t.claims["name"]; ok {
			r.warn("ID token: name was not asked for")
		}
		if _, ok := t.claims["email"]; ok && r.givesAccessToken() {
			r.warn("ID token: email belongs to userinfo when there is an access token (§5.4)")
		}
	}
	if _, ok := claims["name"]; ok && r.givesAccessToken() {
		r.warn("userinfo: name was not asked for")
	}
}

// claimsEssential asks for one claim by name (§5.5). The flow has to succeed
// whether the provider supports that or not.
func claimsEssential(r *run) {
	place := "userinfo"
	if !r.givesAccessToken() {
		place = "id_token"
	}
	f := r.complete(r.request().with("claims", `{"`+place+`":{"name":{"essential":true}}}`))
	claims := f.idToken().claims
	if place == "userinfo" {
		if _, ok := claims["name"]; ok {
			r.warn("ID token: name was asked for at userinfo")
		}
		claims = r.userinfo(f)
	}
	if _, ok := claims["name"]; !ok {
		r.warn("%s: name was asked for by the parameter claims and is not there", place)
	}
}
