// Package oidc holds an OpenID provider to what the OpenID Foundation certifies.
//
// It runs every module of six certification plans (basic, implicit, config, the
// two form_post ones and RP-initiated logout) under its official name, with the
// official severities, and beside them modules of our own, named writ-*, for
// rules that no official module checks. It knows a provider only by what a
// relying party knows: the issuer's URL, clients that are registered there, and
// the password of one user. So it runs against any provider.
//
// One module is one function over a run:
//
//	plan (plan.go)   which modules, with which response type and response mode
//	run (run.go)     one module: its findings, its exchanges, a fresh browser
//	browser (browser.go, form.go, login.go)
//	                 follows redirects, fills the login forms, and stops at the
//	                 client's URL without ever connecting to it
//	authorize.go, token.go, idtoken.go, claims.go
//	                 the checks that modules share; a check that fails is a
//	                 finding, a check without which nothing makes sense ends the
//	                 module
//
// What the severities mean:
//
//	FAIL    a requirement is broken, or the module could not run to its end
//	WARN    a recommendation is not followed
//	REVIEW  a page was shown that the suite cannot judge; a person has to
//	SKIP    the module does not apply to this provider
//	PASS    none of these
//
// The package imports nothing of the server.
package oidc
