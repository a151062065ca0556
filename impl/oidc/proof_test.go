package oidc_test

import (
	"fmt"
	"net/http"
	"testing"
)

// proof is something that the token endpoint takes for alice, and what ends it.
type proof struct {
	name, kind, token string
	family            string // a refresh token of its family; "" when it has none
}

// proofs makes all that says at the token endpoint who alice is. Those of ID tokens and
// access tokens without a session come of a refresh after a logout.
func (w *world) proofs() []proof {
	w.Helper()
	online := w.a.signedIn("alice")
	withSession := online.tokens("spa", offline)
	implicit := online.authorize("implicit")
	offlineAgent := w.a.signedIn("alice")
	before := offlineAgent.tokens("spa", offline)
	w.a.must(http.MethodDelete, "/resources/v3alpha/sessions/"+offlineAgent.sessionID(), "")
	after := w.a.refresh("spa", before.text("refresh_token"))
	w.a.granted("a refresh after a logout", after)
	if _, body := claims(after.text("id_token")); body["sid"] != nil {
		w.Fatalf("the ID token of a refresh after a logout has a session: %v", body)
	}
	family := after.text("refresh_token")
	list := []proof{
		{"an ID token", typeID, withSession.text("id_token"), withSession.text("refresh_token")},
		{"an access token", typeAccess, withSession.text("access_token"), withSession.text("refresh_token")},
		{"an implicit ID token", typeID, implicit.Get("id_token"), ""},
		{"an ID token without a session", typeID, after.text("id_token"), family},
		{"an access token without a session", typeAccess, after.text("access_token"), family},
	}
	for _, of := range list[3:5] {
		for _, issued := range []string{typeID, typeJWT, typeAccess} {
			got := w.a.exchange("spa", "subject_token", of.token, "subject_token_type", of.kind, "requested_token_type", issued)
			kind := issued
			if issued == typeJWT {
				kind = typeAccess
			}
			list = append(list, proof{fmt.Sprintf("%s that is exchanged for %s", of.name, issued), kind, w.a.granted(of.name, got), family})
		}
	}
	return list
}

// TestSEC097_SEC101_NoProofOutlivesWhatItCameFrom: whatever the token endpoint takes as
// proof of who somebody is, in an exchange as subject or as actor, ends with a new password,
// a lock, a deactivation and its family, and so does what came of it before.
func TestSEC097_SEC101_NoProofOutlivesWhatItCameFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	alice := usersPath + w.a.users["alice"].ID
	for _, ending := range []struct {
		name string
		end  func(proof)
	}{
		{"a revoked family", func(p proof) { w.a.as("spa", revokePath, pairs("token", p.family)) }},
		{"a lock", func(proof) {
			w.a.must(http.MethodPost, alice+"/_lock", "")
			w.a.must(http.MethodPost, alice+"/_unlock", "")
		}},
		{"a deactivation", func(proof) {
			w.a.must(http.MethodPost, alice+"/_deactivate", "")
			w.a.must(http.MethodPost, alice+"/_activate", "")
		}},
		{"a new password", func(proof) { w.a.must(http.MethodPost, alice+"/password", `{"plain":"another one, correct horse"}`) }},
	} {
		list := w.proofs()
		became := map[string]string{}
		for _, p := range list {
			became[p.name] = w.a.granted(p.name, w.a.exchange("spa", "subject_token", p.token, "subject_token_type", p.kind))
		}
		for _, p := range list {
			if ending.name == "a revoked family" && p.family == "" {
				continue
			}
			ending.end(p)
			what := p.name + " after " + ending.name
			got := w.a.on(1).exchange("spa", "subject_token", p.token, "subject_token_type", p.kind)
			w.a.refused(what, got, "invalid_request")
			if token := got.text("access_token"); token != "" && w.a.active("api", token) {
				t.Errorf("%s: the token that comes of it is active", what)
			}
			helper := w.a.service("helper", "openid").text("access_token")
			w.a.refused(what+", with itself as actor", w.a.exchange("spa", "subject_token", p.token, "subject_token_type", p.kind,
				"actor_token", p.token, "actor_token_type", p.kind), "invalid_request")
			w.a.refused(what+", as the actor of its user by name", w.a.exchange("spa", "subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser,
				"actor_token", p.token, "actor_token_type", p.kind), "invalid_request")
			w.a.refused(what+", with an actor", w.a.exchange("spa", "subject_token", p.token, "subject_token_type", p.kind,
				"actor_token", helper, "actor_token_type", typeAccess), "invalid_request")
			if w.a.active("api", became[p.name]) {
				t.Errorf("%s: what it was exchanged for is active", what)
			}
		}
	}
}

// TestSEC101_AnIDTokenNamesItsSource: every ID token says what it came from, and one that
// does not, of a release before, proves nothing; as a hint it is good still.
func TestSEC101_AnIDTokenNamesItsSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice")
	for what, token := range map[string]string{
		"code":     alice.tokens("spa", "openid").text("id_token"),
		"implicit": alice.authorize("implicit", "response_type", "id_token").Get("id_token"),
	} {
		if _, body := claims(token); body["jti"] == nil {
			t.Errorf("%s: the ID token has no jti: %v", what, body)
		}
	}
	places := w.a.places()
	for name, want := range map[string]bool{"hint": true, "logout": true, "exchanged ID token": false, "exchanged access token": false} {
		p := places[name]
		p.check(t, name+": without a source", sign(p.key, p.header, with(p.claims(), "jti", "x")), want)
		p.check(t, name+": without jti", sign(p.key, p.header, with(p.claims(), "jti", nil)), want)
	}
}

// TestSEC101_REL073_IDTokensOfTheReleaseBefore: while nodes are exchanged ID tokens come that the
// release before made. Those of applications have no jti and prove nothing, as nothing would end
// them, but are good as hints. Those that service users got for themselves have that, and an azp:
// they are good until the credentials change.
func TestSEC101_REL073_IDTokensOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	kid, key := w.a.signer()
	before := func(token string, changes ...any) string {
		_, body := claims(token)
		return sign(key, map[string]any{"alg": "RS256", "kid": kid, "typ": "JWT"}, with(body, changes...))
	}
	alice, manager := w.a.signedIn("alice"), w.a.signedIn("manager")
	mine, theirs := alice.tokens("web", "openid").text("id_token"), manager.tokens("web", "openid").text("id_token")
	own := w.a.form(tokenPath, pairs("grant_type", grantJWT, "scope", "openid", "assertion", w.a.assertion("jwtrobot", nil))).text("id_token")
	_, body := claims(own)
	if body["azp"] != nil || body["jti"] == nil {
		t.Fatalf("the ID token of a service user is %v", body)
	}
	name := body["aud"].([]any)[0]
	for what, test := range map[string]struct {
		subject, actor string
		ok             bool
	}{
		"a subject (control)":               {mine, "", true},
		"a subject":                         {before(mine, "jti", nil), "", false},
		"one without a session":             {before(mine, "jti", nil, "sid", nil), "", false},
		"an actor (control)":                {mine, theirs, true},
		"an actor":                          {mine, before(theirs, "jti", nil), false},
		"a subject with an actor":           {before(mine, "jti", nil), theirs, false},
		"a service user (control)":          {own, "", true},
		"a service user":                    {before(own, "azp", name), "", true},
		"a service user acts (control)":     {mine, own, true},
		"a service user acts":               {mine, before(own, "azp", name), true},
		"a service user without jti":        {before(own, "jti", nil), "", false},
		"a service user with azp alone":     {before(own, "azp", name, "jti", nil), "", false},
		"a service user acts, without jti":  {mine, before(own, "jti", nil), false},
		"one by an application that is not": {before(mine, "azp", name, "aud", name), "", false},
		"one that another user's made":      {before(own, "azp", name, "sub", w.a.users["helper"].ID), "", false},
		"what was exchanged for one":        {before(own, "azp", name, urn+"token:origins", []string{body["jti"].(string)}), "", false},
	} {
		more := []string{"subject_token", test.subject, "subject_token_type", typeID}
		if test.actor != "" {
			more = append(more, "actor_token", test.actor, "actor_token_type", typeID)
		}
		if got := w.a.exchange("web", more...); test.ok {
			w.a.granted(what, got)
		} else {
			w.a.refused(what, got, "invalid_request")
		}
	}
	hint := before(mine, "jti", nil)
	if got := alice.authorize("web", "prompt", "none", "id_token_hint", hint); !got.Has("code") {
		t.Errorf("as a hint: %v", got)
	}
	if got := alice.authorize("web", "prompt", "none", "id_token_hint", before(theirs, "jti", nil)); got.Get("error") != "login_required" {
		t.Errorf("as a hint of another user: %v", got)
	}
	got := w.a.call(http.MethodGet, endSessionPath+"?"+pairs("id_token_hint", hint, "post_logout_redirect_uri", "https://app.example/bye").Encode(), "")
	if got.Status != http.StatusFound {
		t.Errorf("as a hint of a logout: %d %s", got.Status, got.Text)
	}
	w.a.must(http.MethodPost, usersPath+w.a.users["jwtrobot"].ID+"/_deactivate", "")
	w.a.must(http.MethodPost, usersPath+w.a.users["jwtrobot"].ID+"/_activate", "")
	for _, old := range []string{own, before(own, "azp", name)} {
		w.a.refused("a service user after a deactivation", w.a.exchange("web", "subject_token", old, "subject_token_type", typeID), "invalid_request")
	}
}
