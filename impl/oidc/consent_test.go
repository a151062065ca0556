package oidc_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// asked opens an authorization request for the resource API and goes no further.
func (a *agent) asked(app string, changes ...string) *agent {
	a.Helper()
	return a.open(authorizePath + "?" + a.request(app, append([]string{"scope", offline + " " + apiAudience}, changes...)...).Encode())
}

// link makes bob an owner of the project P.
func (w *world) link() {
	w.Helper()
	w.a.must(http.MethodPost, "/resources/v3alpha/memberships", `{"userId":%q,"roles":["PROJECT_OWNER"],"projectId":%q}`, w.a.users["bob"].ID, w.a.projects["P"])
}

// TestSEC235_ARegisteredClientGetsNoRights: an owner who follows a link of an application that
// nobody trusts gives it nothing without a word: silently it is consent_required, by every road,
// and else a page names the roles that would be handed over.
func TestSEC235_ARegisteredClientGetsNoRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	manager := w.a.signedIn("manager")
	for name, changes := range map[string][]string{
		"web": {"prompt", "none"}, "jwtweb": {"prompt", "none"}, "implicit": {"prompt", "none", "scope", "openid " + apiAudience},
	} {
		if got := manager.asked(name, changes...).result(); got.Get("error") != "consent_required" {
			t.Errorf("%s: silently it is %v", name, got)
		}
	}
	// What nobody handed over does not come by a role, an exchange or a refresh either.
	plain := manager.tokens("web", offline)
	platform := apiAudience[:len(apiAudience)-4]
	w.a.refused("an exchange for the resource API", w.a.exchange("web", "subject_token", plain.text("access_token"), "audience", platform), "invalid_request")
	byRefresh := w.a.refresh("web", plain.text("refresh_token"), "scope", "openid "+apiAudience)
	w.a.refused("a refresh for the resource API", byRefresh, "invalid_scope")

	// A page of its own, with the roles, for somebody who has just proven who they are.
	w.wait(time.Minute)
	if manager.asked("web"); manager.at.Path != "/login/password" {
		t.Fatalf("an old session is enough to hand over roles: %s %d", manager.at, manager.got.Status)
	}
	if manager.fill("password", password); manager.at.Path != consentPath || !strings.Contains(manager.got.Text, "ORG_OWNER – A") {
		t.Fatalf("there is no page that names the roles: %s %s", manager.at, manager.got.Text)
	}
	// Who leaves has handed over nothing.
	manager.send(http.MethodPost, "/login/cancel", url.Values{"flow": {flowOf(manager)}})
	if got := manager.result(); got.Get("error") != "access_denied" {
		t.Errorf("canceled: %v", got)
	}
	if got := manager.asked("web", "prompt", "none").result(); got.Get("error") != "consent_required" {
		t.Errorf("after canceling it is %v", got)
	}
	// Who allows it is asked once.
	if got := manager.authorize("web", "scope", offline+" "+apiAudience); got.Get("code") == "" {
		t.Fatalf("allowed: %v %s", got, manager.got.Text)
	}
	tokens := w.a.redeem("web", manager.asked("web", "prompt", "none").result().Get("code"))
	bob := usersPath + w.a.users["bob"].ID
	if got := w.a.api(w.a.granted("with a consent", tokens), http.MethodGet, bob, ""); got.Status != http.StatusOK {
		t.Errorf("an owner who allowed it: %d %s", got.Status, got.Text)
	}
	if got := manager.asked("second", "prompt", "none").result(); got.Get("error") != "consent_required" {
		t.Errorf("another application: %v", got)
	}
	self := usersPath + w.a.users["manager"].ID
	if got := w.a.must(http.MethodGet, self+"/consents", "")["result"].([]any); len(got) != 1 || got[0].(map[string]any)["appId"] != w.a.apps["web"].ID {
		t.Errorf("the consents are %v", got)
	}
	if got := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND event_type = 'user.consent.added' AND payload->>'appId' = $2", w.a.instance(), w.a.apps["web"].ID); got != "1" {
		t.Errorf("%s events tell of it", got)
	}
	// A role that came since is not handed over.
	w.a.must(http.MethodPost, "/resources/v3alpha/memberships", `{"userId":%q,"roles":["PROJECT_OWNER"],"projectId":%q}`, w.a.users["manager"].ID, w.a.projects["P"])
	if got := manager.asked("web", "prompt", "none").result(); got.Get("error") != "consent_required" {
		t.Errorf("with another role: %v", got)
	}
}

// flowOf is the flow of the page that a browser shows.
func flowOf(a *agent) string {
	_, values := a.fields()
	return values.Get("flow")
}

// TestSEC235_WhatWasHandedOverIsTakenBack: a consent that ends takes along all that was issued
// by it, and giving it again revives nothing.
func TestSEC235_WhatWasHandedOverIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	manager := w.a.signedIn("manager")
	self := usersPath + w.a.users["manager"].ID
	const scope = offline + " " + apiAudience
	bare := "openid " + apiAudience
	begin := func() (*answer, map[string]string) {
		tokens := manager.tokens("web", scope)
		exchanged := w.a.exchange("web", "subject_token", tokens.text("access_token"), "scope", "openid", "audience", apiAudience[:len(apiAudience)-4])
		return tokens, map[string]string{
			"code": tokens.text("access_token"), "JWT": manager.tokens("jwtweb", scope).text("access_token"),
			"implicit": manager.authorize("implicit", "scope", bare).Get("access_token"), "exchange": w.a.granted("exchange", exchanged),
		}
	}
	tokens, list := begin()
	for name, token := range list {
		if got := w.a.api(token, http.MethodGet, self, ""); got.Status != http.StatusOK {
			t.Fatalf("%s: before: %d %s", name, got.Status, got.Text)
		}
	}
	for _, app := range []string{"web", "jwtweb", "implicit"} {
		as := "owner"
		if app == "web" { // by the user themselves, with a token of another application
			as = manager.tokens("qweb", bare).text("access_token")
		}
		for range 2 { // repeating it is safe
			if got := w.a.api(as, http.MethodDelete, self+"/consents/"+w.a.apps[app].ID, ""); got.Status != http.StatusOK {
				t.Fatalf("taking back %s: %d %s", app, got.Status, got.Text)
			}
		}
	}
	w.wait(20 * time.Second)
	for range 2 {
		for name, token := range list {
			if got := w.a.on(1).api(token, http.MethodGet, self, ""); got.Status != http.StatusUnauthorized {
				t.Errorf("%s: afterwards: %d %s", name, got.Status, got.Text)
			}
			if w.a.active("api", token) {
				t.Errorf("%s: it is active", name)
			}
		}
		w.a.refused("the refresh token", w.a.refresh("web", tokens.text("refresh_token")), "invalid_grant")
		if got := manager.asked("web", "prompt", "none").result(); got.Get("error") == "" {
			break // given again
		}
		if manager.asked("web"); manager.at.Path == "/login/password" {
			manager.fill("password", password)
		}
		manager.fill()
		w.wait(0)
	}
	if got := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND event_type = 'user.consent.removed'", w.a.instance()); got != "3" {
		t.Errorf("%s events tell of what was taken back", got)
	}
}

// TestSEC235_TrustIsGivenByWhoMayGiveAllAway: within an organization by its owners, in the
// instance by its; and a setting leaves roles to trusted applications.
func TestSEC235_TrustIsGivenByWhoMayGiveAllAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	manager := w.a.signedIn("manager")
	bob := usersPath + w.a.users["bob"].ID
	w.link()
	builder := w.a.signedIn("bob").tokens("qweb", "openid "+apiAudience).text("access_token")
	trust := appsPath + w.a.apps["web"].ID + "/_trust"
	if got := w.a.api(builder, http.MethodPost, trust, `{"organizationOnly":true}`); got.Status != http.StatusForbidden {
		t.Errorf("an owner of the project trusts: %d %s", got.Status, got.Text)
	}
	if got := w.a.api("boss", http.MethodPost, appsPath+w.a.apps["web"].ID+"/_trust", ""); got.Status != http.StatusForbidden {
		t.Errorf("an owner of the organization trusts in the instance: %d %s", got.Status, got.Text)
	}
	// With the setting an application that is not trusted acts without roles.
	w.a.must(http.MethodPut, "/v2/features/instance", `{"multitenancySettings":true}`)
	w.soon("settings", func() bool {
		return w.a.api("owner", http.MethodPatch, "/settings/v3alpha/applications", `{"rolesNeedTrust":{"value":true}}`).Status == http.StatusOK
	})
	if manager.asked("web"); manager.at.Path != consentPath || strings.Contains(manager.got.Text, "ORG_OWNER") {
		t.Fatalf("the page hands over roles: %s %s", manager.at, manager.got.Text)
	}
	token := manager.tokens("web", "openid "+apiAudience).text("access_token")
	if got := w.a.api(token, http.MethodGet, bob, ""); got.Status/100 == 2 {
		t.Errorf("it has roles: %d %s", got.Status, got.Text)
	}
	if got := w.a.api(token, http.MethodGet, usersPath+w.a.users["manager"].ID, ""); got.Status != http.StatusOK {
		t.Errorf("it does not act for the user: %d %s", got.Status, got.Text)
	}
	if got := w.a.api("boss", http.MethodPost, trust, `{"organizationOnly":true}`); got.Status != http.StatusOK {
		t.Fatalf("an owner of the organization trusts: %d %s", got.Status, got.Text)
	}
	w.soon("trusted", func() bool { return w.a.api(token, http.MethodGet, bob, "").Status == http.StatusOK })
	if got := manager.asked("web", "prompt", "none").result(); got.Get("code") == "" {
		t.Errorf("a trusted application asks: %v", got)
	}
	if got := w.a.api(builder, http.MethodPatch, appsPath+w.a.apps["web"].ID, `{"oidc":{"redirectUris":{"uris":["https://evil.example/cb"]}}}`); got.reason() != "APP_TRUSTED" {
		t.Errorf("an owner of the project changes what is trusted: %d %s", got.Status, got.Text)
	}
	olga := w.a.signedIn("olga")
	if outside := olga.tokens("web", "openid "+apiAudience).text("access_token"); w.a.api(outside, http.MethodGet, usersPath+w.a.users["olga"].ID, "").Status/100 == 2 {
		t.Error("trusted within its organization it acts for users of another one")
	}
}
