package login_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
)

// pages calls check with every page of a browser.
func (w *world) pages(check func(name string, b *browser)) {
	w.Helper()
	at := func(name string, b *browser) { check(name, b) }
	w.addFactors("bob", "totp", "sms", "email")
	b := w.browser().open("/begin")
	at("name", b)
	at("name wrong", b.send("loginName", ""))
	at("password", b.send("loginName", "alice"))
	at("password wrong", b.send("password", "wrong"))
	b.send("password", "correct horse")
	at("accounts", w.browser2(b, &begun{Asked: flow.Asked{Request: w.begin.Load().Request, AppName: "Inventory", Choose: true}}))
	b = w.browser().signIn("bob", "correct horse")
	at("totp", b)
	at("totp wrong", b.send("code", "000000"))
	for _, path := range []string{"/login/sms", "/login/email"} {
		at(path[7:], b.post(path, url.Values{"flow": b.forms["form"].values["flow"], "send": {"yes"}}))
	}
	b = w.browser().signIn("changing", "correct horse")
	at("change", b)
	at("change wrong", b.send("newPassword", "short"))
	b = w.browser2(w.browser(), &begun{Asked: flow.Asked{Request: w.begin.Load().Request, AppName: "Inventory", Create: true}})
	at("register", b)
	at("register wrong", b.send("email", "x"))
	at("verify", b.register("carol@new.example"))
	w.begin.Store(&begun{Asked: flow.Asked{Request: "redirect_uri=https%3A%2F%2Fapp.example%2Fcb"}})
	b = w.browser().open("/begin")
	b.open("/login/forgot?flow=" + b.forms["form"].values.Get("flow"))
	at("forgot", b)
	at("reset", b.send("loginName", "alice"))
	at("reset wrong", b.send("code", "1"))
	at("signout", w.browser().open("/logout"))
	b = w.browser().open("/logout")
	at("signedout", b.send())
	if !strings.Contains(b.body, `<a href="/login">`) {
		w.T.Error("the page of the signed out leads nowhere")
	}
	at("error", w.browser().open("/error?d=the+redirect_uri+is+not+registered"))
	at("unknown", w.browser().open("/login/nothing"))
	at("post", w.browser().open("/post"))
	at("direct", w.browser().open("/login"))
}

// browser2 begins a flow in a browser.
func (w *world) browser2(b *browser, flow *begun) *browser {
	old := w.begin.Swap(flow)
	defer w.begin.Store(old)
	return b.open("/begin")
}

// TestSEC146_HeadersOfEveryPage is SEC-147 and SEC-148 too.
func TestSEC146_HeadersOfEveryPage(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	seen := 0
	w.pages(func(name string, b *browser) {
		seen++
		policy := b.got.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "style-src 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", name, policy, part)
			}
		}
		_, targets, _ := strings.Cut(policy, "form-action ")
		targets, _, _ = strings.Cut(targets, ";")
		want := "'self' https:"
		switch name {
		case "error", "unknown", "signedout":
			want = "'none'"
		case "post":
			want = "https:"
		case "signout", "direct":
			want = "'self'"
		}
		if targets != want {
			t.Errorf("%s: forms may go to %s, want %s", name, targets, want)
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") ||
			name != "post" && strings.Contains(policy, "script") && (!strings.HasSuffix(policy, "; script-src "+page.RevealHash) || !strings.Contains(b.body, `type="password"`)) {
			t.Errorf("%s: the policy is %q", name, policy)
		}
		for header, value := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cache-Control": "no-store", "Strict-Transport-Security": "max-age=31536000", "Content-Type": "text/html; charset=utf-8",
		} {
			if got := b.got.Values(header); len(got) != 1 || got[0] != value {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		w.wellMade(name, b)
	})
	if seen < 20 {
		t.Errorf("%d pages", seen)
	}
}

// TestFormTargets begins logins for clients at all kinds of addresses.
func TestFormTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const loopback = " http://localhost:* http://127.0.0.1:* https:"
	for redirect, want := range map[string]string{
		"https://app.example/cb":               "'self' https:",
		"https://app.example:8443/cb":          "'self' https:",
		"https://app.example;x/cb":             "'self' https:",
		"https://app.example; script-src */cb": "'self'",
		"http://localhost:3000/cb":             "'self' http://localhost:3000" + loopback,
		"http://127.0.0.1/cb":                  "'self' http://127.0.0.1" + loopback,
		"http://[::1]:3000/cb":                 "'self' http:" + loopback,
		"http://app.test:8080/cb":              "'self' http://app.test:8080" + loopback,
		"http://app.test;x/cb":                 "'self' http:" + loopback,
		"com.example.app:/cb":                  "'self' com.example.app:",
		"javascript:alert(1)":                  "'self'",
		"":                                     "'self'",
	} {
		w.begin.Store(&begun{Asked: flow.Asked{Request: url.Values{"client_id": {"c"}, "redirect_uri": {redirect}}.Encode()}})
		b := w.browser()
		for _, step := range []func(){func() { b.open("/begin") }, func() { b.send("loginName", "alice") }} {
			step()
			const rest = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action "
			if got, _, _ := strings.Cut(b.got.Get("Content-Security-Policy"), "; script-src"); got != rest+want {
				t.Errorf("%s, %s: the policy is %q, want %s", redirect, b.path, got, want)
			}
		}
	}
}

// wellMade checks what makes a page usable by everybody, and that nothing of it
// comes from elsewhere or runs.
func (w *world) wellMade(name string, b *browser) {
	w.Helper()
	root, err := html.Parse(strings.NewReader(b.body))
	if err != nil {
		w.Fatal(err)
	}
	var ids, labels, inputs []string
	focused, heads := 0, 0
	for node := range root.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		attrs := map[string]string{}
		for _, one := range node.Attr {
			attrs[one.Key] = one.Val
			if strings.HasPrefix(one.Key, "on") || one.Key == "style" {
				w.Errorf("%s: <%s %s=%q>", name, node.Data, one.Key, one.Val)
			}
			if one.Key == "href" || one.Key == "src" || one.Key == "action" && name != "post" {
				if !strings.HasPrefix(one.Val, "/") && !strings.HasPrefix(one.Val, "#") || strings.HasPrefix(one.Val, "//") {
					w.Errorf("%s: it leads to %s", name, one.Val)
				}
			}
		}
		if attrs["id"] != "" {
			if slices.Contains(ids, attrs["id"]) {
				w.Errorf("%s: two elements are called %s", name, attrs["id"])
			}
			ids = append(ids, attrs["id"])
		}
		if _, ok := attrs["autofocus"]; ok {
			focused++
		}
		switch node.Data {
		case "html":
			if attrs["lang"] != b.got.Get("Content-Language") {
				w.Errorf("%s: lang is %q", name, attrs["lang"])
			}
		case "h1":
			heads++
		case "label":
			labels = append(labels, attrs["for"])
		case "input":
			if attrs["type"] != "hidden" && attrs["aria-hidden"] == "" {
				inputs = append(inputs, attrs["id"])
				if attrs["autocomplete"] == "" {
					w.Errorf("%s: %s says nothing to password managers", name, attrs["id"])
				}
			}
			if attrs["type"] == "password" && attrs["value"] != "" {
				w.Errorf("%s: it repeats a password", name)
			}
		}
	}
	if !slices.Equal(inputs, labels) || heads != 1 || len(inputs) > 0 && focused != 1 {
		w.Errorf("%s: inputs %v, labels %v, %d headings, %d are focused", name, inputs, labels, heads, focused)
	}
	for _, one := range inputs {
		if !slices.Contains(ids, one) {
			w.Errorf("%s: %s has no ID", name, one)
		}
	}
	if strings.HasSuffix(name, " wrong") && (!strings.Contains(b.body, `aria-invalid="true"`) || !strings.Contains(b.body, "<title>Error: ")) {
		w.Errorf("%s: the mistake is not marked: %s", name, b.body)
	}
	if strings.Contains(b.body, "ZgotmplZ") || strings.Contains(b.body, "%!") || strings.Contains(b.body, "<no value>") {
		w.Errorf("%s: %s", name, b.body)
	}
}

// TestCancel leaves from every page: with a form that has nothing to be filled in, the
// rules of every other form, and a button that comes after the page's own.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := 0
	w.pages(func(name string, b *browser) {
		at := strings.Index(b.body, `<button id="cancel" class="plain" type="submit" name="cancel"`)
		switch name {
		case "signout", "signedout", "error", "unknown", "post", "direct": // no client waits behind these
			if at >= 0 || b.forms["leave"] != nil {
				t.Errorf("%s: there is nothing to cancel", name)
			}
			return
		}
		seen++
		leave := b.forms["leave"]
		if at < 0 || leave == nil || leave.action != "/login/cancel" || len(leave.values) != 1 {
			t.Errorf("%s: no way back in %s", name, b.body)
			return
		}
		if main := strings.Index(b.body, `<button id="submit"`); main < 0 || at < main || strings.Contains(b.body[at:], "<a ") {
			t.Errorf("%s: the way back is not the last", name)
		}
		values := url.Values{"flow": leave.values["flow"], "cancel": {"yes"}}
		w.done()   // of the pages before
		same := *b // which stays on its page
		for kind, header := range map[string]http.Header{"another site": {"Sec-Fetch-Site": {"cross-site"}}, "another origin": {"Origin": {"https://evil.example"}}} {
			same.header = header
			same.post("/login/cancel", values).want(403, "/login/cancel", "cross_site")
			if same.path == "/canceled" {
				t.Errorf("%s: %s cancels", name, kind)
			}
		}
		same.header = http.Header{}
		same.open("/login/cancel?"+values.Encode()).want(405, "/login/cancel") // as a prefetch would
		w.browser().post("/login/cancel", values).want(400, "/login/cancel", "login_expired")
		same.post("/login/cancel", values).want(200, "/canceled", "redirect_uri=https%3A%2F%2Fapp.example%2Fcb")
		if same.got.Get("Set-Cookie") != "" || w.done() != nil {
			t.Errorf("%s: who leaves is signed in", name)
		}
	})
	if seen < 16 {
		t.Errorf("%d pages", seen)
	}
	b := w.browser().open("/login")
	b.post("/login/cancel", b.forms["form"].values).want(200, "/login") // nobody to go back to
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Language: "de"}})
	w.browser().open("/begin").want(200, "/login", `name="cancel" value="yes">Abbrechen</button>`)
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'{{.}}` + "\r\nSet-Cookie: x=y"

// TestSEC149_NothingOfOthersRuns puts markup wherever pages show what others say,
// which is SEC-010 for the page that posts.
func TestSEC149_NothingOfOthersRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("UPDATE users SET display_name = $1 WHERE username = 'alice'", hostile)
	check := func(b *browser) {
		t.Helper()
		if strings.Contains(b.body, "<script>alert") || strings.Contains(b.body, "<img") || b.got.Get("Set-Cookie") == "x=y" || !strings.Contains(b.body, "alert(1)") {
			t.Errorf("%s: %v %s", b.path, b.got, b.body)
		}
		w.wellMade(b.path[1:], b)
	}
	w.begin.Store(&begun{Asked: flow.Asked{Request: "redirect_uri=https%3A%2F%2Fapp.example%3B%20script-src%20*%2Fcb", AppName: hostile, Language: hostile}, Hint: hostile})
	b := w.browser().open("/begin")
	check(b)
	check(b.send("loginName", hostile))
	if policy := b.got.Get("Content-Security-Policy"); strings.Contains(policy, "*") {
		t.Errorf("the policy is %q", policy)
	}
	b.send("loginName", "alice") // it is not the name page any more, but takes its field
	b = w.browser()
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y"}})
	b.signIn("alice", "correct horse").want(200, "/done")
	w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Choose: true, AppName: hostile}})
	check(b.open("/begin").want(200, "/login/accounts"))
	check(w.browser().open("/error?d=" + url.QueryEscape(hostile)))
	check(w.browser().open("/logout?state=" + url.QueryEscape(hostile) + "&post_logout_redirect_uri=" + url.QueryEscape(hostile)))
	state := strings.Repeat(hostile, 40)
	b = w.browser().open("/post?state=" + url.QueryEscape(state))
	if got := b.forms["form"].values.Get("state"); strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(strings.ReplaceAll(state, "\r", ""), "\n", "") {
		t.Errorf("the state comes as %q", got)
	}
	if strings.Contains(b.body, "<script>alert") || strings.Count(b.body, "<script") != 1 || b.forms["form"].action != "https://app.example/cb" {
		t.Errorf("got %s", b.body)
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orgID := ""
	get := func(asked, accepted string) string {
		w.begin.Store(&begun{Asked: flow.Asked{Request: "x=y", Language: asked, OrgID: orgID}})
		b := w.browser()
		b.header = http.Header{"Accept-Language": {accepted}}
		return b.open("/begin").want(200, "/login").got.Get("Content-Language")
	}
	for _, test := range [][3]string{
		{"", "", "en"},
		{"", "de-CH,de;q=0.9,en;q=0.8", "de"},
		{"", "fr, en;q=0.4, de;q=0.8", "de"},
		{"de-CH en", "en", "de"},
		{"fr de en", "en", "de"},
		{"xx-!! fr", "de", "de"},
		{strings.Repeat("de ", 10_000), "", "en"},
		{"", strings.Repeat("de-x,", 10_000)[:20_000], "en"},
	} {
		if got := get(test[0], test[1]); got != test[2] {
			t.Errorf("%.40q, %.40q: got %s", test[0], test[1], got)
		}
	}
	const set = `INSERT INTO settings (instance_id, org_id, subject, properties, sequence, change_date)
		VALUES ($1, $2, 'languages', '{"defaultLanguage": {"key": "de"}, "restrictedLanguages": {"languages": [{"key": "de"}]}}', 1, now())`
	org := w.instance.DefaultOrg
	w.exec(set, w.instance.ID, org)
	w.Forget()
	orgID = org
	if got := get("en", "en"); got != "de" {
		t.Errorf("got %s for an organization where only German is allowed", got)
	}
	orgID = ""
	if got := get("en", "de"); got != "en" {
		t.Errorf("got %s for another one", got)
	}
	w.exec(set, w.instance.ID, "")
	w.Forget()
	if got := get("en", "en"); got != "de" {
		t.Errorf("got %s where only German is allowed", got)
	}
}

func TestASymbolicStylesheet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser().open("/login")
	_, rest, _ := strings.Cut(b.body, `<link rel="stylesheet" href="`)
	at, _, _ := strings.Cut(rest, `"`)
	if b.open(at); b.status != 200 || b.got.Get("Content-Type") != "text/css; charset=utf-8" || !strings.Contains(b.got.Get("Cache-Control"), "immutable") {
		t.Errorf("%s: %d %v", at, b.status, b.got)
	}
	if b.open("/login/style.css"); b.got.Get("Cache-Control") != "no-cache" {
		t.Errorf("got %v", b.got)
	}
}
