package oidc_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/gen/db"
)

const usersPath = "/resources/v3alpha/users/"

// keep makes grants as somebody with a stolen session would: authorize without a
// question, redeem at once, on both nodes, until stop is closed. It returns all that it
// was given.
func (b *batch) keep(stop <-chan struct{}) []*answer {
	var mu sync.Mutex
	var got []*answer
	var group sync.WaitGroup
	for lane := range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				at := b.on(lane % 2)
				res := at.call(http.MethodGet, authorizePath+"?"+b.request("web", "scope", offline, "prompt", "none").Encode(), "", header("Cookie", b.cookie))
				to, err := url.Parse(res.Header.Get("Location"))
				if err != nil || to.Query().Get("code") == "" {
					continue // it has ended
				}
				if tokens := at.redeem("web", to.Query().Get("code")); tokens.Status == http.StatusOK {
					mu.Lock()
					got = append(got, tokens)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return got
}

// TestSEC097_NothingBegunBeforeLivesOn: while a stolen session makes grants as fast as it
// can, everything that is to end it ends every one of them.
func TestSEC097_NothingBegunBeforeLivesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := usersPath + w.a.users["alice"].ID
	current := password
	endings := []func(){
		func() {
			next := fmt.Sprintf("password number %d, correct", len(current))
			w.a.must(http.MethodPost, alice+"/password", `{"plain":"`+next+`"}`)
			current = next
		},
		func() { w.a.must(http.MethodPost, alice+"/_lock", ""); w.a.must(http.MethodPost, alice+"/_unlock", "") },
		func() {
			w.a.must(http.MethodPost, alice+"/_deactivate", "")
			w.a.must(http.MethodPost, alice+"/_activate", "")
		},
	}
	count := 0
	for i := range 12 {
		b := &batch{w.a, "__Host-writ_sessions=" + w.a.signedInWith(current, "alice").cookie("__Host-writ_sessions")}
		stop, made := make(chan struct{}), make(chan []*answer)
		go func() { made <- b.keep(stop) }()
		first := w.a.redeem("web", b.code("web", offline))
		endings[i%len(endings)]()
		close(stop)
		for _, tokens := range append(<-made, first) {
			count++
			if w.a.active("api", tokens.text("access_token")) {
				t.Errorf("ending %d: an access token of before is active", i%len(endings))
			}
			w.a.refused("a refresh token of before", w.a.on(1).refresh("web", tokens.text("refresh_token")), "invalid_grant")
		}
		if res := w.a.call(http.MethodGet, authorizePath+"?"+b.request("web", "prompt", "none").Encode(), "", header("Cookie", b.cookie)); !strings.Contains(res.Header.Get("Location"), "login_required") {
			t.Errorf("ending %d: the session goes on: %s", i%len(endings), res.Header.Get("Location"))
		}
	}
	if count < 24 {
		t.Errorf("only %d families were begun: this proves nothing", count)
	}
}

// TestSEC097_ComingBackRevivesNothing: codes, refresh tokens and sessions of before a lock
// or a deactivation stay dead after it was taken back.
func TestSEC097_ComingBackRevivesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scope := "openid " + urn + "org:project:id:" + w.a.projects["P"] + ":aud"
	for _, way := range [][2]string{{"_lock", "_unlock"}, {"_deactivate", "_activate"}} {
		for name, user := range map[string]string{"alice": w.a.users["alice"].ID, "robot": w.a.users["robot"].ID} {
			var b *agent
			var tokens *answer
			var code string
			robot := w.a.granted("robot", w.a.service("robot", scope))
			jwt := w.a.granted("jwtrobot", w.a.service("jwtrobot", scope))
			if name == "alice" {
				b = w.a.signedIn("alice")
				tokens = b.tokens("web", offline)
				code = b.authorize("web").Get("code")
			}
			w.a.must(http.MethodPost, usersPath+user+"/"+way[0], "")
			w.a.must(http.MethodPost, usersPath+user+"/"+way[1], "")
			if name == "robot" {
				if w.a.active("api", robot) {
					t.Errorf("%s: the token of the service is active", way)
				}
				if !w.a.active("api", jwt) {
					t.Errorf("%s: the token of another service is not active", way)
				}
				continue
			}
			if w.a.active("api", tokens.text("access_token")) {
				t.Errorf("%s: the access token is active", way)
			}
			w.a.refused("the refresh token", w.a.refresh("web", tokens.text("refresh_token")), "invalid_grant")
			w.a.refused("the code", w.a.redeem("web", code), "invalid_grant")
			if got := b.authorize("web", "prompt", "none"); got.Get("error") != "login_required" {
				t.Errorf("%s: the session goes on: %v", way, got)
			}
		}
	}
}

// TestSEC059_WhatASecretWasGoodForEndsWithIt: a service user whose secret or key is taken
// away has no tokens any more, opaque or JWT.
func TestSEC059_WhatASecretWasGoodForEndsWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scope := "openid " + urn + "org:project:id:" + w.a.projects["P"] + ":aud"
	for _, name := range []string{"robot", "jwtrobot"} {
		id := w.a.users[name].ID
		token := w.a.granted(name, w.a.service(name, scope))
		byKey := w.a.granted(name, w.a.form(tokenPath, pairs("grant_type", grantJWT, "scope", scope, "assertion", w.a.assertion(name, nil))))
		if !w.a.active("api", token) || !w.a.active("api", byKey) {
			t.Fatalf("%s: not active before", name)
		}
		w.a.must(http.MethodDelete, usersPath+id+"/secret", "")
		if w.a.active("api", token) {
			t.Errorf("%s: a token by the secret is active without it", name)
		}
		w.soon("by the key again", func() bool { // services are remembered for a second
			byKey = w.a.granted(name, w.a.form(tokenPath, pairs("grant_type", grantJWT, "scope", scope, "assertion", w.a.assertion(name, nil))))
			return w.a.active("api", byKey)
		})
		w.a.must(http.MethodDelete, usersPath+id+"/keys/"+w.a.keyIDs[name], "")
		if w.a.active("api", byKey) {
			t.Errorf("%s: a token by the key is active without it", name)
		}
	}
}

// TestSEC092_REL006_ReuseIsNotForgotten: when the family cannot be ended because the
// database does not write, the client is not told that its token is bad, as if that had
// been dealt with; and the family ends as soon as it can, without anybody asking again.
func TestSEC092_REL006_ReuseIsNotForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	code := b.code("web")
	byCode := w.a.redeem("web", code)
	byRefresh := b.tokens("web", offline)
	used := byRefresh.text("refresh_token")
	next := w.a.refresh("web", used)
	w.a.granted("the successor", next)
	w.exec(`CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '25006'; END $$`)
	w.exec(`CREATE TRIGGER refuse_writes BEFORE UPDATE ON oauth_grants FOR EACH STATEMENT EXECUTE FUNCTION refuse_writes()`)
	for what, got := range map[string]*answer{"code": w.a.redeem("web", code), "refresh token": w.a.refresh("web", used)} {
		if got.Status != http.StatusServiceUnavailable || got.text("error") != "temporarily_unavailable" || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %s, want 503", what, got.Status, got.Text)
		}
	}
	if !w.a.active("api", next.text("access_token")) {
		t.Error("the family has ended although nothing can be written")
	}
	w.exec(`DROP TRIGGER refuse_writes ON oauth_grants`)
	for what, tokens := range map[string]*answer{"code": byCode, "refresh token": next} {
		w.eventually(what+": the family ends", func() bool { return !w.a.active("api", tokens.text("access_token")) })
	}
}

// TestSEC033_REL006_AReplayInAnOutageIsNotForgotten: a code that is shown for the second time
// while the database cannot be asked is answered 503, and its family ends once it can; one that
// is redeemed for the first time then is not taken for a replay.
func TestSEC033_REL006_AReplayInAnOutageIsNotForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	code, late := b.code("web"), b.code("web")
	tokens := w.a.redeem("web", code)
	w.a.granted("the first use", tokens)
	byRefresh := b.tokens("web", offline)
	next := w.a.refresh("web", byRefresh.text("refresh_token"))
	w.a.granted("the successor", next)
	w.wait(15 * time.Second) // more than clocks differ
	back := w.away("subjects", "true")
	for what, got := range map[string]*answer{"a replayed code": w.a.redeem("web", code), "a code": w.a.redeem("web", late), "a replayed refresh token": w.a.refresh("web", byRefresh.text("refresh_token"))} {
		if got.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: got %d %s, want 503", what, got.Status, got.Text)
		}
	}
	back()
	w.wait(time.Second)
	for what, token := range map[string]string{"the code": tokens.text("access_token"), "the refresh token": next.text("access_token")} {
		w.eventually(what+": the family ends", func() bool { return !w.a.active("api", token) })
	}
	if first := w.a.granted("the first use of the other code", w.a.redeem("web", late)); !w.a.active("api", first) {
		t.Error("a first use counts as a replay")
	}
}

// TestSEC101_WhatWasExchangedEndsWithTheToken: revoking an access token, opaque or JWT, or
// deleting a personal one, ends what was exchanged for it, directly or not.
func TestSEC101_WhatWasExchangedEndsWithTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.a.allow()
	forP := "openid offline_access " + urn + "org:project:id:" + w.a.projects["P"] + ":aud"
	alice := w.a.signedIn("alice")
	for name, test := range map[string]struct {
		token  func() string
		revoke func(token string)
	}{
		"opaque": {func() string { return alice.tokens("web", forP).text("access_token") }, func(token string) { w.a.as("web", revokePath, pairs("token", token)) }},
		"JWT":    {func() string { return alice.tokens("jwtweb", forP).text("access_token") }, func(token string) { w.a.as("jwtweb", revokePath, pairs("token", token)) }},
		"PAT": {func() string { return w.a.users["helper"].Token }, func(string) {
			id := w.value("SELECT id FROM personal_access_tokens WHERE instance_id = $1 AND user_id = $2", w.a.instance(), w.a.users["helper"].ID)
			w.a.must(http.MethodDelete, usersPath+w.a.users["helper"].ID+"/pats/"+id, "")
		}},
	} {
		token := test.token()
		scope := "openid"
		if name != "PAT" {
			scope = "openid offline_access"
		}
		first := w.a.exchange("second", "subject_token", token, "scope", scope)
		second := w.a.exchange("web", "subject_token", w.a.granted(name, first), "requested_token_type", typeJWT)
		third := w.a.exchange("second", "subject_token", w.a.granted(name+" again", second))
		w.a.granted(name+" and again", third)
		test.revoke(token)
		for i, got := range []*answer{first, second, third} {
			if w.a.on(1).active("api", got.text("access_token")) {
				t.Errorf("%s: what was exchanged %d times is active", name, i+1)
			}
		}
		if refresh := first.text("refresh_token"); refresh != "" {
			w.a.refused(name+": the refresh token", w.a.refresh("second", refresh), "invalid_grant")
		} else if name != "PAT" {
			t.Errorf("%s: no refresh token: %s", name, first.Text)
		}
	}
	// Nor does a family come back when the revocation is forgotten.
	const good = "SELECT count(*)::text FROM oauth_grants WHERE origins IS NOT NULL AND NOT revoked"
	if n := w.value(good); n != "2" {
		t.Fatalf("%s families came of exchanges, want 2", n)
	}
	if n, err := db.New().SweepRevoked(t.Context(), w.db.Pool, db.SweepRevokedParams{Before: w.now().Add(13 * time.Hour), Batch: 1000}); err != nil || n < 2 {
		t.Fatalf("%d revocations are forgotten: %v", n, err)
	}
	if n := w.value(good); n != "0" {
		t.Errorf("%s families are good again", n)
	}
}
