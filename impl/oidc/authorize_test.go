package oidc_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// shown checks that a request ends in an error page: nobody is sent anywhere.
func (a *agent) shown(what string) {
	a.Helper()
	action, _ := a.fields()
	if a.got.Status != http.StatusBadRequest || a.got.Header.Get("Location") != "" || action != "" || !strings.HasPrefix(a.got.Header.Get("Content-Type"), "text/html") {
		a.Errorf("%s: got %d, Location %q, form %q; want an error page", what, a.got.Status, a.got.Header.Get("Location"), action)
	}
	if strings.Contains(a.got.Text, "writ_code_") {
		a.Errorf("%s: the page holds a code", what)
	}
}

// mutations are spellings of an address that a comparison that is not exact would
// take for it.
func mutations(address string) []string {
	u, _ := url.Parse(address)
	path := u.EscapedPath()
	list := []string{
		"HTTPS://" + u.Host + path, "Https://" + u.Host + path, "http://" + u.Host + path, "ftp://" + u.Host + path, "javascript://" + u.Host + path,
		"https://" + strings.ToUpper(u.Host) + path, "https://App.example" + path, "https://" + u.Host + ":443" + path, "https://" + u.Host + ":" + path,
		"https://" + u.Host + ":8443" + path, "https://" + u.Host + "." + path, "https://" + u.Host + strings.ToUpper(path), "https://" + u.Host,
		"https://" + u.Host + "/", "https:" + path, "https:/" + u.Host + path, "https:///" + u.Host + path, "https:" + u.Host + path, "//" + u.Host + path, path,
		"https://" + u.Host + "/%63b", "https://" + u.Host + "/%2e" + path, "https://" + u.Host + "/." + path, "https://" + u.Host + "/x/.." + path,
		"https://" + u.Host + "/" + path, "https://" + u.Host + path + "%2f", "https://" + u.Host + path + "%00", "https://" + u.Host + "%2f" + path,
		"https://user@" + u.Host + path, "https://user:pass@" + u.Host + path, "https://evil.example@" + u.Host + path, "https://" + u.Host + "@evil.example" + path,
		"https://" + u.Host + ".evil.example" + path, "https://evil." + u.Host + path, "https://evil" + u.Host + path, "https://evil.example/" + u.Host + path,
		"https://evil.example#" + u.Host + path, "https://evil.example\\@" + u.Host + path, "https://" + u.Host + "\\" + path, "https:\\\\" + u.Host + path,
		"https://\u0430pp.example" + path, "https://xn--pp-6kc.example" + path, "https://app\u3002example" + path, "https://\uff41pp.example" + path,
	}
	for _, end := range []string{"/", "//", ".", "/.", "/..", "/../cb", ";", ";x", "?", "?x=1", "#", "#f", "%20", " ", "\t", "\n", "\r\nX: y", "\x00", "x", "*", "&x=1", "?code=x&state=y"} {
		list = append(list, address+end)
	}
	for _, begin := range []string{" ", "\t", "\n", "\u200b", "x-"} {
		list = append(list, begin+address)
	}
	return list
}

func TestSEC001_OnlyTheRegisteredRedirectURIIsRedirectedTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice") // so that a wrong answer would carry a code
	list := mutations(callback)
	if len(list) < 60 {
		t.Errorf("%d mutations only", len(list))
	}
	list = append(list, w.a.apps["native"].RedirectURIs[0], "https://app.example/other", "https://app.example/other?x=1&y=2", "https://app.example/other?x=2")
	for _, mode := range []string{"query", "fragment", "form_post"} {
		for _, uri := range list {
			b.authorize("web", "redirect_uri", uri, "response_mode", mode)
			b.shown(fmt.Sprintf("%q %s", uri, mode))
		}
		for _, uri := range w.a.apps["web"].RedirectURIs {
			b.code("web", "redirect_uri", uri, "response_mode", mode)
		}
	}
	b.authorize("web", "redirect_uri", "https://app.example/other?x=1")
	if location := b.got.Header.Get("Location"); !strings.HasPrefix(location, "https://app.example/other?x=1&code=") {
		t.Errorf("a query of the address is not kept: %s", location)
	}
}

func TestSEC002_OnlyThePortOfALoopbackAddressMayVary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, good := range []string{"http://127.0.0.1/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:51004/cb", "http://127.0.0.1:65535/cb", "com.example.app:/cb"} {
		code := b.code("native", "redirect_uri", good)
		redemption := w.a.redemption("native", code)
		redemption.Set("redirect_uri", good)
		w.a.granted(good, w.a.as("native", tokenPath, redemption))
	}
	for _, bad := range []string{
		"http://localhost/cb", "http://localhost:51004/cb", "http://[::1]:51004/cb", "http://127.0.0.2:51004/cb", "http://127.1:51004/cb", "http://0x7f000001:51004/cb",
		"https://127.0.0.1:51004/cb", "http://127.0.0.1:51004/cb?x=1", "http://127.0.0.1:51004/cb/", "http://127.0.0.1:51004/", "http://127.0.0.1:51004/other",
		"http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:+80/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:80@evil.example/cb",
		"http://127.0.0.1.evil.example/cb", "http://127.0.0.1:51004.evil.example/cb", "http://127.0.0.1:51004\\@evil.example/cb", "com.example.app:/CB", "com.example.app://x/cb", "COM.example.app:/cb",
	} {
		b.authorize("native", "redirect_uri", bad)
		b.shown(bad)
	}
	b.authorize("web", "redirect_uri", "http://127.0.0.1/cb") // is of the native one
	b.shown("another client's")
	// The code is bound to the port that was asked for.
	code := b.code("native", "redirect_uri", "http://127.0.0.1:51004/cb")
	redemption := w.a.redemption("native", code)
	redemption.Set("redirect_uri", "http://127.0.0.1:51005/cb")
	w.a.refused("another port", w.a.as("native", tokenPath, redemption), "invalid_grant")
}

func TestSEC004_WithoutClientAndRedirectURIErrorsAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	const markup = `"><script>alert(1)</script>'`
	for _, test := range []struct {
		name    string
		changes []string
	}{
		{"no client", []string{"client_id", "-"}},
		{"an unknown client", []string{"client_id", "nobody" + markup}},
		{"a long client", []string{"client_id", strings.Repeat("x", 5000)}},
		{"a service user", []string{"client_id", w.a.users["robot"].Username}},
		{"the ID of an app instead of its client ID", []string{"client_id", w.a.apps["web"].ID}},
		{"an API", []string{"client_id", w.a.apps["api"].ClientID}},
		{"no redirect_uri", []string{"redirect_uri", "-"}},
		{"an empty redirect_uri", []string{"redirect_uri", ""}},
		{"markup as redirect_uri", []string{"redirect_uri", markup, "state", markup}},
		{"a script as redirect_uri", []string{"redirect_uri", "javascript:alert(1)"}},
		{"a wrong everything", []string{"redirect_uri", "https://evil.example", "response_type", "x", "scope", "x", "prompt", "none login"}},
	} {
		b.authorize("web", test.changes...)
		b.shown(test.name)
		if strings.Contains(b.got.Text, "<script>alert") || strings.Contains(b.got.Text, `"><`+"script") {
			t.Errorf("%s: not escaped: %s", test.name, b.got.Text)
		}
		b.send(http.MethodPost, authorizePath, w.a.request("web", test.changes...))
		b.shown(test.name + ", posted")
	}
	// An application that cannot be used is like one that is not there.
	b.code("web")
	w.a.must(http.MethodPost, "/resources/v3alpha/apps/"+w.a.apps["web"].ID+"/_deactivate", "{}")
	w.soon("a deactivated application", func() bool { b.authorize("web"); return b.got.Header.Get("Location") == "" })
	b.shown("a deactivated application")
}

func TestSEC005_ParametersAreThereOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	request := w.a.request("web", "nonce", "n", "response_mode", "query", "prompt", "select_account", "max_age", "900", "ui_locales", "en",
		"login_hint", "alice", "code_challenge", challengeOf(verifier), "code_challenge_method", "S256", "id_token_hint", "x", "claims", "{}", "acr_values", "1")
	for name := range request {
		for _, second := range []string{request.Get(name), "other"} {
			for road, send := range map[string]func(){
				"in the query": func() { b.open(authorizePath + "?" + request.Encode() + "&" + name + "=" + url.QueryEscape(second)) },
				"in the body": func() {
					twice := pairs()
					for name, values := range request {
						twice[name] = append([]string{}, values...)
					}
					twice.Add(name, second)
					b.send(http.MethodPost, authorizePath, twice)
				},
				"in query and body": func() {
					b.send(http.MethodPost, authorizePath+"?"+name+"="+url.QueryEscape(second), request)
				},
			} {
				send()
				what := name + " twice " + road
				switch name {
				case "client_id", "redirect_uri":
					b.shown(what)
				default:
					if got := b.result(); got.Get("error") != "invalid_request" || got.Has("code") {
						t.Errorf("%s: got %d %v", what, b.got.Status, got)
					}
				}
			}
		}
	}
	for _, endpoint := range []struct {
		path string
		form func() url.Values
	}{
		{tokenPath, func() url.Values {
			return pairs("grant_type", "authorization_code", "code", b.code("post"), "redirect_uri", callback, "client_id", w.a.apps["post"].ClientID, "client_secret", w.a.apps["post"].Secret)
		}},
		{revokePath, func() url.Values {
			return pairs("token", b.tokens("post", "openid").text("access_token"), "token_type_hint", "access_token", "client_id", w.a.apps["post"].ClientID, "client_secret", w.a.apps["post"].Secret)
		}},
	} {
		good := endpoint.form()
		before := w.a.grants()
		for name := range good {
			doubled := good.Encode() + "&" + url.Values{name: {good.Get(name)}}.Encode()
			form := header("Content-Type", "application/x-www-form-urlencoded")
			w.a.refused(endpoint.path+" "+name+" twice", w.a.call(http.MethodPost, endpoint.path, doubled, form), "invalid_request")
			w.a.refused(endpoint.path+" "+name+" in query and body", w.a.call(http.MethodPost, endpoint.path+"?"+url.Values{name: {good.Get(name)}}.Encode(), good.Encode(), form), "invalid_request")
		}
		if after := w.a.grants(); after != before {
			t.Errorf("%s: %s grants, want %s", endpoint.path, after, before)
		}
		if got := w.a.form(endpoint.path, good); got.Status != http.StatusOK {
			t.Errorf("%s: once: %d %s", endpoint.path, got.Status, got.Text)
		}
	}
	token := b.tokens("web", "openid").text("access_token")
	twice := url.Values{"token": {token, token}}
	w.a.refused("introspection", w.a.as("api", introspectPath, twice), "invalid_request")
	if !w.a.active("api", token) {
		t.Error("once: not active")
	}
	session := b.sessionID()
	for _, query := range []string{"state=a&state=b", "client_id=a&client_id=a", "post_logout_redirect_uri=a&post_logout_redirect_uri=a", "id_token_hint=a&id_token_hint=a"} {
		b.open(endSessionPath + "?" + query)
		b.shown("end_session?" + query)
	}
	if w.value("SELECT count(*)::text FROM sessions WHERE instance_id = $1 AND id = $2", w.a.instance(), session) != "1" {
		t.Error("the session ended")
	}
}

func TestSEC006_ResponseTypesAndModes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, test := range []struct {
		app, kind, code string // code: of the error, "" for none
	}{
		{"web", "code", ""}, {"web", "id_token", "unauthorized_client"}, {"web", "id_token token", "unauthorized_client"}, {"web", "token id_token", "unauthorized_client"},
		{"implicit", "code", "unauthorized_client"}, {"implicit", "id_token", ""}, {"implicit", "id_token token", ""},
		{"web", "token", "unsupported_response_type"}, {"web", "code token", "unsupported_response_type"}, {"web", "code id_token", "unsupported_response_type"},
		{"web", "code id_token token", "unsupported_response_type"}, {"web", "none", "unsupported_response_type"}, {"web", "CODE", "unsupported_response_type"},
		{"web", "code code", "unsupported_response_type"}, {"web", "-", "invalid_request"}, {"implicit", "token", "unsupported_response_type"},
	} {
		for _, mode := range []string{"-", "query", "fragment", "form_post", "web_message", "x"} {
			got := b.authorize(test.app, "response_type", test.kind, "response_mode", mode, "nonce", "n")
			what := fmt.Sprintf("%s %s %s", test.app, test.kind, mode)
			if got.Get("error") != test.code || got.Get("state") != "st" || test.code == "" && !got.Has("code") && !got.Has("id_token") {
				t.Errorf("%s: got %v, want %q", what, got, test.code)
			}
			if test.code != "" && (got.Has("code") || got.Has("id_token") || got.Has("access_token")) {
				t.Errorf("%s: an error with a token: %v", what, got)
			}
			location, _ := url.Parse(b.got.Header.Get("Location"))
			if query := location.Query(); query.Has("id_token") || query.Has("access_token") {
				t.Errorf("%s: a token in a query", what)
			}
			if test.code == "" && (test.kind == "id_token") == got.Has("access_token") && test.kind != "code" {
				t.Errorf("%s: access_token is wrong: %v", what, got)
			}
		}
	}
	if got := b.authorize("implicit", "nonce", "-"); got.Get("error") != "invalid_request" || got.Has("id_token") {
		t.Errorf("implicit without nonce: %v", got)
	}
	if got := b.authorize("implicit", "scope", "openid offline_access"); got.Has("refresh_token") || strings.Contains(got.Get("scope"), "offline") || !got.Has("id_token") {
		t.Errorf("implicit with offline_access: %v", got)
	}
	// The grant type decides as well as the response type.
	w.a.must(http.MethodPatch, "/resources/v3alpha/apps/"+w.a.apps["implicit"].ID, `{"oidc":{"grantTypes":{"types":["GRANT_TYPE_AUTHORIZATION_CODE"]}}}`)
	w.soon("implicit without its grant type", func() bool {
		got := b.authorize("implicit")
		return got.Get("error") == "unauthorized_client" && !got.Has("id_token")
	})
}

func TestSEC007_PublicClientsNeedS256(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	good := challengeOf(verifier)
	for _, test := range []struct{ challenge, method, public, confidential string }{
		{good, "S256", "", ""},
		{"-", "-", "invalid_request", ""},
		{good, "-", "invalid_request", "invalid_request"},
		{good, "plain", "invalid_request", "invalid_request"},
		{verifier, "plain", "invalid_request", "invalid_request"},
		{good, "s256", "invalid_request", "invalid_request"},
		{good, "S512", "invalid_request", "invalid_request"},
		{good, " S256", "invalid_request", "invalid_request"},
		{"-", "S256", "invalid_request", "invalid_request"},
		{good[:42], "S256", "invalid_request", "invalid_request"},
		{good + "A", "S256", "invalid_request", "invalid_request"},
		{good + "=", "S256", "invalid_request", "invalid_request"},
		{strings.Repeat("+", 43), "S256", "invalid_request", "invalid_request"},
		{strings.Repeat(" ", 43), "S256", "invalid_request", "invalid_request"},
		{strings.Repeat("A", 128), "S256", "invalid_request", "invalid_request"},
	} {
		for app, want := range map[string]string{"spa": test.public, "native": test.public, "web": test.confidential} {
			got := b.authorize(app, "code_challenge", test.challenge, "code_challenge_method", test.method)
			if got.Get("error") != want || got.Has("code") != (want == "") {
				t.Errorf("%s %q %q: got %v, want %q", app, test.challenge, test.method, got, want)
			}
		}
	}
}

func TestSEC009_TheIssuerIsInEveryAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, side := range []*side{w.a, w.b} {
		discovery := side.call(http.MethodGet, "/.well-known/openid-configuration", "").Body
		if discovery["issuer"] != side.issuer || discovery["authorization_response_iss_parameter_supported"] != true {
			t.Errorf("discovery: %v", discovery)
		}
		b := side.signedIn("alice")
		for app, kinds := range map[string][]string{"web": {"code"}, "implicit": {"id_token", "id_token token"}} {
			for _, kind := range kinds {
				for _, mode := range []string{"query", "fragment", "form_post", "-"} {
					for _, scope := range []string{"openid", "profile"} { // the latter is an error
						got := b.authorize(app, "response_type", kind, "response_mode", mode, "scope", scope)
						if list := got["iss"]; len(list) != 1 || list[0] != side.issuer || got.Has("error") != (scope == "profile") {
							t.Errorf("%s %s %s %s: %v", app, kind, mode, scope, got)
						}
					}
				}
			}
		}
	}
}

func TestSEC010_WhatIsEchoedIsEncoded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	for _, state := range []string{
		`"'<>&`, `</script><script>alert(1)</script>`, "a\r\nSet-Cookie: x=y\r\n\r\n<html>", "\u2028\u2029\u00a0\u202e", `'"--><img src=x onerror=alert(1)>`, "%0d%0aX: y", "a b+c%20&d=e#f",
		"{{.}}${7*7}<%= 1 %>", strings.Repeat(`"<é`, 1024), "\\\"\\u003c",
	} {
		for _, mode := range []string{"query", "fragment", "form_post"} {
			for _, scope := range []string{"openid", "email"} {
				got := b.authorize("web", "state", state, "response_mode", mode, "scope", scope)
				if list := got["state"]; len(list) != 1 || list[0] != state {
					t.Fatalf("%s: state %.40q came back as %.60q", mode, state, list)
				}
				if b.got.Header.Get("X") != "" || len(b.got.Header.Values("Set-Cookie")) > 0 || strings.ContainsAny(b.got.Header.Get("Location"), "\r\n<>\" ") {
					t.Errorf("%s: headers were injected: %v", mode, b.got.Header)
				}
				if mode != "form_post" {
					continue
				}
				action, _ := b.fields()
				policy := b.got.Header.Get("Content-Security-Policy")
				if action != callback || strings.Contains(policy, "unsafe-inline") && !strings.Contains(policy, "nonce-") || !strings.Contains(policy, "form-action https:;") || !strings.Contains(policy, "default-src 'none'") {
					t.Errorf("the page posts to %q under %q", action, policy)
				}
				if strings.Contains(b.got.Text, "<script>alert") || strings.Contains(b.got.Text, "<img") || !strings.Contains(b.got.Text, `name="state"`) {
					t.Errorf("the page is not escaped: %s", b.got.Text)
				}
				if cache := b.got.Header.Get("Cache-Control"); cache != "no-store" {
					t.Errorf("the page with a code has Cache-Control %q", cache)
				}
			}
		}
	}
	if got := b.authorize("web", "state", "-"); got.Has("state") || !got.Has("code") {
		t.Errorf("without state: %v", got)
	}
}

// TestCancel leaves the pages of a login: the client learns of it as of any other
// error (RFC 6749, section 4.1.2.1), in its response mode, and of nothing else.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wayBack := func(b *agent) url.Values {
		t.Helper()
		_, form, _ := strings.Cut(b.got.Text, `<form id="leave"`)
		flow := valueAttr.FindStringSubmatch(form)
		if flow == nil {
			t.Fatalf("no way back at %s: %s", b.at, b.got.Text)
		}
		return pairs("flow", html.UnescapeString(flow[1]), "cancel", "yes")
	}
	cancel := func(b *agent) url.Values {
		t.Helper()
		return b.send(http.MethodPost, "/login/cancel", wayBack(b)).result()
	}
	state := strings.Repeat("x\"<é", 200)
	for app, kinds := range map[string][]string{"web": {"code"}, "implicit": {"id_token", "id_token token"}} {
		for _, kind := range kinds {
			for _, mode := range []string{"query", "fragment", "form_post", "-"} {
				b := w.a.agent()
				request := w.a.request(app, "response_type", kind, "response_mode", mode, "state", state)
				b.open(authorizePath+"?"+request.Encode()).fill("loginName", w.a.users["alice"].LoginName)
				got := cancel(b)
				got.Del("error_description")
				if want := (url.Values{"error": {"access_denied"}, "state": {state}, "iss": {w.a.issuer}}); got.Encode() != want.Encode() {
					t.Errorf("%s %s: got %v", kind, mode, got)
				}
				to, _ := url.Parse(b.got.Header.Get("Location"))
				action, _ := b.fields()
				switch sent := w.a.request(app, "response_type", kind); {
				case mode == "form_post":
					if b.got.Status != http.StatusOK || action != sent.Get("redirect_uri") {
						t.Errorf("%s %s: got %d, posted to %q", kind, mode, b.got.Status, action)
					}
				case b.got.Status != http.StatusSeeOther || (to.RawQuery != "") != (kind == "code" && mode != "fragment") || (to.Fragment != "") == (to.RawQuery != ""):
					t.Errorf("%s %s: got %d %s", kind, mode, b.got.Status, to)
				}
				if cache := b.got.Header.Get("Cache-Control"); cache != "no-store" {
					t.Errorf("%s %s: Cache-Control %q", kind, mode, cache)
				}
			}
		}
	}
	// Somebody who is signed in and leaves stays signed in, and no client hears of them.
	b := w.a.signedIn("alice")
	b.open(authorizePath + "?" + w.a.request("web", "prompt", "login").Encode())
	if got := cancel(b); got.Get("error") != "access_denied" {
		t.Errorf("got %v", got)
	}
	b.code("web")
	// The application is gone meanwhile: there is nobody to go back to.
	b = w.a.agent()
	b.open(authorizePath + "?" + w.a.request("second").Encode())
	w.a.must(http.MethodPost, "/resources/v3alpha/apps/"+w.a.apps["second"].ID+"/_deactivate", "{}")
	values := wayBack(b)
	w.soon("the application is gone", func() bool { return b.send(http.MethodPost, "/login/cancel", values).result() == nil })
	b.shown("a login of an application that is gone")
}

func TestSEC011_PromptNoneIsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob, both, nobody := w.a.signedIn("alice"), w.a.signedIn("bob"), w.a.signedIn("alice", "bob"), w.a.agent()
	hintOf := func(b *agent, app string) string { return b.tokens(app, "openid").text("id_token") }
	aliceHint, bobHint := hintOf(alice, "web"), hintOf(bob, "web")
	for _, test := range []struct {
		name         string
		b            *agent
		hint, prompt string
		want         string
	}{
		{"a session", alice, "-", "none", ""},
		{"its hint", alice, aliceHint, "none", ""},
		{"no session", nobody, "-", "none", "login_required"},
		{"a hint without its session", nobody, aliceHint, "none", "login_required"},
		{"a hint of somebody else", bob, aliceHint, "none", "login_required"},
		{"and the other way round", alice, bobHint, "none", "login_required"},
		{"two sessions", both, "-", "none", "interaction_required"},
		{"two sessions and a hint", both, bobHint, "none", ""},
		{"a hint to another client", alice, hintOf(alice, "second"), "none", "login_required"},
		{"no hint at all", alice, "x.y.z", "none", "login_required"},
		{"none with login", alice, "-", "none login", "invalid_request"},
		{"none with select_account", alice, "-", "select_account none", "invalid_request"},
		{"none twice", alice, "-", "none none", "invalid_request"},
		{"an unknown value", alice, "-", "none silent", "invalid_request"},
	} {
		for _, mode := range []string{"query", "fragment", "form_post"} {
			got := test.b.authorize("web", "prompt", test.prompt, "id_token_hint", test.hint, "response_mode", mode)
			if got == nil || got.Get("error") != test.want || got.Has("code") != (test.want == "") {
				t.Errorf("%s, %s: got %v at %s, want %q", test.name, mode, got, test.b.at, test.want)
			}
		}
	}
	code := both.code("web", "prompt", "none", "id_token_hint", bobHint)
	_, claims := claims(w.a.redeem("web", code).text("id_token"))
	if claims["sub"] != w.a.users["bob"].ID {
		t.Errorf("the hint named bob, the token is about %v", claims["sub"])
	}
	// A user who was deactivated has no session.
	w.a.must(http.MethodPost, "/resources/v3alpha/users/"+w.a.users["alice"].ID+"/_deactivate", "{}")
	if got := alice.authorize("web", "prompt", "none"); got.Get("error") != "login_required" {
		t.Errorf("a deactivated user: %v", got)
	}
}

func TestSEC013_HintsAreOfThisIssuerForThisClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	good := b.tokens("web", "openid").text("id_token")
	head, body := claims(good)
	with := func(header, claims map[string]any) string { // signed by somebody else
		merged := [2]map[string]any{{}, {}}
		for i, list := range [2][2]map[string]any{{head, header}, {body, claims}} {
			for _, one := range list {
				for name, value := range one {
					merged[i][name] = value
				}
			}
		}
		return signed(keys()[2], merged[0], merged[1])
	}
	parts := strings.Split(good, ".")
	access := b.tokens("jwtweb", "openid").text("access_token")
	for name, hint := range map[string]string{
		"unsigned":            segment(map[string]any{"alg": "none"}) + "." + parts[1] + ".",
		"its signature gone":  parts[0] + "." + parts[1] + ".",
		"of another key":      with(map[string]any{"alg": "ES256"}, nil),
		"of another user":     parts[0] + "." + segment(map[string]any{"iss": body["iss"], "aud": body["aud"], "azp": body["azp"], "sub": w.a.users["bob"].ID, "exp": body["exp"]}) + "." + parts[2],
		"of another instance": w.b.signedIn("alice").tokens("web", "openid").text("id_token"),
		"to another client":   b.tokens("second", "openid").text("id_token"),
		"an access token":     access,
		"an assertion":        w.a.assertion("jwt", nil),
		"nothing":             "x",
	} {
		if got := b.authorize("web", "prompt", "none", "id_token_hint", hint); got.Get("error") != "login_required" || got.Has("code") {
			t.Errorf("%s: got %v", name, got)
		}
		// Without prompt=none it names nobody: the session of the browser counts.
		if got := b.authorize("web", "id_token_hint", hint); !got.Has("code") {
			t.Errorf("%s: got %v at %s", name, got, b.at)
		}
		if visitor := w.a.agent(); visitor.authorize("web", "id_token_hint", hint) != nil || visitor.at.Path != "/login" || strings.Contains(visitor.got.Text, "alice") || strings.Contains(visitor.got.Text, "bob") {
			t.Errorf("%s: somebody was chosen: %s %s", name, visitor.at, visitor.got.Text)
		}
	}
	if got := b.authorize("web", "prompt", "none", "id_token_hint", good); !got.Has("code") {
		t.Errorf("a good hint: %v", got)
	}
	w.wait(13 * time.Hour) // the hint has expired, the session has not
	if got := b.authorize("web", "prompt", "none", "id_token_hint", good); !got.Has("code") {
		t.Errorf("an expired hint: %v", got)
	}
}

func TestSEC014_NothingIsFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.a.signedIn("alice")
	called := make(chan struct{}, 10)
	listener := newListener(t, called)
	object := segment(map[string]any{"alg": "none"}) + "." + segment(map[string]any{"client_id": w.a.apps["second"].ClientID, "redirect_uri": "https://evil.example", "scope": "openid email", "state": "inner"}) + "."
	for _, test := range []struct{ name, value, want string }{
		{"request", object, "request_not_supported"},
		{"request", "x", "request_not_supported"},
		{"request_uri", listener, "request_uri_not_supported"},
		{"request_uri", "urn:ietf:params:oauth:request_uri:x", "request_uri_not_supported"},
	} {
		got := b.authorize("web", test.name, test.value)
		if got.Get("error") != test.want || got.Get("state") != "st" || !strings.HasPrefix(b.got.Header.Get("Location"), callback+"?") {
			t.Errorf("%s: got %v at %s", test.name, got, b.got.Header.Get("Location"))
		}
	}
	select {
	case <-called:
		t.Error("somebody called")
	default:
	}
	if got := b.authorize("web", "claims", `{"id_token":`); got.Get("error") != "invalid_request" {
		t.Errorf("broken claims: %v", got)
	}
}

func TestSEC015_NoCORSAndNoRepeatedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, origin := range []string{"https://app.example", "https://spa.example:8443", "https://evil.example", "null"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			got := w.a.call(method, authorizePath+"?"+w.a.request("web").Encode(), "", header("Origin", origin), header("Access-Control-Request-Method", "GET"))
			if got.Header.Get("Access-Control-Allow-Origin") != "" || got.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s from %s: %v", method, origin, got.Header)
			}
		}
	}
	// What follows a form is asked for by GET, at every step up to the client.
	b := w.a.agent()
	b.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := w.a.RoundTrip(r)
		if err == nil && res.Header.Get("Location") != "" && (res.StatusCode == 307 || res.StatusCode == 308 || r.Method == http.MethodPost && res.StatusCode != http.StatusSeeOther) {
			t.Errorf("%s %s is answered by %d", r.Method, r.URL.Path, res.StatusCode)
		}
		return res, err
	})
	b.send(http.MethodPost, authorizePath, w.a.request("web"))
	b.signIn("alice")
	if !b.result().Has("code") {
		t.Errorf("no code: %d %s", b.got.Status, b.got.Text)
	}
	b.send(http.MethodPost, authorizePath, w.a.request("web")) // now with a session
	if !b.result().Has("code") || b.got.Status != http.StatusSeeOther {
		t.Errorf("a form in a session: %d %v", b.got.Status, b.got.Header)
	}
	if strings.Contains(html.UnescapeString(b.got.Text), password) {
		t.Error("the password is repeated")
	}
}
