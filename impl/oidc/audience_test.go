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
