package oidc_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/signing"
)

const goodbye = "https://app.example/bye"

// alive reports whether a browser is still signed in.
func (a *agent) alive() bool {
	a.Helper()
	return a.authorize("web", "prompt", "none").Has("code")
}

// logout goes to the end_session endpoint and returns where it is sent; "" is a page
// of ours.
func (a *agent) logout(list ...string) string {
	a.Helper()
	a.open(endSessionPath + "?" + pairs(list...).Encode())
	return a.got.Header.Get("Location")
}

func TestSEC130_OnlyRegisteredAddressesAfterALogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	hint := b.tokens("web", "openid").text("id_token")
	web, post := w.a.apps["web"].ClientID, w.a.apps["post"].ClientID
	for _, uri := range append(mutations(goodbye), callback, "https://app.example/bye?x=2", "https://app.example/bye?x=1&y=1") {
		if uri == goodbye+"?x=1" { // which is registered
			continue
		}
		for name, list := range map[string][]string{"hint": {"id_token_hint", hint}, "client_id": {"client_id", web}, "both": {"id_token_hint", hint, "client_id", web}} {
			if to := b.logout(append(list, "post_logout_redirect_uri", uri)...); to != "" || b.got.Status != http.StatusBadRequest {
				t.Errorf("%q by %s: %d to %q", uri, name, b.got.Status, to)
			}
		}
	}
	for name, list := range map[string][]string{
		"nobody":                 {"post_logout_redirect_uri", goodbye},
		"an unknown client":      {"client_id", "x", "post_logout_redirect_uri", goodbye},
		"an API":                 {"client_id", w.a.apps["api"].ClientID, "post_logout_redirect_uri", goodbye},
		"hint and another":       {"id_token_hint", hint, "client_id", post, "post_logout_redirect_uri", goodbye},
		"hint and another alone": {"id_token_hint", hint, "client_id", post},
		"hint and nobody":        {"id_token_hint", hint, "client_id", "x"},
		"the app's ID":           {"client_id", w.a.apps["web"].ID, "post_logout_redirect_uri", goodbye},
	} {
		if to := b.logout(list...); to != "" || b.got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d to %q", name, b.got.Status, to)
		}
	}
	if !b.alive() {
		t.Fatal("one of them ended the session")
	}
	for _, uri := range []string{goodbye, goodbye + "?x=1"} {
		for _, list := range [][]string{{"id_token_hint", hint}, {"id_token_hint", hint, "client_id", web}} {
			b := w.a.signedIn("alice")
			to := b.logout(append(list, "post_logout_redirect_uri", uri, "state", `a&b"<é`)...)
			at, err := url.Parse(to)
			if err != nil || !strings.HasPrefix(to, uri) || at.Query().Get("state") != `a&b"<é` || b.alive() {
				t.Errorf("%s: to %q", uri, to)
			}
		}
	}
}

func TestSEC131_NobodyElseEndsASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	hint := b.tokens("web", "openid").text("id_token")
	set := func(list ...string) []option {
		var options []option
		for i := 0; i < len(list); i += 2 {
			options = append(options, func(r *http.Request) { r.Header.Set(list[i], list[i+1]) })
		}
		return options
	}
	for name, options := range map[string][]option{
		"image":              set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"),
		"fetch":              set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://evil.example"),
		"fetch of a sibling": set("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"),
		"frame":              set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"),
		"object":             set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "object"),
		"script":             set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"),
	} {
		for _, list := range [][]string{nil, {"id_token_hint", hint}, {"client_id", w.a.apps["web"].ClientID, "post_logout_redirect_uri", goodbye}, {"id_token_hint", hint, "post_logout_redirect_uri", goodbye}, {"confirm", "yes"}, {"confirm", "yes", "form", "x"}} {
			b.open(endSessionPath+"?"+pairs(list...).Encode(), options...)
			if b.got.Header.Get("Location") != "" || !b.alive() {
				t.Errorf("%s %v: the session ended", name, list)
			}
		}
	}
	// Forms of other sites, whatever they say.
	for name, options := range map[string][]option{
		"form of another site": set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "https://evil.example"),
		"form of a sibling":    set("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"),
	} {
		for _, list := range [][]string{nil, {"id_token_hint", hint}, {"confirm", "yes", "form", "x"}} {
			b.send(http.MethodPost, endSessionPath, pairs(list...), options...)
			if b.got.Header.Get("Location") != "" || !b.alive() {
				t.Errorf("%s %v: the session ended", name, list)
			}
		}
	}
	// What leaves for the client without a hint is asked about; the answer needs the
	// page that asked, of this browser.
	request := []string{"client_id", w.a.apps["web"].ClientID, "post_logout_redirect_uri", goodbye, "state", "s"}
	if to := b.logout(request...); to != "" || b.got.Status != http.StatusOK || !b.alive() {
		t.Errorf("without a hint: %d to %q", b.got.Status, to)
	}
	other := w.a.signedIn("bob")
	other.logout(request...)
	action, values := other.fields()
	b.send(http.MethodPost, action, values)
	if !b.alive() {
		t.Error("the form of another browser ended the session")
	}
	b.logout(request...)
	b.fill("confirm", "yes")
	if to := b.got.Header.Get("Location"); to != goodbye+"?state=s" || b.alive() {
		t.Errorf("confirmed: %d to %q", b.got.Status, to)
	}
	// Who goes there by hand is asked like everybody without a hint.
	b = w.a.signedIn("alice")
	if b.logout(); b.got.Status != http.StatusOK || !b.alive() {
		t.Error("by hand: it is not asked")
	}
	b.logout()
	if b.fill("confirm", "yes"); b.got.Status != http.StatusOK || b.alive() {
		t.Errorf("by hand, confirmed: %d", b.got.Status)
	}
	b = w.a.signedIn("alice")
	b.open(endSessionPath, set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")...)
	if !b.alive() {
		t.Error("a link on another site ends the session, unasked")
	}
	b.open(endSessionPath, set("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")...)
	if b.fill("confirm", "yes"); b.alive() {
		t.Error("a link does not end the session, although the user wants it")
	}
	b = w.a.signedIn("alice")
	if b.send(http.MethodHead, endSessionPath, nil); b.got.Status != http.StatusMethodNotAllowed || !b.alive() {
		t.Errorf("HEAD: %d", b.got.Status)
	}
}

// TestSEC131_TheQuestionNamesWhoIsSignedOut: to the browser whose sessions would end, and no other.
func TestSEC131_TheQuestionNamesWhoIsSignedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.a.signedIn("alice"), w.a.signedIn("bob")
	hint := bob.tokens("web", "openid").text("id_token")
	names := func(b *agent) (named []string) {
		for _, name := range []string{"Alice Adams", w.a.users["alice"].LoginName, w.a.users["bob"].LoginName} {
			if strings.Contains(b.got.Text, name) {
				named = append(named, name)
			}
		}
		return named
	}
	alice.logout()
	if got := names(alice); !slices.Equal(got, []string{"Alice Adams", w.a.users["alice"].LoginName}) {
		t.Errorf("the browser of alice is shown %q", got)
	}
	bob.logout("client_id", w.a.apps["web"].ClientID, "post_logout_redirect_uri", goodbye)
	if got := names(bob); !slices.Equal(got, []string{w.a.users["bob"].LoginName}) {
		t.Errorf("the browser of bob is shown %q", got)
	}
	stranger := w.a.agent()
	stranger.logout()
	if got := names(stranger); len(got) > 0 {
		t.Errorf("a browser in which nobody is signed in is shown %q", got)
	}
	stranger.send(http.MethodPost, endSessionPath, pairs("id_token_hint", hint), func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if got := names(stranger); len(got) > 0 || stranger.got.Status != http.StatusOK {
		t.Errorf("for a hint it is shown %q: %d", got, stranger.got.Status)
	}
	alice.send(http.MethodPost, endSessionPath, pairs("id_token_hint", hint), func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if got := names(alice); len(got) > 0 || alice.got.Status != http.StatusOK {
		t.Errorf("for a hint of bob the browser of alice, which would not end, is shown %q: %d", got, alice.got.Status)
	}
}

func TestSEC132_NothingIsLeftAfterALogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.agent()
	b.open(authorizePath + "?" + w.a.request("web", "scope", offline).Encode())
	flow := b.at.String()
	b.signIn("alice")
	tokens := w.a.redeem("web", b.result().Get("code"))
	w.a.granted("alice", tokens)
	code := b.code("web")
	session, browser, sessions := b.sessionID(), b.cookie("__Host-writ_browser"), b.cookie("__Host-writ_sessions")
	if to := b.logout("id_token_hint", tokens.text("id_token"), "post_logout_redirect_uri", goodbye); to != goodbye {
		t.Fatalf("logout: %d to %q", b.got.Status, to)
	}
	if w.value("SELECT count(*)::text FROM sessions WHERE instance_id = $1 AND id = $2", w.a.instance(), session) != "0" {
		t.Error("the session is still there")
	}
	for node := range 2 {
		at := w.a.on(node)
		if at.active("api", tokens.text("access_token")) || at.userinfo(tokens.text("access_token")).Status != http.StatusUnauthorized {
			t.Errorf("node %d: the access token is good", node)
		}
	}
	w.a.refused("a code of the session", w.a.redeem("web", code), "invalid_grant")
	if b.cookie("__Host-writ_browser") == browser || b.cookie("__Host-writ_sessions") != "" {
		t.Error("the cookies are the same")
	}
	if b.open(flow); b.got.Status != http.StatusBadRequest {
		t.Errorf("a login that was begun before goes on: %d", b.got.Status)
	}
	thief := w.a.agent() // with the cookies of before
	thief.setCookie("__Host-writ_browser", browser)
	thief.setCookie("__Host-writ_sessions", sessions)
	if thief.alive() {
		t.Error("the old cookies are good")
	}
	// Somebody else signs in on the same device.
	b.open(authorizePath + "?" + w.a.request("web", "scope", "openid profile email").Encode())
	if strings.Contains(b.got.Text, "alice") {
		t.Errorf("the page still knows alice: %s", b.got.Text)
	}
	b.signIn("bob")
	got := w.a.redeem("web", b.result().Get("code"))
	if info := w.a.userinfo(w.a.granted("bob", got)).Text; strings.Contains(info, "alice") || !strings.Contains(info, "bob@") {
		t.Errorf("bob is %s", info)
	}
	// With some of the cookies only.
	for _, name := range []string{"__Host-writ_browser", "__Host-writ_sessions"} {
		b := w.a.signedIn("alice")
		b.open(authorizePath + "?" + w.a.request("web", "prompt", "login").Encode())
		old := b.cookie("__Host-writ_sessions")
		b.setCookie(name, "")
		b.logout()
		b.fill("confirm", "yes")
		if name == "__Host-writ_browser" {
			again := w.a.agent()
			again.setCookie("__Host-writ_sessions", old)
			if again.alive() {
				t.Errorf("without %s the session goes on", name)
			}
		}
		b.open(authorizePath + "?" + w.a.request("web").Encode())
		if b.at.Path != "/login" || strings.Contains(b.got.Text, "alice") {
			t.Errorf("without %s: %s", name, b.at)
		}
	}
}

func TestSEC133_HintsIdentifyAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both := func() *agent { return w.a.signedIn("alice", "bob") }
	hint := w.a.signedIn("alice").tokens("web", "openid").text("id_token")
	parts := strings.Split(hint, ".")
	_, body := claims(hint)
	for name, bad := range map[string]string{
		"unsigned": segment(map[string]any{"alg": "none"}) + "." + parts[1] + ".", "of another key": signed(keys()[2], map[string]any{"alg": "ES256"}, body),
		"of the other instance": w.b.signedIn("alice").tokens("web", "openid").text("id_token"), "an access token": w.a.signedIn("alice").tokens("jwtweb", "openid").text("access_token"),
		"of somebody else": parts[0] + "." + segment(map[string]any{"sub": w.a.users["bob"].ID}) + "." + parts[2], "nothing": "x",
	} {
		b := both()
		if to := b.logout("id_token_hint", bad, "post_logout_redirect_uri", goodbye, "client_id", w.a.apps["web"].ClientID); to != "" || b.got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d to %q", name, b.got.Status, to)
		}
		if n := w.count(b); n != 2 {
			t.Errorf("%s: %d sessions are left, want 2", name, n)
		}
	}
	b := both()
	if to := b.logout("id_token_hint", hint, "post_logout_redirect_uri", goodbye); to != goodbye || w.count(b) != 1 {
		t.Errorf("a good one: to %q, %d sessions are left, want 1", to, w.count(b))
	}
	if got := b.authorize("web", "prompt", "none"); !got.Has("code") {
		t.Errorf("bob was signed out too: %v", got)
	}
	w.wait(13 * time.Hour) // it has expired
	b = both()
	if to := b.logout("id_token_hint", hint, "post_logout_redirect_uri", goodbye); to != goodbye || w.count(b) != 1 {
		t.Errorf("an expired one: to %q, %d sessions are left, want 1", to, w.count(b))
	}
	for range 8 { // its key has left the key set
		w.wait(7 * 24 * time.Hour)
		if err := w.keeper().Tend(t.Context(), w.a.instance(), signing.Rotation{}); err != nil {
			t.Fatal(err)
		}
	}
	header, _ := claims(hint)
	if set := w.a.call(http.MethodGet, "/oauth/v2/keys", ""); strings.Contains(set.Text, header["kid"].(string)) {
		t.Fatalf("the key of eight weeks ago is still published: %s", set.Text)
	}
	b = both()
	if to := b.logout("id_token_hint", hint, "post_logout_redirect_uri", goodbye); to != goodbye || w.count(b) != 1 {
		t.Errorf("one of a past key: to %q, %d sessions are left, want 1", to, w.count(b))
	}
	// Of a user who is not here it ends nothing.
	b = w.a.signedIn("bob")
	if to := b.logout("id_token_hint", hint, "post_logout_redirect_uri", goodbye); to != goodbye || !b.alive() {
		t.Errorf("of somebody who is not here: to %q, alive %v", to, b.alive())
	}
}

// count returns how many sessions a browser has.
func (w *world) count(b *agent) (n int) {
	for one := range strings.SplitSeq(b.cookie("__Host-writ_sessions"), ".") {
		probe := w.a.agent()
		probe.setCookie("__Host-writ_sessions", one)
		if one != "" && probe.alive() {
			n++
		}
	}
	return n
}
