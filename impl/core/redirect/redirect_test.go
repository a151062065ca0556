package redirect_test

import (
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/redirect"
)

const registered = "https://app.example.com/cb"

// mutations look like the registered address, or are read as it by something.
var mutations = []string{
	"", "https://app.example.com/cb/", "https://app.example.com/CB", "https://APP.example.com/cb", "HTTPS://app.example.com/cb",
	"https://app.example.com:443/cb", "https://app.example.com:444/cb", "https://app.example.com:/cb", "https://app.example.com./cb",
	"https://app.example.com/cb?", "https://app.example.com/cb?x=1", "https://app.example.com/cb#", "https://app.example.com/cb#x",
	"https://app.example.com/cb ", " https://app.example.com/cb", "https://app.example.com/cb\n", "https://app.example.com/cb\x00",
	"https://app.example.com/%63b", "https://app.example.com/c%62", "https://app.example.com/cb%2e", "https://app.example.com/cb%2f",
	"https://app.example.com//cb", "https://app.example.com/./cb", "https://app.example.com/x/../cb", "https://app.example.com/%2e%2e/cb",
	"https://app.example.com/cb/..", "https://app.example.com\\cb", "https:\\\\app.example.com\\cb", "https:/app.example.com/cb", "https:app.example.com/cb",
	"https://user@app.example.com/cb", "https://user:x@app.example.com/cb", "https://app.example.com@evil.example/cb", "https://evil.example\\@app.example.com/cb",
	"http://app.example.com/cb", "javascript://app.example.com/cb", "app.example.com/cb", "//app.example.com/cb", "/cb",
	"https://app.example.com.evil.example/cb", "https://evil.example/https://app.example.com/cb", "https://xapp.example.com/cb", "https://app.example.co/cb",
	"https://app.еxample.com/cb", "https://app.xn--xample-2of.com/cb", "https://app。example.com/cb", "https://app.example.com/сb",
	"https://app.example.com/cb;x", "https://app.example.com/cb,https://evil.example", "https://app.example.com/cbx", "https://app.example.com/c", "https://app.example.com",
	"https://app.example.com/*", "https://*.example.com/cb", "https://[::1]/cb", "https://app.example.com:0443/cb",
}

func TestSEC001_OnlyTheRegisteredAddressMatches(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{false, true} {
		if !redirect.Match(registered, registered, native) {
			t.Error("the registered address itself does not match")
		}
		for _, asked := range mutations {
			if redirect.Match(registered, asked, native) || redirect.MatchDevelopment(registered, asked, native) {
				t.Errorf("%q matches", asked)
			}
		}
	}
	if len(mutations) < 40 {
		t.Errorf("%d mutations, want 40", len(mutations))
	}
}

func TestSEC002_OnlyThePortOfANativeLoopbackAddressMayDiffer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		registered, asked string
		native, want      bool
	}{
		{"http://127.0.0.1/cb", "http://127.0.0.1:53121/cb", true, true},
		{"http://127.0.0.1:80/cb", "http://127.0.0.1/cb", true, true},
		{"http://127.0.0.1:1/cb?a=b", "http://127.0.0.1:2/cb?a=b", true, true},
		{"http://[::1]/cb", "http://[::1]:65535/cb", true, true},
		{"http://localhost/cb", "http://localhost:8080/cb", true, true},
		{"http://127.0.0.1", "http://127.0.0.1:8080", true, true},
		{"http://127.0.0.1/cb", "http://127.0.0.1:53121/cb", false, false},
		{"http://127.0.0.1/cb", "http://localhost/cb", true, false},
		{"http://localhost/cb", "http://127.0.0.1/cb", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:1/cb?x", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:1/CB", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:1/other", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:0/cb", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:080/cb", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:65536/cb", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:/cb", true, false},
		{"http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example/cb", true, false},
		{"http://127.0.0.1", "http://127.0.0.1:1@evil.example", true, false},
		{"http://127.0.0.1", "http://127.0.0.1.evil.example", true, false},
		{"http://127.0.0.1", "http://127.0.0.1:1.evil.example", true, false},
		{"http://localhost", "http://localhost:1#x", true, false},
		{"https://127.0.0.1/cb", "https://127.0.0.1:1/cb", true, false},
		{"http://127.0.0.2/cb", "http://127.0.0.2:1/cb", true, false},
		{"http://app.example.com/cb", "http://app.example.com:1/cb", true, false},
	} {
		if got := redirect.Match(test.registered, test.asked, test.native); got != test.want {
			t.Errorf("%q asked as %q (native %v): got %v", test.registered, test.asked, test.native, got)
		}
	}
}

func TestAnAsteriskStaysInItsLabelOrSegment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		registered, asked string
		want              bool
	}{
		{"https://*.example.com/cb", "https://preview-1.example.com/cb", true},
		{"https://pr-*.example.com/*/cb", "https://pr-7.example.com/de/cb", true},
		{"https://*.example.com/cb", "https://a.b.example.com/cb", false},
		{"https://*.example.com/cb", "https://.example.com/cb", false},
		{"https://*.example.com/cb", "https://evil.example/x.example.com/cb", false},
		{"https://*.example.com/cb", "https://evil?.example.com/cb", false},
		{"https://*.example.com/cb", "https://evil@.example.com/cb", false},
		{"https://example.com/*", "https://example.com/a/b", false},
		{"https://example.com/*", "https://example.com/..", false},
		{"https://example.com/*", "https://example.com/%2e", false},
		{"https://example.com/*", "https://example.com/*", false},
		{"https://*/*", "https://a/", false},
		{"https://*-*.example.com", "https://a-b-c.example.com", true},
		{"https://example.com/cb", "https://example.com/cb", true},
	} {
		if got := redirect.MatchDevelopment(test.registered, test.asked, false); got != test.want {
			t.Errorf("%q asked as %q: got %v", test.registered, test.asked, got)
		}
	}
}

var (
	web, native = redirect.Client{}, redirect.Client{Native: true}
	development = redirect.Client{Development: true}
)

func TestSEC003_WhatMayBeRegistered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		uri                      string
		web, native, development bool
	}{
		{"https://app.example.com/cb", true, true, true},
		{"https://app.example.com:8443/cb?tenant=1", true, true, true},
		{"https://[2001:db8::1]/cb", true, true, true},
		{"com.example.app:/cb", true, true, true},
		{"com.example.app://cb", true, true, true},
		{"http://127.0.0.1/cb", false, true, true},
		{"http://[::1]:1234/cb", false, true, true},
		{"http://localhost/cb", false, true, true},
		{"http://app.example.com/cb", false, false, true},
		{"http://127.0.0.1.evil.example/cb", false, false, true},
		{"https://*.example.com/cb", false, false, true},
	} {
		for _, client := range []struct {
			client redirect.Client
			want   bool
		}{{web, test.web}, {native, test.native}, {development, test.development}} {
			if err := client.client.Check(test.uri); (err == nil) != client.want {
				t.Errorf("%q for %+v: got %v", test.uri, client.client, err)
			}
		}
	}
	for _, uri := range []string{
		"", "/cb", "//app.example.com/cb", "app.example.com", "https:", "https://", "https:///cb", "https:/app.example.com", "https:app.example.com", "1x://a", "-x:/a", "com.example.app:",
		"https://app.example.com/cb#", "https://app.example.com/#x", "https://u@app.example.com", "https://u:p@app.example.com", "https://@app.example.com",
		"https://app.example.com/c b", "https://app.example.com/cb\t", "\nhttps://app.example.com/cb", "https://app.example.com/\x7f", "https://app.example.com/\x01",
		"https://äpp.example.com/cb", "https://app.example.com/ä", "https://app.example.com\\cb", "https://app.example.com/%", "https://app.example.com/%g1",
		"https://app..example.com/", "https://%61pp.example.com/", "https://[::1/", "https://[app]/", "https://[::1%25eth0]/", "https://app.example.com:0/", "https://app.example.com:99999/", "https://app.example.com:/",
		"https://app.example.com/\"><script>", "https://app.example.com/{x}",
		"javascript:alert(1)", "JavaScript:alert(1)", "JAVASCRIPT://app.example.com/%0aalert(1)", "java\tscript:alert(1)", " javascript:alert(1)", "\x01javascript:alert(1)", "java%73cript:alert(1)", "javascript&colon;alert(1)",
		"data:text/html,x", "DATA:text/html;base64,eA==", "vbscript:x", "VbScript:x", "file:///etc/passwd", "blob:https://app.example.com/x", "about:blank", "filesystem:https://a/x",
		"view-source:https://a", "jar:https://a!/x", "intent://a#Intent;end", "intent://a", "ws://a/", "ftp://a/", "mailto:a@b", "feed:javascript:x",
	} {
		for _, client := range []redirect.Client{web, native, development, {Native: true, Development: true}} {
			if client.Check(uri) == nil {
				t.Errorf("%q is registered for %+v", uri, client)
			}
			if client.CheckOrigin(uri) == nil {
				t.Errorf("%q is an origin for %+v", uri, client)
			}
		}
	}
}

func TestOriginsHaveNothingAfterThePort(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]bool{
		"https://app.example.com": true, "https://app.example.com:8443": true, "capacitor://localhost": true, "https://app.example.com/": false, "https://app.example.com?": false,
		"https://*.example.com": false, "http://app.example.com": false, "null": false, "*": false,
	} {
		if err := web.CheckOrigin(origin); (err == nil) != want {
			t.Errorf("%q: got %v", origin, err)
		}
	}
	for uri, want := range map[string]string{
		"https://App.Example.com:443/cb": "https://app.example.com", "http://localhost:80": "http://localhost", "https://a:444/x?y": "https://a:444", "com.example:/cb": "", "https://*.a/": "",
	} {
		if got := redirect.Origin(uri); got != want {
			t.Errorf("%q: got %q, want %q", uri, got, want)
		}
	}
}

// FuzzMatch looks for an address that matches without being the registered one up
// to a port, and for registered ones with what no registered one may have.
func FuzzMatch(f *testing.F) {
	for _, mutation := range mutations {
		f.Add(registered, mutation)
		f.Add("http://127.0.0.1:1/cb", strings.Replace(mutation, "https://app.example.com", "http://127.0.0.1", 1))
	}
	f.Fuzz(func(t *testing.T, registered, asked string) {
		if redirect.Match(registered, asked, false) != (registered == asked) {
			t.Errorf("%q matches %q", asked, registered)
		}
		if native.Check(registered) != nil {
			return
		}
		if strings.ContainsAny(registered, "#\\*\" \t\r\n\x00<>") || strings.HasPrefix(strings.ToLower(registered), "javascript:") {
			t.Errorf("%q may be registered", registered)
		}
		// What matches for a native application may be registered as well, and has
		// the same origin but for the port.
		if redirect.Match(registered, asked, true) && registered != asked {
			if native.Check(asked) != nil || !redirect.IsLoopback(asked) || !redirect.IsLoopback(registered) {
				t.Errorf("%q matches %q", asked, registered)
			}
		}
	})
}
