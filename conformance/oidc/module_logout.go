package oidc

import (
	"net/http"
	"net/url"
	"strings"
)

// logoutModules are those of OpenID Connect RP-Initiated Logout 1.0.
func logoutModules() []module {
	const name = "oidcc-rp-initiated-logout"
	return []module{
		{name: name + "-discovery-endpoint-verification", run: logoutDiscovery, bare: true},
		{name: name, run: logout},
		{name: name + "-no-state", run: logoutWithoutState},
		{name: name + "-bad-post-logout-redirect-uri", run: badLogout(func(r *run, _ *flow, params url.Values) {
			u := r.browser.parse(nil, r.client.PostLogoutRedirectURI)
			u.Path = "/bad_post_logout_redirect_uri"
			params.Set("post_logout_redirect_uri", u.String())
		})},
		{name: name + "-query-added-to-post-logout-redirect-uri", run: badLogout(func(r *run, _ *flow, params url.Values) {
			params.Set("post_logout_redirect_uri", r.client.PostLogoutRedirectURI+"?foo=bar")
		})},
		{name: name + "-modified-id-token-hint", run: badLogout(func(r *run, f *flow, params url.Values) {
			params.Set("id_token_hint", r.unsigned(f.idToken().claims))
		})},
		{name: name + "-bad-id-token-hint", run: badLogout(func(r *run, f *flow, params url.Values) {
			params.Set("id_token_hint", r.ownHint(f))
		})},
		{name: name + "-no-id-token-hint", run: badLogout(func(_ *run, _ *flow, params url.Values) {
			params.Del("id_token_hint")
		})},
		{name: name + "-no-params", run: logoutOnPage()},
		{name: name + "-only-state", run: logoutOnPage("state")},
		{name: name + "-no-post-logout-redirect-uri", run: logoutOnPage("id_token_hint", "state")},
	}
}

func logoutDiscovery(r *run) {
	r.discover()
	r.checkHTTPS()
	if r.meta.text("end_session_endpoint") == "" {
		r.fail("discovery: no end_session_endpoint")
	}
}

// loggedIn runs the flow that every logout starts from and returns the
// parameters of a good logout.
func (r *run) loggedIn() (*flow, url.Values) {
	if r.meta.text("end_session_endpoint") == "" {
		r.stop("discovery: no end_session_endpoint")
	}
	f := r.complete(r.request().with("state", longText(128)))
	return f, url.Values{
		"id_token_hint":            {f.idToken().raw},
		"post_logout_redirect_uri": {r.client.PostLogoutRedirectURI},
		"state":                    {nastyState()},
	}
}

// nastyState has nearly every printable character: it has to survive being put
// into a query and into a confirmation form.
func nastyState() string {
	var marks strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		if !strings.ContainsRune(alphanumerics, rune(c)) && c != '+' && c != ';' {
			marks.WriteByte(c)
		}
	}
	return randomText(50, alphanumerics[:52]) + randomText(10, alphanumerics[52:]) + marks.String()
}

func (r *run) endSession(params url.Values, h hands) *arrival {
	return r.browser.get(r.meta.text("end_session_endpoint"), params.Encode(), h)
}

// wantLoggedOut checks that the browser was sent to the client and that the
// session is gone.
func (r *run) wantLoggedOut(a *arrival, state string) {
	if !a.client {
		r.stop("the browser is on a page (%s: status %d, %s), want the post_logout_redirect_uri", a.at.Path, a.page.status, brief(a.page.words()))
	}
	query := a.at.Query()
	got := *a.at
	got.RawQuery = ""
	if got.String() != r.client.PostLogoutRedirectURI {
		r.stop("the browser was sent to %s, want %s", &got, r.client.PostLogoutRedirectURI)
	}
	if query.Get("state") != state || query.Has("state") != (state != "") {
		r.fail("state came back as %q, want %q", query.Get("state"), state)
	}
	for name := range query {
		if name != "state" {
			r.warn("the post-logout redirect has the extra parameter %s", name)
		}
	}
	r.sessionGone()
}

// sessionGone checks that the provider no longer knows the user.
func (r *run) sessionGone() {
	q := r.request().with("prompt", "none").as(nobody)
	r.refused(q, r.send(q), r.mode(), interaction...)
}

func logout(r *run) {
	_, params := r.loggedIn()
	r.wantLoggedOut(r.endSession(params, leaving), params.Get("state"))
}

func logoutWithoutState(r *run) {
	_, params := r.loggedIn()
	params.Del("state")
	r.wantLoggedOut(r.endSession(params, leaving), "")
}

// badLogout makes a logout that must not end at the client: nobody vouches for
// where it goes. An error, or a logout that stays at the provider, are fine.
func badLogout(spoil func(*run, *flow, url.Values)) func(*run) {
	return func(r *run) {
		f, params := r.loggedIn()
		spoil(r, f, params)
		r.wantNoRedirect(params)
	}
}

func (r *run) wantNoRedirect(params url.Values) {
	a := r.endSession(params, nobody)
	r.notAtClient(a)
	if a.page.status >= 400 {
		r.errorPage(a, "logout", "log out", "sign out", "hint", "redirect", "session")
		if r.failed() {
			return
		}
	} else if len(strings.Fields(a.page.words())) < 3 {
		r.fail("the page says nothing a person understands: %q", a.page.words())
	}
	// Our rule: who was not asked, or refused, is still logged in.
	q := r.request().with("prompt", "none").as(nobody)
	back := r.send(q)
	if !back.client || r.delivered(q, back, r.mode()).Has("error") {
		r.warn("the session is gone after a logout that was refused or not confirmed (own rule)")
	}
	if a.page.status < 400 && a.page.confirmation(r.suite.config.User) != nil {
		r.notAtClient(r.endSession(params, leaving))
	}
}

// notAtClient ends the module when the browser was sent away.
func (r *run) notAtClient(a *arrival) {
	if a.client {
		r.stop("the browser was sent to %s, want a page of the provider", a.at)
	}
}

// ownHint is a well-formed JWT that the client made itself.
func (r *run) ownHint(f *flow) string {
	claims := map[string]any{}
	for name, value := range f.idToken().claims {
		claims[name] = value
	}
	claims["iss"], claims["aud"], claims["sub"] = r.client.ClientID, r.meta.text("issuer"), "somebody-else"
	return r.sign(nil, claims, []byte(r.client.ClientSecret))
}

// logoutOnPage logs out without a client to return to. Only the parameters named
// are sent.
func logoutOnPage(names ...string) func(*run) {
	return func(r *run) {
		_, all := r.loggedIn()
		params := url.Values{}
		for _, name := range names {
			params[name] = all[name]
		}
		a := r.endSession(params, leaving)
		r.notAtClient(a)
		if a.page.status != http.StatusOK || !a.page.isHTML() {
			r.fail("the page has status %d and the type %q, want 200 and text/html", a.page.status, a.page.header.Get("Content-Type"))
		}
		said := strings.ToLower(a.page.words())
		if !containsAny(said, "logged out", "signed out", "sign-out", "logout", "signed off", "ended") {
			r.review("does the page say that the user is logged out? It says: %s", brief(said))
		}
		r.sessionGone()
	}
}

func containsAny(s string, words ...string) bool {
	for _, word := range words {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}
