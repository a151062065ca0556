package oauth_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
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
