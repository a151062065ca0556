package oidc_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSEC170_AGuessedUserIsNotNamed: who asks for a user by the claim sub learns nothing
// of who has that ID; who brings an ID token of theirs does.
func TestSEC170_AGuessedUserIsNotNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.users["alice"]
	hint := w.a.signedIn("alice").tokens("web", "openid").text("id_token")
	shown := func(changes ...string) string {
		b := w.a.agent()
		b.open(authorizePath + "?" + w.a.request("web", changes...).Encode())
		return b.got.Text
	}
	if got := shown("claims", `{"id_token":{"sub":{"value":"`+alice.ID+`"}}}`); strings.Contains(got, "alice") {
		t.Errorf("the page names the user: %s", got)
	}
	if got := shown("id_token_hint", hint); !strings.Contains(got, alice.LoginName) {
		t.Errorf("the page does not name whom the hint is about: %s", got)
	}
}

// TestSEC057_AnAssertionWithoutAnIDCountsOnce: neither a client nor a service user is let in
// twice by one assertion that has no jti.
func TestSEC057_AnAssertionWithoutAnIDCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for what, send := range map[string]func(assertion string) *answer{
		"jwt": func(assertion string) *answer {
			return w.a.form(introspectPath, pairs("token", "x", "client_assertion_type", assertionType, "client_assertion", assertion))
		},
		"robot": func(assertion string) *answer {
			return w.a.form(tokenPath, pairs("grant_type", grantJWT, "scope", "openid", "assertion", assertion))
		},
	} {
		assertion := w.a.assertion(what, map[string]any{"jti": nil})
		if got := send(assertion); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", what, got.Status, got.Text)
		}
		if got := send(assertion); got.Status == http.StatusOK {
			t.Errorf("%s: it is good twice", what)
		}
	}
}

// TestSEC054_AListOfOurOwnAddressesIsAnAudience, and one with another address is none.
func TestSEC054_AListOfOurOwnAddressesIsAnAudience(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		audience any
		good     bool
	}{
		{w.a.issuer, true},
		{[]string{w.a.issuer}, true},
		{[]string{w.a.issuer, w.a.issuer + tokenPath}, true},
		{[]string{w.a.issuer + introspectPath, w.a.issuer}, true},
		{w.a.issuer + tokenPath, false}, // behind a switch
		{[]string{w.a.issuer + tokenPath}, false},
		{[]string{w.a.issuer, "https://other.example"}, false},
		{[]string{w.a.issuer, w.a.issuer + ".other.example"}, false},
		{[]string{w.b.issuer}, false},
		{[]string{}, false},
	} {
		got := w.a.form(introspectPath, pairs("token", "x", "client_assertion_type", assertionType, "client_assertion", w.a.assertion("jwt", map[string]any{"aud": test.audience})))
		if (got.Status == http.StatusOK) != test.good {
			t.Errorf("%v: %d %s, want good: %t", test.audience, got.Status, got.Text, test.good)
		}
	}
}

// TestSEC030_AnExpiredCodeStaysExpired: once it was refused, whatever the clock does.
func TestSEC030_AnExpiredCodeStaysExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code := w.a.signedIn("alice").code("web")
	w.wait(2 * time.Minute)
	w.a.refused("expired", w.a.redeem("web", code), "invalid_grant")
	w.wait(-2 * time.Minute)
	w.a.refused("after the clock stepped back", w.a.on(1).redeem("web", code), "invalid_grant")
}

// TestSEC217_PersonalTokensAreForWhoKnowsTheirUser: an API of another organization learns
// nothing of one; userinfo takes them as introspection does.
func TestSEC217_PersonalTokensAreForWhoKnowsTheirUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	visitor := w.a.must(http.MethodPost, usersPath+w.a.users["visitor"].ID+"/pats", `{}`)["token"].(string)
	if w.a.active("api", visitor) {
		t.Error("a token of another organization's user is active")
	}
	robot := w.a.users["robot"].Token
	if !w.a.active("api", robot) {
		t.Error("a token of a user of the organization is not active")
	}
	for name, token := range map[string]string{"robot": robot, "visitor": visitor} {
		if got := w.a.userinfo(token); got.Status != http.StatusOK || got.text("sub") != w.a.users[name].ID {
			t.Errorf("userinfo of %s: %d %s", name, got.Status, got.Text)
		}
	}
	// A role in the project of the API makes them known.
	grant := w.a.must(http.MethodPost, "/resources/v3alpha/project_grants/_search", `[]`)
	id := grant["result"].([]any)[0].(map[string]any)["details"].(map[string]any)["id"].(string)
	w.a.must(http.MethodPost, "/resources/v3alpha/user_grants", `{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["reader"]}`,
		w.a.users["visitor"].ID, w.a.projects["P"], id)
	if !w.a.active("api", visitor) {
		t.Error("a token of a user with a role in the project is not active")
	}
}

// TestIDTokensKeepTheClaimsOfThePlatform: beside an access token an ID token lacks the
// claims of profile, email, phone and address, and no others (document 2, "Token
// responses"); after a refresh and in an exchange too.
func TestIDTokensKeepTheClaimsOfThePlatform(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scope := offline + " profile email phone address " + urn + "user:metadata " + urn + "user:resourceowner"
	first := w.a.signedIn("alice").tokens("web", scope)
	for what, idToken := range map[string]string{
		"code":     first.text("id_token"),
		"refresh":  w.a.refresh("web", first.text("refresh_token")).text("id_token"),
		"exchange": w.a.exchange("web", "subject_token", first.text("access_token"), "scope", "openid "+urn+"user:metadata "+urn+"user:resourceowner", "requested_token_type", typeID).text("access_token"),
	} {
		_, body := claims(idToken)
		for _, name := range []string{urn + "user:metadata", urn + "user:resourceowner:id", urn + "user:resourceowner:name"} {
			if body[name] == nil {
				t.Errorf("%s: the claim %s is missing: %v", what, name, body)
			}
		}
		for _, name := range []string{"name", "email", "phone_number", "address"} {
			if body[name] != nil {
				t.Errorf("%s: the claim %s is there", what, name)
			}
		}
	}
}

// TestExchangeTakesServiceUsers: with what they get for the scope openid alone, and by
// their ID tokens (document 2, "Token exchange type matrix").
func TestExchangeTakesServiceUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	alice := w.a.signedIn("alice").tokens("web", "openid").text("access_token")
	byKey := w.a.form(tokenPath, pairs("grant_type", grantJWT, "scope", "openid", "assertion", w.a.assertion("jwtrobot", nil)))
	for what, actor := range map[string][2]string{
		"an access token for openid alone": {w.a.service("helper", "openid").text("access_token"), typeAccess},
		"an access token as JWT":           {byKey.text("access_token"), typeAccess},
		"an ID token":                      {byKey.text("id_token"), typeID},
	} {
		got := w.a.exchange("web", "subject_token", alice, "actor_token", actor[0], "actor_token_type", actor[1])
		if token := w.a.granted(what, got); !w.a.active("api", token) {
			t.Errorf("%s as actor: the token is not active", what)
		}
	}
	self := w.a.exchange("web", "subject_token", byKey.text("id_token"), "subject_token_type", typeID)
	if got := w.a.introspect("api", w.a.granted("an ID token as subject", self)); got.text("sub") != w.a.users["jwtrobot"].ID {
		t.Errorf("an ID token as subject: %s", got.Text)
	}
	w.a.must(http.MethodDelete, usersPath+w.a.users["jwtrobot"].ID+"/keys/"+w.a.keyIDs["jwtrobot"], "")
	w.a.refused("an ID token by a key that is gone", w.a.exchange("web", "subject_token", byKey.text("id_token"), "subject_token_type", typeID), "invalid_request")
}

// TestExchangeNamesAnyOfTheCombinedAudience: document 2 has a subset of the audiences of
// subject and actor, so also the application the token was issued to, or another one.
func TestExchangeNamesAnyOfTheCombinedAudience(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forBoth := "openid " + urn + "org:project:id:" + w.a.projects["P"] + ":aud " + urn + "org:project:id:" + w.a.projects["Q"] + ":aud"
	token := w.a.signedIn("alice").tokens("qweb", forBoth).text("access_token")
	for _, audience := range []string{w.a.apps["qweb"].ClientID, w.a.projects["Q"], w.a.projects["P"]} {
		got := w.a.exchange("web", "subject_token", token, "audience", audience)
		if _, body := claims(w.a.exchange("web", "subject_token", token, "audience", audience, "requested_token_type", typeJWT).text("access_token")); len(body["aud"].([]any)) != 1 || body["aud"].([]any)[0] != audience {
			t.Errorf("%s: the audience is %v", audience, body["aud"])
		}
		w.a.granted(audience, got)
	}
	w.a.refused("what neither has", w.a.exchange("web", "subject_token", token, "audience", w.a.apps["second"].ClientID), "invalid_request")
}

// TestErrorsGoByTheConfiguredType: an implicit application reads the fragment, also when
// the request lacks its response type (document 2, "Response modes").
func TestErrorsGoByTheConfiguredType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for app, in := range map[string]string{"implicit": "#", "web": "?"} {
		got := w.a.call(http.MethodGet, authorizePath+"?"+w.a.request(app, "response_type", "-").Encode(), "")
		if to := got.Header.Get("Location"); !strings.Contains(to, in+"error=invalid_request") {
			t.Errorf("%s: %s", app, to)
		}
	}
}

// TestAccessTokensOfAPlainType: an application can have JWTs of type JWT, for resource
// servers that know no other; they are access tokens all the same, and no hints.
func TestAccessTokensOfAPlainType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	before := b.tokens("jwtweb", "openid")
	w.a.must(http.MethodPatch, appsPath+w.a.apps["jwtweb"].ID, `{"oidc":{"plainJwtType":true}}`)
	var after *answer
	w.soon("the type", func() bool {
		after = b.tokens("jwtweb", "openid")
		header, _ := claims(after.text("access_token"))
		return header["typ"] == "JWT"
	})
	for what, token := range map[string]string{"before": before.text("access_token"), "after": after.text("access_token")} {
		if !w.a.active("api", token) || w.a.userinfo(token).Status != http.StatusOK {
			t.Errorf("%s: the access token is not good", what)
		}
		if got := b.authorize("jwtweb", "prompt", "none", "id_token_hint", token); got.Get("error") != "login_required" {
			t.Errorf("%s: it is a hint: %v", what, got)
		}
	}
	if w.a.active("api", after.text("id_token")) || w.a.userinfo(after.text("id_token")).Status == http.StatusOK {
		t.Error("the ID token is an access token")
	}
}

// TestSEC235_NobodyDisarmsASuperior: an owner of the organization takes neither the second
// factor nor the session of an owner of the instance.
func TestSEC235_NobodyDisarmsASuperior(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chief := "/v3alpha/users/" + w.a.users["chief"].ID
	added := w.a.must(http.MethodPost, chief+"/totp", "")
	session := w.a.must(http.MethodPost, "/resources/v3alpha/sessions", `{"checks":{"user":{"loginName":%q},"password":{"password":%q}}}`, w.a.users["chief"].LoginName, password)
	id := session["details"].(map[string]any)["id"].(string)
	for path, method := range map[string]string{
		chief + "/totp/" + added["totpId"].(string): http.MethodDelete, chief + "/totp": http.MethodPost, "/resources/v3alpha/sessions/" + id: http.MethodDelete,
		usersPath + w.a.users["chief"].ID + "/_lock": http.MethodPost, usersPath + w.a.users["chief"].ID + "/_deactivate": http.MethodPost,
	} {
		if got := w.a.api("boss", method, path, ""); got.Status != http.StatusForbidden || got.reason() != "USER_HOLDS_MORE" {
			t.Errorf("%s %s: %d %s", method, path, got.Status, got.Text)
		}
	}
	if got := w.a.api("boss", http.MethodPost, usersPath+w.a.users["alice"].ID+"/_lock", ""); got.Status != http.StatusOK {
		t.Errorf("an equal is not to be locked: %d %s", got.Status, got.Text)
	}
}
