package oidc_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestSEC098_SEC102_AnAudienceIsAskedForNotCopied: once a project is taken from the organization
// of an application, or suspended there, neither its refresh tokens nor exchanges of its tokens
// are for the project any more, asked for by name or not.
func TestSEC098_SEC102_AnAudienceIsAskedForNotCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := w.foreignProject()
	grant := w.a.must(http.MethodPost, "/resources/v3alpha/project_grants", `{"projectId":%q,"grantedOrgId":%q}`, foreign, w.a.users["alice"].OrgID)["details"].(map[string]any)["id"].(string)
	alice := w.a.signedIn("alice")
	scope := offline + " " + urn + "org:project:id:" + foreign + ":aud"
	audience := func(what string, got *answer) []string {
		w.Helper()
		_, body := claims(w.a.granted(what, got))
		return strings.Fields(strings.Trim(fmt.Sprint(body["aud"]), "[]"))
	}
	tokens := alice.tokens("jwtweb", scope)
	code := alice.code("jwtweb", "scope", scope)
	if !slices.Contains(audience("before", tokens), foreign) {
		t.Fatalf("the token is not for the project: %s", tokens.Text)
	}
	for _, way := range []struct{ method, path string }{
		{http.MethodPost, "/resources/v3alpha/project_grants/" + grant + "/_deactivate"},
		{http.MethodDelete, "/resources/v3alpha/project_grants/" + grant},
	} {
		w.a.must(way.method, way.path, "")
		exchange := func(changes ...string) *answer {
			return w.a.exchange("jwtweb", append([]string{"subject_token", tokens.text("access_token"), "requested_token_type", typeJWT}, changes...)...)
		}
		w.soon(way.path+": by name", func() bool { return exchange("audience", foreign).text("error") == "invalid_request" })
		if got := audience("an exchange", exchange()); slices.Contains(got, foreign) {
			t.Errorf("%s: an exchange is for %v", way.path, got)
		}
		refreshed := w.a.refresh("jwtweb", tokens.text("refresh_token"))
		if got := audience("a refresh", refreshed); slices.Contains(got, foreign) || len(got) != 2 {
			t.Errorf("%s: a refresh is for %v", way.path, got)
		}
		tokens.Body["refresh_token"] = refreshed.Body["refresh_token"]
		if code != "" {
			if got := audience("a code", w.a.redeem("jwtweb", code)); slices.Contains(got, foreign) {
				t.Errorf("%s: a code of before is for %v", way.path, got)
			}
			code = ""
		}
	}
}

// TestSEC103_WhoMayActNoLongerDoesNot: a token in the name of somebody ends with the role that
// let its actor act, at each place it is used, and so does one in a chain behind it.
func TestSEC103_WhoMayActNoLongerDoesNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.a.signedIn("alice").tokens("web", "openid").text("access_token")
	helper := w.a.service("helper", "openid").text("access_token")
	acting := w.a.granted("acting", w.a.exchange("web", "subject_token", alice, "actor_token", helper, "actor_token_type", typeAccess))
	chained := w.a.granted("chained", w.a.exchange("web", "subject_token", w.a.users["alice"].ID, "subject_token_type", typeUser, "actor_token", acting, "actor_token_type", typeAccess))
	id := w.value("SELECT id FROM memberships WHERE instance_id = $1 AND user_id = $2", w.a.instance(), w.a.users["helper"].ID)
	for what, token := range map[string]string{"acting": acting, "chained": chained} {
		if !w.a.active("api", token) {
			t.Fatalf("%s: it is not active with the role", what)
		}
	}
	w.a.must(http.MethodDelete, "/resources/v3alpha/memberships/"+id, "")
	for what, token := range map[string]string{"acting": acting, "chained": chained} {
		if w.a.on(1).active("api", token) {
			t.Errorf("%s: it is active without the role", what)
		}
		if got := w.a.userinfo(token); got.Status != http.StatusUnauthorized {
			t.Errorf("%s: userinfo answers %d", what, got.Status)
		}
		w.a.refused(what+": exchanged", w.a.exchange("web", "subject_token", token), "invalid_request")
	}
}

// TestSEC115_ARoleUnaskedShowsNoTokens: whoever gives a service user of another organization a
// role in a project of theirs, directly or by a grant of the project, learns nothing of its tokens.
func TestSEC115_ARoleUnaskedShowsNoTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := w.foreignProject()
	w.a.must(http.MethodPost, "/resources/v3alpha/roles", `{"projectId":%q,"key":"r","displayName":"R"}`, foreign)
	made := w.a.must(http.MethodPost, "/resources/v3alpha/apps", `{"projectId":%q,"name":"spy","api":{"authMethodType":"AUTH_METHOD_TYPE_BASIC"}}`, foreign)
	robot := w.a.users["robot"]
	spies := func() bool {
		got := w.a.form(introspectPath, pairs("token", robot.Token), basic(made["clientId"].(string), made["clientSecret"].(string)))
		if got.Status != http.StatusOK {
			t.Fatalf("the application of the other organization: %d %s", got.Status, got.Text)
		}
		return got.Body["active"] == true
	}
	w.a.must(http.MethodPost, "/resources/v3alpha/memberships", `{"userId":%q,"roles":["PROJECT_OWNER"],"projectId":%q}`, w.a.users["visitor"].ID, foreign)
	visitor := w.a.granted("an owner of the project", w.a.service("visitor", "openid "+apiAudience))
	if got := w.a.api(visitor, http.MethodPost, "/resources/v3alpha/user_grants", fmt.Sprintf(`{"userId":%q,"projectId":%q,"roleKeys":["r"]}`, robot.ID, foreign)); got.Status != http.StatusCreated || spies() {
		t.Errorf("given the role unasked its tokens are shown: %d %s", got.Status, got.Text)
	}
	grant := w.a.api(visitor, http.MethodPost, "/resources/v3alpha/project_grants", fmt.Sprintf(`{"projectId":%q,"grantedOrgId":%q,"roleKeys":["r"]}`, foreign, robot.OrgID))
	if grant.Status != http.StatusCreated {
		t.Fatalf("a grant of the project: %d %s", grant.Status, grant.Text)
	}
	id := grant.Body["details"].(map[string]any)["id"].(string)
	if got := w.a.api(visitor, http.MethodPost, "/resources/v3alpha/user_grants", fmt.Sprintf(`{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["r"]}`, robot.ID, foreign, id)); got.Status/100 == 2 || spies() {
		t.Errorf("the owner of a project gives roles in the name of another organization: %d %s", got.Status, got.Text)
	}
	// Nor by making themself the owner of the grant that they made.
	w.a.must(http.MethodPost, "/resources/v3alpha/memberships", `{"userId":%q,"roles":["PROJECT_GRANT_OWNER"],"projectGrantId":%q}`, w.a.users["visitor"].ID, id)
	const give = `{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["r"]}`
	w.soon("the membership counts", func() bool {
		return w.a.api(visitor, http.MethodPost, "/resources/v3alpha/user_grants", fmt.Sprintf(give, w.a.users["alice"].ID, foreign, id)).Status == http.StatusCreated
	})
	if got := w.a.api(visitor, http.MethodPost, "/resources/v3alpha/user_grants", fmt.Sprintf(give, robot.ID, foreign, id)); got.Status != http.StatusForbidden || spies() {
		t.Errorf("the owner of the grant gives a service user roles in the name of its organization: %d %s", got.Status, got.Text)
	}
	own := w.a.must(http.MethodPost, "/resources/v3alpha/user_grants", give, robot.ID, foreign, id)["details"].(map[string]any)["id"].(string)
	if !spies() {
		t.Error("by the word of its own organization the user is known")
	}
	at := "/resources/v3alpha/user_grants/" + own
	w.a.must(http.MethodPost, at+"/_deactivate", `{}`)
	if got := w.a.api(visitor, http.MethodPost, at+"/_activate", `{}`); got.Status != http.StatusForbidden || spies() {
		t.Errorf("what its organization took back somebody else gives again: %d %s", got.Status, got.Text)
	}
}
