package oidc_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The pages take no address to go to: only a sealed flow, and what a client
// registered. So whatever they are told of another one changes nothing.
func TestSEC152_NoParameterSendsABrowserElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, evil := range []string{"//evil.example", `/\evil.example`, "https:evil.example", "https://evil.example/", "%2f%2fevil.example", "javascript:alert(1)", "/login/..//evil.example"} {
		also := url.Values{}
		for _, name := range []string{"returnTo", "return_to", "next", "continue", "redirect", "redirect_to", "url", "target"} {
			also.Set(name, evil)
		}
		b := w.a.agent()
		check := func(what string) {
			t.Helper()
			if to := b.got.Header.Get("Location"); strings.Contains(to, "evil") || b.at.Host != "" && b.at.Host != w.a.host {
				t.Errorf("%s with %q: sent to %q", what, evil, to)
			}
			if strings.Contains(b.got.Text, "evil.example") || strings.Contains(b.got.Text, "javascript:") {
				t.Errorf("%s with %q: it is on the page", what, evil)
			}
		}
		b.open("/login?" + also.Encode())
		check("the first page")
		action, values := b.fields()
		values.Set("loginName", w.a.users["alice"].LoginName)
		for name := range also {
			values.Set(name, evil)
		}
		b.send(http.MethodPost, action+"?"+also.Encode(), values)
		check("the login name")
		b.fill("password", password, "returnTo", evil)
		check("the password")
		// A flow is sealed: an address in its place is none.
		b.open("/login?flow=" + url.QueryEscape(evil))
		if b.got.Status != http.StatusBadRequest {
			t.Errorf("%q as flow: %d", evil, b.got.Status)
		}
		check("the flow")
		// With a client the browser goes where the client registered, and nowhere else.
		if got := b.authorize("web", "returnTo", evil, "next", evil); !got.Has("code") {
			t.Errorf("%q beside an authorization request: %v", evil, got)
		}
	}
}

// Whose address a session has is who is connected: headers that anybody can send say
// nothing of it, and what is no address stops nothing.
func TestSEC186_ForwardingHeadersAreNotBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, spoof := range []string{"203.0.113.7", "127.0.0.2, 203.0.113.7", "localhost", "not an address", "::ffff:203.0.113.7", strings.Repeat("1.1.1.1,", 500)} {
		from := func(r *http.Request) {
			for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip"} {
				r.Header.Set(name, spoof)
			}
			r.Header.Set("Forwarded", "for="+spoof)
			r.Header.Set("X-Forwarded-Host", "evil.example")
			r.Header.Set("X-Forwarded-Proto", "gopher")
		}
		b := w.a.agent()
		b.open("/login", from)
		b.fill("loginName", w.a.users["bob"].LoginName)
		action, values := b.fields()
		values.Set("password", password)
		b.send(http.MethodPost, action, values, from)
		ip := w.value("SELECT ip FROM sessions WHERE user_id = $1 ORDER BY creation_date DESC LIMIT 1", w.a.users["bob"].ID)
		if ip != "127.0.0.1" {
			t.Errorf("%q: the session is from %q", spoof, ip)
		}
		if got := w.a.call(http.MethodGet, "/.well-known/openid-configuration", "", from); got.text("issuer") != w.a.issuer {
			t.Errorf("%q: the issuer is %q", spoof, got.text("issuer"))
		}
	}
}
