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
// A configuration (Config) of a provider elsewhere:
//
//	{
//	  "issuer": "https://op.example",
//	  "user": {"login_name": "ada", "password": "…"},
//	  "clients": {
//	    "web":      {"client_id": "…", "client_secret": "…", "redirect_uri": "https://rp.example/callback",
//	                 "post_logout_redirect_uri": "https://rp.example/post_logout_redirect"},
//	    "second":   as web, with another secret,
//	    "post":     authenticates by client_secret_post,
//	    "implicit": has the response types id_token and id_token token,
//	    "spa":      has no secret,
//	    "jwt":      {…, "key_file": "key.json"}
//	  }
//	}
//
// Nothing has to answer at the redirect URIs. What the suite cannot do: run
// scripts (a login page has to work without), pass a second factor, register
// clients.
//
// The package imports nothing of the server.
package oidc
