package oidc

import (
	"net/url"
	"strings"
)

// logoutByPost: the endpoint takes forms too (RP-Initiated Logout 1.0 §2).
func logoutByPost(r *run) {
	_, params := r.loggedIn()
	a := r.browser.post(r.meta.text("end_session_endpoint"), params, leaving)
	r.wantLoggedOut(a, params.Get("state"))
}

// logoutClientID: without a hint the client_id vouches for the URI, and the user
// confirms (§3). The redirect is a may; where there is none, there is a page.
func logoutClientID(r *run) {
	_, params := r.loggedIn()
	params.Del("id_token_hint")
	params.Set("client_id", r.client.ClientID)
	a := r.endSession(params, nobody)
	if a.client { // a should of §6
		r.warn("the user was logged out by a request that every site can make, without being asked")
	} else {
		a = r.endSession(params, leaving)
	}
	if a.client {
		r.wantLoggedOut(a, params.Get("state"))
		return
	}
	r.sessionGone()
}

// logoutOtherClient: hint and client_id contradict each other (§2).
func logoutOtherClient(r *run) {
	second := r.other(roleSecond)
	_, params := r.loggedIn()
	params.Set("client_id", second.ClientID)
	r.wantNoRedirect(params)
}

// logoutEscapes: what the request has is text on a page.
func logoutEscapes(r *run) {
	_, params := r.loggedIn()
	for _, name := range []string{"state", "post_logout_redirect_uri", "client_id", "logout_hint", "ui_locales"} {
		changed := url.Values{"state": {"x"}}
		changed.Set(name, markup)
		a := r.endSession(changed, nobody)
		r.notAtClient(a)
		r.escaped(a, name)
	}
	// In the confirmation too, which a hint may skip.
	params.Set("state", params.Get("state")+markup)
	r.wantLoggedOut(r.endSession(params, leaving), params.Get("state"))
}

// logoutTwice: the hint is of a session that is over. The user is logged out,
// so that is no error.
func logoutTwice(r *run) {
	_, params := r.loggedIn()
	r.wantLoggedOut(r.endSession(params, leaving), params.Get("state"))
	a := r.endSession(params, leaving)
	if a.client {
		r.wantLoggedOut(a, params.Get("state"))
	} else if a.page.status >= 500 || len(strings.Fields(a.page.words())) < 3 {
		r.fail("the second logout ended on a page with status %d: %s", a.page.status, brief(a.page.words()))
	}
}
