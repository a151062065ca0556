package oidc

import (
	"time"
)

// promptLogin: the user has to log in again, which is a new authentication
// (OpenID Connect Core 1.0 §3.1.2.1).
func promptLogin(r *run) {
	first := r.complete(r.request())
	r.wait(time.Second)
	second := r.complete(r.request().with("prompt", "login"))
	r.askedAgain(second)
	r.sameUser(first, second)
	r.laterLogin(first, second)
}

// askedAgain is what a person would check on the screenshot.
func (r *run) askedAgain(f *flow) {
	if f.arrival.logins == 0 {
		r.fail("the user was not asked for the password again")
	}
}

func (r *run) laterLogin(first, second *flow) {
	a, inFirst := number(first.idToken().claims["auth_time"])
	b, inSecond := number(second.idToken().claims["auth_time"])
	if inFirst && inSecond && b <= a {
		r.fail("auth_time was %v and is %v after the user logged in again", a, b)
	}
}

// promptNoneNotLoggedIn: nothing to do for the user, so an error (§3.1.2.6).
func promptNoneNotLoggedIn(r *run) {
	q := r.request().with("prompt", "none").with("state", longText(128)).as(nobody)
	r.refused(q, r.send(q), r.mode(), interaction...)
}

func promptNoneLoggedIn(r *run) {
	first := r.complete(r.request())
	r.silently(r.again(first, r.request().with("prompt", "none")))
}

func idTokenHint(r *run) {
	first := r.complete(r.request())
	r.silently(r.again(first, r.request().with("prompt", "none").with("id_token_hint", first.idToken().raw)))
}

// maxAge1: the login is older than the client accepts, so there is another one,
// and auth_time tells when (§2, §3.1.2.1).
func maxAge1(r *run) {
	first := r.complete(r.request())
	r.wait(2 * time.Second)
	second := r.complete(r.request().with("max_age", "1"))
	r.askedAgain(second)
	r.sameUser(first, second)
	at, ok := number(second.idToken().claims["auth_time"])
	if !ok {
		r.fail("ID token: auth_time is %v, but max_age requires it", second.idToken().claims["auth_time"])
		return
	}
	r.laterLogin(first, second)
	if age := time.Since(time.Unix(int64(at), 0)); age > skew+time.Second {
		r.fail("ID token: auth_time is %s ago, but the user just logged in", age.Round(time.Second))
	}
}

// maxAge10000: the login is young enough for both requests.
func maxAge10000(r *run) {
	first := r.complete(r.request().with("max_age", "15000"))
	second := r.again(first, r.request().with("max_age", "10000"))
	for _, f := range []*flow{first, second} {
		if _, ok := number(f.idToken().claims["auth_time"]); !ok {
			r.fail("ID token: auth_time is %v, but max_age requires it", f.idToken().claims["auth_time"])
		}
	}
}
