package oidc_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ends are for how many seconds the tokens of an answer are good, by what they say.
func (s *side) ends(got *answer) (access, id int64) {
	s.Helper()
	access = int64(got.Body["expires_in"].(float64))
	if text := got.text("id_token"); text != "" {
		_, body := claims(text)
		id = int64(body["exp"].(float64)) - s.now().Unix()
	}
	return access, id
}

// TestSEC095_LifetimesAreSetByTenantsAndApplications sets them, and takes tokens by each grant.
func TestSEC095_LifetimesAreSetByTenantsAndApplications(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	long := b.tokens("web", offline)
	if access, id := w.a.ends(long); access != 43200 || id != 43200 {
		t.Fatalf("by default: %d %d", access, id)
	}
	w.a.must(http.MethodPatch, "/settings/v3alpha/lifetimes", `{"accessTokenLifetime":"600s","idTokenLifetime":"300s","refreshTokenIdleLifetime":"7200s","refreshTokenLifetime":"14400s"}`)
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["second"].ID, `{"oidc":{"accessTokenLifetime":"120s","idTokenLifetime":"60s"}}`)
	for node := range 2 {
		w.soon("they count", func() bool {
			first, _ := w.a.ends(w.a.on(node).service("robot", "openid"))
			second, _ := w.a.ends(w.a.on(node).redeem("second", b.code("second")))
			return first == 600 && second == 120
		})
	}
	is := func(what string, got *answer, access, id int64) {
		t.Helper()
		w.a.granted(what, got)
		if a, i := w.a.ends(got); a != access || i != id {
			t.Errorf("%s: access %d, ID %d seconds; want %d, %d", what, a, i, access, id)
		}
		if told := w.a.introspect("api", got.text("access_token")); told.Body["active"] == true && int64(told.Body["exp"].(float64)) != w.now().Unix()+access {
			t.Errorf("%s: introspection says %v", what, told.Text)
		}
	}
	code := b.tokens("web", offline)
	is("a code", code, 600, 300)
	is("a code of an application that says its own", b.tokens("second", "openid"), 120, 60)
	is("a JWT", b.tokens("jwtweb", "openid"), 600, 300)
	_, body := claims(b.tokens("jwtweb", "openid").text("access_token"))
	if body["exp"].(float64) != float64(w.now().Unix()+600) {
		t.Errorf("the JWT says %v", body["exp"])
	}
	is("client credentials", w.a.service("robot", "openid"), 600, 0)
	is("an assertion", w.a.form(tokenPath, pairs("grant_type", grantJWT, "assertion", w.a.assertion("robot", nil), "scope", "openid")), 600, 300)
	is("an exchange", w.a.exchange("web", "subject_token", code.text("access_token")), 600, 300)
	is("an exchange of a long token", w.a.exchange("second", "subject_token", long.text("access_token")), 120, 60)
	short := b.tokens("second", "openid")
	is("an exchange of a short token", w.a.exchange("web", "subject_token", short.text("access_token")), 120, 120)
	is("an exchange for an ID token", w.a.exchange("web", "subject_token", code.text("access_token"), "requested_token_type", typeID), 300, 0)
	for kind, life := range map[string]int64{"id_token": 300, "id_token token": 600} {
		got := b.authorize("implicit", "response_type", kind, "scope", "openid", "nonce", "n")
		if got.Get("expires_in") != strconv.FormatInt(life, 10) {
			t.Errorf("%s: %v", kind, got)
		}
		if _, body := claims(got.Get("id_token")); body["exp"].(float64) != float64(w.now().Unix()+300) {
			t.Errorf("%s: the ID token ends %v", kind, body["exp"])
		}
	}

	// Unused for two hours a refresh token ends; used it lives for four in all.
	unused := b.tokens("web", offline).text("refresh_token")
	w.wait(time.Hour + 59*time.Minute)
	if w.a.active("api", code.text("access_token")) {
		t.Error("the access token outlived its ten minutes")
	}
	used := w.a.refresh("web", code.text("refresh_token"))
	is("a refresh", used, 600, 300)
	w.wait(time.Minute)
	w.a.refused("an unused refresh token", w.a.refresh("web", unused), "invalid_grant")
	w.wait(time.Hour + 58*time.Minute)
	used = w.a.refresh("web", used.text("refresh_token"))
	is("a refresh near the end of all", used, 120, 300)
	w.wait(2 * time.Minute)
	w.a.refused("a refresh after the end of all", w.a.refresh("web", used.text("refresh_token")), "invalid_grant")
	// What was issued before keeps its end; an ended ID token is a hint still.
	w.a.granted("an old refresh token", w.a.refresh("web", long.text("refresh_token")))
	hint := w.a.call(http.MethodGet, "/oidc/v1/end_session?"+url.Values{"id_token_hint": {code.text("id_token")}, "post_logout_redirect_uri": {"https://app.example/bye"}}.Encode(), "")
	if hint.Status >= 400 {
		t.Errorf("a log-out with an ended hint: %d %s", hint.Status, hint.Text)
	}
}

func TestSEC095_LifetimesHaveBoundsAndAreInherited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const at = "/settings/v3alpha/lifetimes"
	for body, field := range map[string]string{
		`{"accessTokenLifetime":"59s"}`: "accessTokenLifetime", `{"accessTokenLifetime":"43201s"}`: "accessTokenLifetime", `{"idTokenLifetime":"1s"}`: "idTokenLifetime",
		`{"refreshTokenLifetime":"94608001s"}`: "refreshTokenLifetime", `{"refreshTokenIdleLifetime":"3599s"}`: "refreshTokenIdleLifetime",
		`{"sessionIdleLifetime":"-1s"}`: "sessionIdleLifetime", `{"sessionIdleLifetime":"864001s"}`: "sessionIdleLifetime",
		`{"sessionIdleLifetime":"299s"}`: "sessionIdleLifetime", `{"sessionLifetime":"299s"}`: "sessionLifetime", `{"sessionLifetime":"7776001s"}`: "sessionLifetime", `{"accessTokenLifetime":"59.999s"}`: "accessTokenLifetime",
	} {
		if got := w.a.api("owner", http.MethodPatch, at, body); got.Status != http.StatusBadRequest || !strings.Contains(got.Text, field) {
			t.Errorf("%s: %d %s", body, got.Status, got.Text)
		}
		if strings.HasPrefix(field, "session") {
			continue
		}
		if got := w.a.api("owner", http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["web"].ID, `{"oidc":`+body+`}`); got.Status != http.StatusBadRequest || !strings.Contains(got.Text, field) {
			t.Errorf("an application, %s: %d %s", body, got.Status, got.Text)
		}
	}
	if got := w.a.api("robot", http.MethodPatch, at, `{"accessTokenLifetime":"600s"}`); got.Status != http.StatusForbidden {
		t.Errorf("without the permission: %d %s", got.Status, got.Text)
	}
	org := w.value("SELECT org_id FROM apps WHERE id = $1", w.a.apps["web"].ID)
	said := func() any {
		settings := w.a.must(http.MethodGet, at+"?ctx.orgId="+org, "")["settings"].(map[string]any)
		return settings["accessTokenLifetime"].(map[string]any)["value"]
	}
	for _, step := range []struct{ at, body, want string }{
		{at, `{"accessTokenLifetime":"600s"}`, "600s"}, {at + "?ctx.orgId=" + org, `{"accessTokenLifetime":"60s"}`, "60s"},
		{at + "?ctx.orgId=" + org, `{"accessTokenLifetime":"0s"}`, "600s"}, {at, `{"accessTokenLifetime":"0s"}`, "43200s"},
	} {
		w.a.must(http.MethodPatch, step.at, step.body)
		if got := said(); got != step.want {
			t.Errorf("after %s %s: %v, want %s", step.at, step.body, got, step.want)
		}
	}
}

// TestSEC095_NobodyLengthensALifetime: an organization and an application say less than what
// is said above them, never more, however the words came about.
func TestSEC095_NobodyLengthensALifetime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const at = "/settings/v3alpha/lifetimes"
	org := w.value("SELECT org_id FROM apps WHERE id = $1", w.a.apps["web"].ID)
	own := at + "?ctx.orgId=" + org
	applies := func(want string, owner string) {
		t.Helper()
		got := w.a.must(http.MethodGet, own, "")["settings"].(map[string]any)["accessTokenLifetime"].(map[string]any)
		of, _ := got["owner"].(map[string]any)
		if kind, _ := of["type"].(string); got["value"] != want || kind != owner {
			t.Errorf("got %v, want %s of %s", got, want, owner)
		}
	}
	w.a.must(http.MethodPatch, own, `{"accessTokenLifetime":"1200s"}`)
	applies("1200s", "")
	w.a.must(http.MethodPatch, at, `{"accessTokenLifetime":"600s"}`) // later, and shorter
	applies("600s", "OWNER_TYPE_INSTANCE")
	if got := w.a.api("owner", http.MethodPatch, own, `{"accessTokenLifetime":"601s"}`); got.Status != http.StatusBadRequest || !strings.Contains(got.Text, "LIFETIME_TOO_LONG") || !strings.Contains(got.Text, "accessTokenLifetime") {
		t.Errorf("longer than the instance says: %d %s", got.Status, got.Text)
	}
	w.a.must(http.MethodPatch, own, `{"idTokenLifetime":"300s"}`) // of which the instance says nothing
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["web"].ID, `{"oidc":{"accessTokenLifetime":"43200s","idTokenLifetime":"43200s"}}`)
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["second"].ID, `{"oidc":{"accessTokenLifetime":"120s"}}`)
	b := w.a.signedIn("alice")
	w.soon("they count", func() bool {
		web, id := w.a.ends(b.tokens("web", "openid"))
		second, _ := w.a.ends(b.tokens("second", "openid"))
		return web == 600 && id == 300 && second == 120
	})
	w.a.must(http.MethodPatch, at, `{"accessTokenLifetime":"0s"}`)
	applies("1200s", "")
}
