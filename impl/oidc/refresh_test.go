package oidc_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const offline = "openid offline_access"

func TestSEC090_RefreshTokensAreForTheirClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, app := range []string{"web", "post", "spa", "jwt", "plain"} {
		if got := b.tokens(app, "openid"); got.text("refresh_token") != "" {
			t.Errorf("%s: a refresh token without offline_access", app)
		}
		got := b.tokens(app, offline)
		token := got.text("refresh_token")
		if (token == "") != (app == "plain") || strings.Contains(got.text("scope"), "offline") != (token != "") {
			t.Errorf("%s: %s", app, got.Text)
		}
		if token == "" {
			continue
		}
		if len(token) < 60 || strings.Contains(token, ".") {
			t.Errorf("%s: a refresh token like %q", app, token)
		}
		for _, other := range []string{"web", "second", "post", "spa", "native", "jwt", "jwt2"} {
			if other != app {
				w.a.refused(app+"'s by "+other, w.a.refresh(other, token), "invalid_grant")
			}
		}
		w.b.refused(app+"'s on the other instance", w.b.refresh(app, token), "invalid_grant")
		known := w.a.apps[app]
		if app != "spa" { // alone it is worth nothing
			got := w.a.form(tokenPath, pairs("grant_type", "refresh_token", "refresh_token", token, "client_id", known.ClientID))
			w.a.refused(app+"'s by nobody", got, "invalid_client")
		}
		again := w.a.on(1).refresh(app, token)
		w.a.granted(app+"'s by itself", again) // none of them was a use
		if again.text("refresh_token") == "" || again.text("refresh_token") == token {
			t.Errorf("%s: no new refresh token: %s", app, again.Text)
		}
	}
}

func TestSEC091_SEC092_ARefreshTokenIsGoodOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, app := range []string{"web", "spa", "jwtweb"} {
		first := b.tokens(app, offline)
		second := w.a.on(1).refresh(app, first.text("refresh_token"))
		w.a.granted("second", second)
		third := w.a.refresh(app, second.text("refresh_token"))
		w.a.granted("third", third)
		family := []*answer{first, second, third}
		other := b.tokens(app, offline) // of the same client and user, but another code
		for _, one := range family {
			if !w.a.on(1).active("api", one.text("access_token")) {
				t.Errorf("%s: a token is not active before", app)
			}
		}
		w.a.refused(app+": the first again", w.a.refresh(app, first.text("refresh_token")), "invalid_grant")
		for i, one := range family {
			for node := range 2 {
				at := w.a.on(node)
				if at.active("api", one.text("access_token")) || at.userinfo(one.text("access_token")).Status != http.StatusUnauthorized {
					t.Errorf("%s: access token %d is good after it", app, i)
				}
				w.a.refused(fmt.Sprintf("%s: refresh token %d", app, i), at.refresh(app, one.text("refresh_token")), "invalid_grant")
			}
		}
		if !w.a.active("api", other.text("access_token")) {
			t.Errorf("%s: the other family ended too", app)
		}
		w.a.granted(app+": of the other family", w.a.refresh(app, other.text("refresh_token")))
	}
	if n := w.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND event_type = 'oidc_session.refresh_token.revoked' AND payload::text LIKE '%reuse%'", w.a.instance()); n != "3" {
		t.Errorf("%s events of reuse, want 3", n)
	}
}

func TestSEC094_ScopesNarrowAndNeverWiden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	tokens := b.tokens("web", "openid offline_access email "+urn+"org:project:role:reader")
	token := tokens.text("refresh_token")
	for _, scope := range []string{"openid profile", "openid offline_access email phone", "openid " + urn + "org:project:id:service:aud", urn + "org:project:role:writer", "openid \"", "EMAIL", "openid emai"} {
		w.a.refused(scope, w.a.refresh("web", token, "scope", scope), "invalid_scope") // and it is not used up
	}
	narrow := w.a.refresh("web", token, "scope", "openid email")
	access := w.a.granted("narrower", narrow)
	if narrow.text("scope") != "openid email" || w.a.introspect("api", access).text("scope") != "openid email" {
		t.Errorf("narrower: %s", narrow.Text)
	}
	if got := w.a.userinfo(access); got.text("email") == "" || got.Body["phone_number"] != nil || strings.Contains(got.Text, "roles") {
		t.Errorf("narrower: %s", got.Text)
	}
	w.a.refused("wider", w.a.refresh("web", narrow.text("refresh_token"), "scope", "openid profile"), "invalid_scope")
	again := w.a.refresh("web", narrow.text("refresh_token"))
	w.a.granted("without", again)
	if again.text("scope") != tokens.text("scope") {
		t.Errorf("without scope: %q, want %q", again.text("scope"), tokens.text("scope"))
	}
	without := w.a.refresh("web", again.text("refresh_token"), "scope", "email")
	w.a.granted("without openid", without)
	if without.text("id_token") != "" || w.a.userinfo(without.text("access_token")).Status == http.StatusOK {
		t.Errorf("without openid: %s", without.Text)
	}
}

func TestSEC095_RefreshTokensEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	const day = 24 * time.Hour
	idle := b.tokens("web", offline).text("refresh_token")
	used := b.tokens("web", offline)
	began := used.text("access_token")
	for range 3 {
		w.wait(29 * day)
		if w.a.active("api", used.text("access_token")) {
			t.Error("an access token of a month ago is active")
		}
		used = w.a.refresh("web", used.text("refresh_token"))
		w.a.granted("every 29 days", used)
	}
	w.a.refused("after a long time without use", w.a.refresh("web", idle), "invalid_grant")
	w.wait(4 * day) // 91 days: however often it was used
	w.a.refused("after 90 days", w.a.refresh("web", used.text("refresh_token")), "invalid_grant")
	if w.a.active("api", began) {
		t.Error("the first access token is active")
	}
	fresh := w.a.signedIn("alice").tokens("web", offline).text("refresh_token")
	w.wait(30*day - time.Second)
	got := w.a.refresh("web", fresh)
	w.a.granted("just in time", got)
	w.wait(30 * day)
	w.a.refused("just too late", w.a.refresh("web", got.text("refresh_token")), "invalid_grant")
}

func TestSEC097_AChangedPasswordEndsOtherSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.a.signedIn("alice"), w.a.signedIn("alice")
	tokens := first.tokens("web", offline)
	w.wait(time.Second)
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["alice"].ID+"/password", `{"plain":"another horse, correct"}`)
	for name, b := range map[string]*agent{"first": first, "second": second} {
		if got := b.authorize("web", "prompt", "none"); got.Get("error") != "login_required" {
			t.Errorf("the %s session goes on: %v", name, got)
		}
	}
	for node := range 2 {
		if w.a.on(node).active("api", tokens.text("access_token")) {
			t.Errorf("node %d: an access token of before is active", node)
		}
		w.a.refused("a refresh token of before", w.a.on(node).refresh("web", tokens.text("refresh_token")), "invalid_grant")
	}
	if got := w.a.signedIn("bob").authorize("web", "prompt", "none"); !got.Has("code") {
		t.Errorf("somebody else's session ended: %v", got)
	}
	first.open(authorizePath + "?" + w.a.request("web").Encode())
	first.fill("loginName", w.a.users["alice"].LoginName).fill("password", password)
	if first.result() != nil {
		t.Error("the old password is good")
	}
	first.fill("password", "another horse, correct")
	if !first.result().Has("code") {
		t.Errorf("the new password is not good: %s", first.got.Text)
	}
}

func TestSEC098_WhatIsTakenAwayIsGoneAtTheNextRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	reader, writer := urn+"org:project:role:reader", urn+"org:project:role:writer"
	roles := func(token string) string {
		return fmt.Sprint(w.a.introspect("api", token).Body[urn+"org:project:roles"])
	}
	tokens := b.tokens("jwtweb", offline+" "+reader+" "+writer)
	want := "map[reader:map[" + w.a.users["alice"].OrgID + ":org-a.example] writer:map[" + w.a.users["alice"].OrgID + ":org-a.example]]"
	if got := roles(tokens.text("access_token")); got != want {
		t.Fatalf("roles are %s, want %s", got, want)
	}
	// A role of the user.
	grant := w.value("SELECT id FROM user_grants WHERE instance_id = $1 AND user_id = $2 AND project_id = $3", w.a.instance(), w.a.users["alice"].ID, w.a.projects["P"])
	w.a.must(http.MethodPatch, "/resources/v3alpha/user_grants/"+grant, `{"roleKeys":{"keys":["reader"]}}`)
	for node := range 2 {
		if got := fmt.Sprint(w.a.on(node).introspect("api", tokens.text("access_token")).Body[urn+"org:project:roles"]); strings.Contains(got, "writer") || !strings.Contains(got, "reader") {
			t.Errorf("node %d: roles are %s at once", node, got)
		}
	}
	tokens = w.a.on(1).refresh("jwtweb", tokens.text("refresh_token"))
	if _, body := claims(w.a.granted("refresh", tokens)); strings.Contains(fmt.Sprint(body[urn+"org:project:roles"]), "writer") {
		t.Errorf("the refreshed JWT has %v", body)
	}
	// A role of the project.
	role := w.value("SELECT id FROM project_roles WHERE instance_id = $1 AND project_id = $2 AND key = 'writer'", w.a.instance(), w.a.projects["P"])
	w.a.must(http.MethodDelete, "/resources/v3alpha/roles/"+role, "")
	w.soon("the scope of a role that is gone", func() bool {
		tokens = w.a.refresh("jwtweb", tokens.text("refresh_token"))
		w.a.granted("refresh", tokens)
		return tokens.text("scope") == offline+" "+reader
	})
	// The grant as a whole, inactive and active again, then gone.
	at := "/resources/v3alpha/user_grants/" + grant
	w.a.must(http.MethodPost, at+"/_deactivate", "{}")
	if got := roles(tokens.text("access_token")); got != "<nil>" {
		t.Errorf("roles of an inactive grant: %s", got)
	}
	w.a.must(http.MethodPost, at+"/_activate", "{}")
	if got := roles(tokens.text("access_token")); !strings.Contains(got, "reader") {
		t.Errorf("roles of an active grant: %s", got)
	}
	w.a.must(http.MethodDelete, at, "")
	if got := roles(tokens.text("access_token")); got != "<nil>" {
		t.Errorf("roles without a grant: %s", got)
	}
	// The project that was granted to the organization of the user.
	olga := w.a.users["olga"]
	project := w.value("SELECT id FROM project_grants WHERE instance_id = $1 AND project_id = $2", w.a.instance(), w.a.projects["P"])
	w.a.must(http.MethodPost, "/resources/v3alpha/user_grants", `{"userId":%q,"projectId":%q,"projectGrantId":%q,"roleKeys":["reader"]}`, olga.ID, w.a.projects["P"], project)
	theirs := w.a.signedIn("olga").tokens("web", "openid "+reader).text("access_token")
	if got := roles(theirs); !strings.Contains(got, olga.OrgID+":org-o.example") {
		t.Errorf("roles by a project grant: %s", got)
	}
	w.a.must(http.MethodPost, "/resources/v3alpha/project_grants/"+project+"/_deactivate", "{}")
	if got := roles(theirs); got != "<nil>" {
		t.Errorf("roles by an inactive project grant: %s", got)
	}
	// offline_access, by the grant type.
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["jwtweb"].ID, `{"oidc":{"grantTypes":{"types":["GRANT_TYPE_AUTHORIZATION_CODE"]}}}`)
	w.soon("no refresh any more", func() bool {
		got := w.a.refresh("jwtweb", tokens.text("refresh_token"))
		if got.Status == http.StatusOK {
			tokens = got
		}
		return got.text("error") == "unauthorized_client"
	})
}

// TestSEC093_SEC096 switches off what a token is about, each in turn, and asks
// everywhere whether it is still good: at once on the same node, within a second on
// the other.
func TestSEC093_SEC096_WhoIsOffIsOffEverywhere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		user    string // whose token it is
		off, on func(w *world) string
		revives bool // when it is switched on again
		pat     bool // it is about a service user, who has a PAT
	}{
		{name: "user", user: "alice", off: action("users", "alice", "_deactivate"), on: action("users", "alice", "_activate")},
		{name: "locked user", user: "alice", off: action("users", "alice", "_lock"), on: action("users", "alice", "_unlock")},
		{name: "deleted user", user: "alice", off: action("users", "alice", "")},
		{name: "organization", user: "olga", off: func(w *world) string {
			return "/resources/v3alpha/organizations/" + w.a.users["olga"].OrgID + "/_deactivate"
		},
			on: func(w *world) string {
				return "/resources/v3alpha/organizations/" + w.a.users["olga"].OrgID + "/_activate"
			}, revives: true},
		{name: "project", user: "alice", off: func(w *world) string { return "/resources/v3alpha/projects/" + w.a.projects["Q"] + "/_deactivate" },
			on: func(w *world) string { return "/resources/v3alpha/projects/" + w.a.projects["Q"] + "/_activate" }, revives: true},
		{name: "app", user: "alice", off: func(w *world) string { return "/resources/v3alpha/apps/" + w.a.apps["qweb"].ID + "/_deactivate" },
			on: func(w *world) string { return "/resources/v3alpha/apps/" + w.a.apps["qweb"].ID + "/_activate" }, revives: true},
		{name: "deleted app", user: "alice", off: func(w *world) string { return "/resources/v3alpha/apps/" + w.a.apps["qweb"].ID }},
		{name: "session", user: "alice"},
		{name: "service user", user: "robot", off: action("users", "robot", "_deactivate"), on: action("users", "robot", "_activate"), pat: true},
		{name: "deleted service user", user: "robot", off: action("users", "robot", ""), pat: true},
		{name: "instance", user: "alice", off: func(*world) string { return "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const scope = offline + " " + urn + "org:project:id:service:aud"
			tokens := map[string]*answer{}
			var b *agent
			if test.pat {
				tokens["PAT"] = &answer{Body: map[string]any{"access_token": w.a.users["robot"].Token}}
				tokens["opaque"] = w.a.service("robot", scope+" "+urn+"org:project:id:"+w.a.projects["P"]+":aud")
			} else {
				b = w.a.signedIn(test.user)
				tokens["opaque"], tokens["JWT"] = b.tokens("qweb", scope+" "+urn+"org:project:id:"+w.a.projects["P"]+":aud"), nil
				w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["qweb"].ID, `{"oidc":{"accessTokenType":"ACCESS_TOKEN_TYPE_JWT"}}`)
				w.soon("JWT", func() bool {
					tokens["JWT"] = b.tokens("qweb", scope+" "+urn+"org:project:id:"+w.a.projects["P"]+":aud")
					return strings.HasPrefix(tokens["JWT"].text("access_token"), "eyJ")
				})
			}
			self := "/resources/v3alpha/users/" + w.a.users[test.user].ID
			// good asks a node everywhere; refresh and code are used up by it.
			good := func(node int, form string) (where []string) {
				at, token := w.a.on(node), tokens[form].text("access_token")
				if got := at.introspect("api", token); got.Body["active"] == true {
					where = append(where, "introspection")
				}
				if form != "PAT" && at.userinfo(token).Status == http.StatusOK {
					where = append(where, "userinfo")
				}
				if at.api(token, http.MethodGet, self, "").Status == http.StatusOK {
					where = append(where, "API")
				}
				return where
			}
			all := func() bool { // on both nodes, so that both remember it
				for form := range tokens {
					for node := range 2 {
						want := 3
						if form == "PAT" {
							want = 2
						}
						if where := good(node, form); len(where) != want {
							return false
						}
					}
				}
				return true
			}
			if !all() {
				t.Fatal("not good before")
			}
			code := ""
			if b != nil {
				code = b.code("qweb")
			}
			var owner *answer
			switch {
			case test.name == "session":
				w.a.must(http.MethodDelete, "/resources/v3alpha/sessions/"+b.sessionID(), "")
			case test.name == "instance":
				if _, err := w.db.Pool.Exec(t.Context(), "UPDATE instances SET blocked = true WHERE id = $1", w.a.instance()); err != nil {
					t.Fatal(err)
				}
				for node := range 2 {
					w.soon("blocked", func() bool { return len(good(node, "opaque"))+len(good(node, "JWT")) == 0 })
				}
				if got := w.a.redeem("qweb", code); got.Status == http.StatusOK {
					t.Error("a code is redeemed")
				}
				return
			case strings.HasPrefix(test.name, "deleted"):
				owner = w.a.api("owner", http.MethodDelete, test.off(w), "")
			default:
				owner = w.a.api("owner", http.MethodPost, test.off(w), "{}")
			}
			if owner != nil && owner.Status/100 != 2 {
				t.Fatalf("switching off: %d %s", owner.Status, owner.Text)
			}
			for form := range tokens {
				// The resource API remembers its callers for a second, also on the node that
				// was told of a session or an application; the other endpoints ask anew.
				where := good(0, form)
				if slices.Contains(where, "introspection") || slices.Contains(where, "userinfo") {
					t.Errorf("%s is good on the same node at %v", form, where)
				}
				for node := range 2 {
					w.soon(form+" at last", func() bool { return len(good(node, form)) == 0 })
				}
			}
			if b != nil {
				for form := range tokens {
					if got := w.a.refresh("qweb", tokens[form].text("refresh_token")); test.name != "session" && got.Status == http.StatusOK {
						t.Errorf("%s: a refresh: %d %s", form, got.Status, got.Text)
					}
				}
				if got := w.a.on(1).redeem("qweb", code); got.Status == http.StatusOK {
					t.Errorf("a code is redeemed: %s", got.Text)
				}
			}
			if test.on == nil {
				return
			}
			w.a.must(http.MethodPost, test.on(w), "{}")
			if test.revives {
				w.soon("it is on again", func() bool { return all() })
				return
			}
			for form := range tokens {
				if where := good(0, form); form != "PAT" && len(where) > 0 {
					t.Errorf("%s is good again at %v", form, where)
				}
			}
		})
	}
}

// action returns the path of something to do to a user.
func action(kind, name, what string) func(w *world) string {
	return func(w *world) string {
		path := "/resources/v3alpha/" + kind + "/" + w.a.users[name].ID
		if what != "" {
			path += "/" + what
		}
		return path
	}
}
