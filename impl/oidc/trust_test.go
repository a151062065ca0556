package oidc_test

import (
	"net/http"
	"slices"
	"testing"
)

const appsPath = "/resources/v3alpha/apps/"

// reason is why the resource API refuses; "" when it does not.
func (got *answer) reason() string {
	details, _ := got.Body["details"].([]any)
	if got.Status/100 == 2 || len(details) == 0 {
		return ""
	}
	first, _ := details[0].(map[string]any)
	reason, _ := first["reason"].(string)
	return reason
}

// TestSEC235_AnAppIsTrustedWithRights: whoever owns an application does not get what those
// hold who sign in to it, by no grant: a token acts within the organization of the
// application, unless somebody with the rights trusts it.
func TestSEC235_AnAppIsTrustedWithRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chief, olga, manager := w.a.signedIn("chief"), w.a.signedIn("olga"), w.a.signedIn("manager")
	const scope = offline + " " + apiAudience
	byCode := chief.tokens("web", scope)
	w.a.must(http.MethodPatch, appsPath+w.a.apps["spa"].ID, `{"oidc":{"accessTokenType":"ACCESS_TOKEN_TYPE_JWT"}}`)
	tokens := map[string]string{
		"code":     byCode.text("access_token"),
		"refresh":  w.a.granted("refresh", w.a.refresh("web", byCode.text("refresh_token"))),
		"JWT":      chief.tokens("spa", scope).text("access_token"),
		"implicit": chief.authorize("implicit", "scope", "openid "+apiAudience).Get("access_token"),
	}
	tokens["exchange"] = w.a.granted("exchange", w.a.exchange("web", "subject_token", tokens["code"], "scope", "openid "+apiAudience, "audience", apiAudience[:len(apiAudience)-4]))
	w.a.must(http.MethodPut, "/v2/features/instance", `{"multitenancySettings":true}`)
	orgs, self := "/resources/v3alpha/organizations", usersPath+w.a.users["chief"].ID
	for name, token := range tokens {
		if got := w.a.api(token, http.MethodPost, orgs, `{"name":"taken over by `+name+`"}`); got.Status != http.StatusForbidden || got.reason() != "APP_NOT_TRUSTED" {
			t.Errorf("%s: creating an organization: %d %s", name, got.Status, got.Text)
		}
		if got := w.a.api(token, http.MethodGet, usersPath+w.a.users["olga"].ID, ""); got.Status/100 == 2 {
			t.Errorf("%s: a user of another organization is read", name)
		}
		// What asks any authenticated caller for no permission asks for no trust either.
		if got := w.a.api(token, http.MethodPatch, "/settings/v3alpha/languages", `{"defaultLanguage":{"key":"en"}}`); got.Status != http.StatusOK {
			t.Errorf("%s: the languages of the instance: %d %s", name, got.Status, got.Text)
		}
		if got := w.a.api(token, http.MethodGet, self, ""); got.Status != http.StatusOK {
			t.Errorf("%s: the user's own: %d %s", name, got.Status, got.Text)
		}
	}
	// A role in the organization of the application counts; being of another one does not
	// let it act for its users.
	inside := manager.tokens("web", scope).text("access_token")
	if got := w.a.api(inside, http.MethodGet, usersPath+w.a.users["bob"].ID, ""); got.Status != http.StatusOK {
		t.Errorf("an owner of the application's organization: %d %s", got.Status, got.Text)
	}
	outside := olga.tokens("web", scope).text("access_token")
	if got := w.a.api(outside, http.MethodGet, usersPath+w.a.users["olga"].ID, ""); got.Status/100 == 2 {
		t.Errorf("the application acts for a user of another organization: %s", got.Text)
	}
	// Who lacks the permission by any application is told that.
	if got := w.a.api(w.a.signedIn("bob").tokens("web", scope).text("access_token"), http.MethodPost, orgs, `{"name":"bob's"}`); got.reason() != "PERMISSION_DENIED" {
		t.Errorf("nobody in particular: %d %s", got.Status, got.Text)
	}
	// Only who holds the rights can trust, and then nobody else can make it another one.
	owner := inside
	if got := w.a.api(owner, http.MethodPost, appsPath+w.a.apps["web"].ID+"/_trust", ""); got.Status != http.StatusForbidden {
		t.Errorf("an owner of the organization trusts: %d %s", got.Status, got.Text)
	}
	key := w.a.must(http.MethodPost, appsPath+w.a.apps["web"].ID+"/keys", "{}")["details"].(map[string]any)["id"].(string)
	w.a.must(http.MethodPost, appsPath+w.a.apps["web"].ID+"/_trust", "")
	for what, got := range map[string]*answer{
		"redirect URIs": w.a.api(owner, http.MethodPatch, appsPath+w.a.apps["web"].ID, `{"oidc":{"redirectUris":{"uris":["https://evil.example/cb"]}}}`),
		"secret":        w.a.api(owner, http.MethodPost, appsPath+w.a.apps["web"].ID+"/_regenerate_secret", "{}"),
		"key":           w.a.api(owner, http.MethodPost, appsPath+w.a.apps["web"].ID+"/keys", "{}"),
		"key that is":   w.a.api(owner, http.MethodDelete, appsPath+w.a.apps["web"].ID+"/keys/"+key, ""),
	} {
		if got.Status != http.StatusForbidden || got.reason() != "APP_TRUSTED" {
			t.Errorf("an owner of the organization changes the %s: %d %s", what, got.Status, got.Text)
		}
	}
	for node := range 2 {
		w.soon("trusted", func() bool {
			return w.a.on(node).api(tokens["code"], http.MethodPost, orgs+"/_search", "[]").Status == http.StatusOK
		})
		w.soon("for the other organization", func() bool {
			return w.a.on(node).api(outside, http.MethodGet, usersPath+w.a.users["olga"].ID, "").Status == http.StatusOK
		})
	}
	// What another application got does not become free by an exchange.
	laundered := w.a.exchange("web", "subject_token", chief.tokens("second", "openid "+apiAudience+" "+urn+"org:project:id:"+w.a.projects["P"]+":aud").text("access_token"),
		"scope", "openid "+apiAudience)
	if audience := w.a.introspect("api", w.a.granted("laundered", laundered)).Body["aud"].([]any); slices.Contains(audience, any(apiAudience[:len(apiAudience)-4])) {
		t.Errorf("an exchange frees a token: %v", audience)
	}
	w.a.must(http.MethodPost, appsPath+w.a.apps["web"].ID+"/_distrust", "")
	for node := range 2 {
		w.soon("no longer", func() bool {
			return w.a.on(node).api(tokens["code"], http.MethodPost, orgs, `{"name":"late"}`).Status == http.StatusForbidden
		})
	}
}

// lent is what lets a token be for the resource API and be exchanged by the applications of P.
func (w *world) lent() string {
	return "openid " + apiAudience + " " + urn + "org:project:id:" + w.a.projects["P"] + ":aud"
}

// TestSEC235_AnExchangeByATrustedClientGivesNoRights: a client that an organization trusts does
// not make more of the token of one that nobody trusts, be it the subject's or the actor's.
func TestSEC235_AnExchangeByATrustedClientGivesNoRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	platform, bob := apiAudience[:len(apiAudience)-4], usersPath+w.a.users["bob"].ID
	for _, app := range []string{"spa", "native"} {
		if got := w.a.api("boss", http.MethodPost, appsPath+w.a.apps[app].ID+"/_trust", `{"organizationOnly":true}`); got.Status != http.StatusOK {
			t.Fatalf("trusting %s: %d %s", app, got.Status, got.Text)
		}
	}
	w.a.must(http.MethodPut, "/v2/features/instance", `{"multitenancySettings":true}`)
	w.soon("settings", func() bool {
		return w.a.api("owner", http.MethodPatch, "/settings/v3alpha/applications", `{"rolesNeedTrust":{"value":true}}`).Status == http.StatusOK
	})
	manager := w.a.signedIn("manager")
	low := manager.tokens("second", w.lent()).text("access_token")
	if got := w.a.api(low, http.MethodGet, bob, ""); got.Status/100 == 2 {
		t.Fatalf("an application that nobody trusts has roles: %s", got.Text)
	}
	asActor := []string{"actor_token", low, "actor_token_type", typeAccess, "scope", "openid", "audience", platform}
	for name, changes := range map[string][]string{
		"as subject":           {"subject_token", low, "audience", platform},
		"as actor for a name":  append([]string{"subject_token", w.a.users["manager"].ID, "subject_token_type", typeUser}, asActor...),
		"as actor of a token":  append([]string{"subject_token", manager.tokens("spa", "openid").text("access_token")}, asActor...),
		"as actor of an ID":    append([]string{"subject_token", manager.tokens("spa", "openid").text("id_token"), "subject_token_type", typeID}, asActor...),
		"as subject and actor": append([]string{"subject_token", low}, asActor...),
	} {
		w.a.refused(name, w.a.exchange("spa", changes...), "invalid_request")
	}
	again := w.a.granted("by another one", w.a.exchange("second", "subject_token", low))
	w.a.refused("exchanged before", w.a.exchange("spa", "subject_token", again, "audience", platform), "invalid_request")
	high := w.a.granted("as trusted", w.a.exchange("spa", "subject_token", manager.tokens("native", w.lent()).text("access_token"), "audience", platform))
	if got := w.a.api(high, http.MethodGet, bob, ""); got.Status != http.StatusOK {
		t.Errorf("what a trusted application lends to another one: %d %s", got.Status, got.Text)
	}
	// Trust that ends takes what was lent along.
	if got := w.a.api("boss", http.MethodPost, appsPath+w.a.apps["native"].ID+"/_distrust", ""); got.Status != http.StatusOK {
		t.Fatalf("distrusting: %d %s", got.Status, got.Text)
	}
	for node := range 2 {
		w.soon("no longer", func() bool { return w.a.on(node).api(high, http.MethodGet, bob, "").Status/100 != 2 })
	}
}

// TestSEC235_NoClientActsByTheRolesOfItsUsers: an application that an administrator only signed in to
// acts in nobody's name, whoever makes the exchange; one that was handed the role does.
func TestSEC235_NoClientActsByTheRolesOfItsUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("UPDATE memberships SET roles = roles || '{ORG_END_USER_IMPERSONATOR}' WHERE user_id = $1", w.a.users["manager"].ID)
	manager := w.a.signedIn("manager")
	silent := map[string]*answer{"of an organization": manager.tokens("second", "openid"), "of the instance": w.a.signedIn("chief").tokens("second", "openid")}
	asActor := func(actor *answer, kind string, changes ...string) []string {
		field := map[string]string{typeAccess: "access_token", typeID: "id_token"}[kind]
		return append([]string{"actor_token", actor.text(field), "actor_token_type", kind, "scope", "openid"}, changes...)
	}
	alice := []string{"subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser}
	for administrator, tokens := range silent {
		for _, client := range []string{"second", "web", "spa"} {
			for _, kind := range []string{typeAccess, typeID} {
				w.a.refused(administrator+", "+client+" with "+kind, w.a.exchange(client, asActor(tokens, kind, alice...)...), "invalid_request")
			}
		}
	}
	handed := manager.tokens("second", w.lent())
	w.a.granted("the role was handed over", w.a.exchange("second", asActor(handed, typeAccess, alice...)...))
	if got := w.a.api("owner", http.MethodDelete, usersPath+w.a.users["manager"].ID+"/consents/"+w.a.apps["second"].ID, ""); got.Status != http.StatusOK {
		t.Fatalf("taking it back: %d %s", got.Status, got.Text)
	}
	w.a.refused("it was taken back", w.a.exchange("second", asActor(handed, typeAccess, alice...)...), "invalid_request")
}

// TestSEC235_NoExchangeLendsRolesToAct: nor does one by way of an application that is trusted, which
// anybody can use that has no secret.
func TestSEC235_NoExchangeLendsRolesToAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("UPDATE memberships SET roles = roles || '{ORG_END_USER_IMPERSONATOR}' WHERE user_id = $1", w.a.users["manager"].ID)
	w.a.must(http.MethodPost, appsPath+w.a.apps["spa"].ID+"/_trust", `{"organizationOnly":true}`)
	manager, ofProject := w.a.signedIn("manager"), "openid "+urn+"org:project:id:"+w.a.projects["P"]+":aud"
	as := func(actor string) *answer {
		return w.a.exchange("spa", "subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "actor_token", actor, "actor_token_type", typeAccess, "scope", "openid")
	}
	w.a.granted("by the trusted application (control)", as(manager.tokens("spa", ofProject).text("access_token")))
	silent := manager.tokens("second", ofProject).text("access_token")
	w.a.refused("by the other one", as(silent), "invalid_request")
	exchanged := w.a.granted("the exchange", w.a.exchange("spa", "subject_token", silent, "scope", "openid"))
	w.a.refused("by way of the trusted one", as(exchanged), "invalid_request")
}

// TestSEC235_AnExchangeHandsOverNoRoles: what a user handed over to one application another one
// does not add to, and it ends with the consent, however the token was issued.
func TestSEC235_AnExchangeHandsOverNoRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	platform, app := apiAudience[:len(apiAudience)-4], appsPath+w.a.apps["plain"].ID
	bob := w.a.signedIn("bob")
	self := usersPath + w.a.users["bob"].ID
	tokens := map[string]string{
		"code":     bob.tokens("web", w.lent()).text("access_token"),
		"implicit": bob.authorize("implicit", "scope", w.lent()).Get("access_token"),
	}
	w.link() // since then bob owns the project
	if owner := bob.tokens("second", w.lent()).text("access_token"); w.a.api(owner, http.MethodGet, app, "").Status != http.StatusOK {
		t.Fatal("the role that was handed over does not count")
	}
	exchanged := map[string]*answer{}
	for name, token := range tokens {
		got := w.a.exchange("second", "subject_token", token, "audience", platform, "scope", "openid")
		w.a.granted(name, got)
		exchanged[name] = got
		jwt := w.a.exchange("second", "subject_token", token, "audience", platform, "requested_token_type", typeJWT)
		for form, token := range map[string]string{"opaque": got.text("access_token"), "JWT": w.a.granted(name+" as JWT", jwt)} {
			if got := w.a.api(token, http.MethodGet, self, ""); got.Status != http.StatusOK {
				t.Errorf("%s, %s: it does not act for its user: %d %s", name, form, got.Status, got.Text)
			}
			if got := w.a.api(token, http.MethodGet, app, ""); got.Status/100 == 2 {
				t.Errorf("%s, %s: it has a role that was handed over to the other application", name, form)
			}
		}
	}
	for name, of := range map[string]string{"code": "web", "implicit": "implicit"} {
		if got := w.a.api("owner", http.MethodDelete, self+"/consents/"+w.a.apps[of].ID, ""); got.Status != http.StatusOK {
			t.Fatalf("taking back %s: %d %s", of, got.Status, got.Text)
		}
		if token := exchanged[name].text("access_token"); w.a.on(1).active("api", token) || w.a.api(token, http.MethodGet, self, "").Status != http.StatusUnauthorized {
			t.Errorf("%s: what was exchanged outlives the consent", name)
		}
	}
}
