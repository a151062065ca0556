package server_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/throttle"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

var flowField = regexp.MustCompile(`name="flow" value="([^"]*)"`)

// guesser is a browser that signs in, with headers of its own.
type guesser struct {
	*testing.T
	node   string
	client *http.Client
	header http.Header
	body   string
	status int
}

func newGuesser(c *servertest.Cluster, header http.Header) *guesser {
	jar, _ := cookiejar.New(nil)
	return &guesser{T: c.T, node: c.Nodes[0], client: &http.Client{Jar: jar}, header: header}
}

func (g *guesser) ask(method, path string, form url.Values) {
	g.Helper()
	req, err := http.NewRequestWithContext(g.Context(), method, g.node+path, strings.NewReader(form.Encode()))
	if err != nil {
		g.Fatal(err)
	}
	req.Header = g.header.Clone()
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := g.client.Do(req)
	if err != nil {
		g.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	g.body, g.status = string(body), res.StatusCode
}

// send sends a form with the flow of the page before.
func (g *guesser) send(path string, form url.Values) int {
	g.Helper()
	if flow := flowField.FindStringSubmatch(g.body); flow != nil {
		form.Set("flow", html.UnescapeString(flow[1]))
	}
	page := g.body
	if g.ask(http.MethodPost, path, form); g.status == http.StatusTooManyRequests {
		status := g.status
		g.body = page
		return status
	}
	return g.status
}

// guess enters a password for a user.
func (g *guesser) guess(user, password string) int {
	g.Helper()
	g.ask(http.MethodGet, "/login", nil)
	g.send("/login", url.Values{"loginName": {user}})
	return g.send("/login/password", url.Values{"password": {password}})
}

// Wrong passwords for many users, from one address: after some of them nobody there is
// heard, whatever headers they make up; somebody elsewhere is, and behind a trusted proxy
// each of its clients counts for themselves.
func TestSEC186_AnAddressHasSoManyTriesAndCannotPassForAnother(t *testing.T) {
	t.Parallel()
	const tries = 5
	start := func(proxies server.Proxies) *servertest.Cluster {
		return servertest.New(t, 1, func(c *server.Config) {
			c.Tries, c.Proxies, c.External = throttle.Limit{Times: tries, Per: time.Hour}, proxies, server.External{Scheme: "http"}
		})
	}
	direct := start(server.Proxies{})
	direct.Must("system", http.MethodDelete, "/resources/v3alpha/instances/"+direct.Instance("b"), "") // one is left: any host is its
	for i := range tries + 2 {
		stranger := newGuesser(direct, http.Header{
			"X-Forwarded-For": {fmt.Sprintf("203.0.113.%d", i)}, "Forwarded": {fmt.Sprintf("for=203.0.113.%d", i)}, "X-Real-Ip": {fmt.Sprintf("203.0.113.%d", i)},
		})
		if got, want := stranger.guess(fmt.Sprintf("user%d", i), "wrong"), i >= tries; (got == http.StatusTooManyRequests) != want {
			t.Errorf("guess %d: %d", i, got)
		}
	}
	behindProxy := start(behind(t, false))
	behindProxy.Must("system", http.MethodDelete, "/resources/v3alpha/instances/"+behindProxy.Instance("b"), "")
	from := func(address string) *guesser {
		return newGuesser(behindProxy, http.Header{"X-Forwarded-For": {"6.6.6.6, " + address}})
	}
	for i := range tries + 2 {
		if got, want := from("203.0.113.7").guess("someone", "wrong"), i >= tries; (got == http.StatusTooManyRequests) != want {
			t.Errorf("guess %d through the proxy: %d", i, got)
		}
	}
	if got := from("203.0.113.8").guess("someone", "wrong"); got == http.StatusTooManyRequests {
		t.Error("a neighbour pays")
	}
	// SEC-185: messages that strangers have sent count too.
	asking := from("203.0.113.9")
	for i := range tries + 2 {
		asking.ask(http.MethodGet, "/login", nil)
		asking.send("/login", url.Values{"loginName": {"x"}})
		if got, want := asking.send("/login/forgot", url.Values{"loginName": {fmt.Sprintf("x%d", i)}}), i >= tries; (got == http.StatusTooManyRequests) != want {
			t.Errorf("message %d: %d", i, got)
		}
	}
}
