package oidc

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// loginPage: nobody may put the page in a frame, keep it, or learn from it where
// the user comes from (RFC 9700 §4.16, §4.2.4).
func loginPage(r *run) {
	a := r.send(r.request().as(visitor))
	if a.client || !a.page.isHTML() {
		r.stop("no login page: the browser is at %s", a.at)
	}
	h := a.page.header
	ancestors, frame := a.page.directive("frame-ancestors"), strings.ToUpper(h.Get("X-Frame-Options"))
	if ancestors != "'none'" && ancestors != "'self'" && frame != "DENY" && frame != "SAMEORIGIN" {
		r.fail("the login page may be framed: frame-ancestors is %q, X-Frame-Options %q", ancestors, frame)
	}
	if !(answer{header: h}).noStore() {
		r.fail("Cache-Control of the login page is %q, want no-store", h.Get("Cache-Control"))
	}
	if h.Get("Referrer-Policy") == "" {
		r.warn("the login page has no Referrer-Policy")
	}
	if h.Get("X-Content-Type-Options") != "nosniff" {
		r.warn("the login page has no X-Content-Type-Options: nosniff")
	}
	script := cmp.Or(a.page.directive("script-src"), a.page.directive("default-src"))
	if script == "" || strings.Contains(script, "'unsafe-inline'") && !strings.Contains(script, "'nonce-") && !strings.Contains(script, "'sha256-") {
		r.warn("the login page lets every script run: script-src is %q", script)
	}
	f, _ := a.page.loginForm(r.suite.config.User)
	if f == nil {
		r.stop("the login page has no login form: %s", brief(a.page.words()))
	}
	if f.method() != http.MethodPost {
		r.fail("the login form has the method %q, want POST", f.method())
	}
}

// loginCSRF posts the login form of one browser from another, as a page of an
// attacker would, who wants the victim logged in as somebody else.
func loginCSRF(r *run) {
	a := r.send(r.request().as(visitor))
	if a.client || !a.page.isHTML() {
		r.stop("no login page: the browser is at %s", a.at)
	}
	f, values := a.page.loginForm(r.suite.config.User)
	if f == nil {
		r.stop("the login page has no login form: %s", brief(a.page.words()))
	}
	post := f.submit(values, f.button(r.suite.config.User))
	evil := &page{url: r.browser.parse(nil, "https://evil.example/"), header: http.Header{}, root: &html.Node{Type: html.DocumentNode}}
	victim := r.newBrowser()
	back := victim.navigate(navigation{method: post.method, url: post.url, form: post.form, from: evil}, hands{confirm: 6})
	if back.client && !back.at.Query().Has("error") {
		r.stop("a login form posted from another site, without the cookies of its page, logged a browser in")
	}
	r.browser = victim
	q := r.request().with("prompt", "none").as(nobody)
	r.refused(q, r.send(q), r.mode(), interaction...)
}

// sessionCookies looks at every cookie that is set up to the end of a flow.
func sessionCookies(r *run) {
	r.complete(r.request())
	seen := map[string]bool{}
	for _, x := range r.log.exchanges {
		for _, c := range (&http.Response{Header: x.header}).Cookies() {
			if seen[c.Name] || c.MaxAge < 0 || c.Value == "" {
				continue
			}
			seen[c.Name] = true
			if !c.Secure && x.request.URL.Scheme == "https" {
				r.fail("the cookie %s is not Secure", c.Name)
			}
			if !c.HttpOnly {
				r.fail("the cookie %s is not HttpOnly", c.Name)
			}
			if c.SameSite == 0 || c.SameSite == http.SameSiteDefaultMode {
				r.warn("the cookie %s has no SameSite", c.Name)
			}
			if c.Domain != "" {
				r.warn("the cookie %s is for all hosts of %s", c.Name, c.Domain)
			}
		}
	}
	if len(seen) == 0 {
		r.fail("no cookie was set, but the session is remembered")
	}
}

// wrongPassword: it is refused, and an outsider learns nothing about which users
// there are.
func wrongPassword(r *run) {
	var said []string
	for _, name := range []string{r.suite.config.User.LoginName, "nobody-" + strings.ToLower(randomText(8, alphanumerics))} {
		h := hands{name: true, password: 1, confirm: user.confirm, as: User{name, "Wrong-" + randomText(10, alphanumerics) + "1!"}}
		r.browser = r.newBrowser()
		a := r.send(r.request().as(h))
		if a.client {
			r.fail("the login name %q with a wrong password led to the client: %s", name, a.at)
			continue
		}
		if strings.Contains(a.page.source, h.as.Password) {
			r.fail("the page shows the password that was entered")
		}
		if a.page.status >= 500 {
			r.fail("a wrong password was answered with %d", a.page.status)
		}
		said = append(said, strings.ReplaceAll(a.page.words(), name, "…"))
	}
	if len(said) == 2 && said[0] != said[1] {
		r.warn("a known and an unknown login name are refused in other words: %q and %q", brief(said[0]), brief(said[1]))
	}
}

// credentialsNotRepeated: a browser repeats a form after 307 and 308, so the
// password would go to the client (RFC 9700 §4.12).
func credentialsNotRepeated(r *run) {
	defer func() { // also when the browser gets nowhere
		for _, x := range r.log.exchanges {
			if x.request.Method == http.MethodPost && (x.status == http.StatusTemporaryRedirect || x.status == http.StatusPermanentRedirect) {
				r.fail("%s %s was redirected with %d, which repeats the form; want 303", x.request.Method, x.request.URL.Path, x.status)
			}
		}
	}()
	r.complete(r.request())
}

// markup is what a page must not have unescaped.
const markup = `"'><script>alert(1)</script>`

func errorPageEscapes(r *run) {
	for _, name := range []string{"client_id", "redirect_uri", "response_type", "scope", "state", "prompt", "response_mode", "login_hint", "ui_locales", "display", markup} {
		q := r.request().with(name, markup).as(nobody)
		r.escaped(r.send(q), name)
		if name != "redirect_uri" && name != "client_id" { // once more on the page of another error
			r.escaped(r.send(q.with("redirect_uri", "https://evil.example/"+markup)), name)
		}
	}
}

func (r *run) escaped(a *arrival, name string) {
	if a.page != nil && strings.Contains(a.page.source, "<script>alert(1)") {
		r.fail("the page shows %s as it came, as markup", name)
	}
	if !a.client && a.page.status >= 500 {
		r.fail("markup in %s was answered with %d", name, a.page.status)
	}
}

// policies: a real browser would do what the suite's did.
func policies(r *run) {
	r.authorize(r.request())
	for _, violation := range r.browser.blocked {
		r.fail("a browser would stop here: %s", violation)
	}
}

// formPostPage looks at the page that carries a response (OAuth 2.0 Form Post
// Response Mode 1.0).
func formPostPage(r *run) {
	q := r.request().with("state", nastyState()+" +;"+markup)
	f := r.accept(q, r.send(q))
	p := f.arrival.page
	if strings.Contains(p.source, markup) {
		r.fail("the form_post page shows the state as it came, as markup")
	}
	if !(answer{header: p.header}).noStore() {
		r.fail("Cache-Control of the form_post page is %q, want no-store", p.header.Get("Cache-Control"))
	}
	if !strings.Contains(p.source, "<button") && !strings.Contains(p.source, `type="submit"`) {
		r.fail("the form_post page has no button for browsers without scripts")
	}
	if !p.scriptRuns() {
		r.fail("the content security policy of the form_post page does not let its script run: %q", p.header.Get("Content-Security-Policy"))
	}
	for _, violation := range r.browser.blocked {
		r.fail("a browser would stop here: %s", violation)
	}
}

// scriptRuns says whether a browser would run the script of a page: what of
// script-src matters for one (CSP Level 3 §6.7.3).
func (p *page) scriptRuns() bool {
	policy := cmp.Or(p.directive("script-src"), p.directive("default-src"))
	if policy == "" {
		return true
	}
	sources := strings.Fields(policy)
	nonces := slices.ContainsFunc(sources, func(s string) bool { return strings.HasPrefix(s, "'nonce-") || strings.HasPrefix(s, "'sha") })
	inline := slices.Contains(sources, "'unsafe-inline'") && !nonces
	hashed := func(code string) bool {
		sum := sha256.Sum256([]byte(code))
		return slices.Contains(sources, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	for node := range p.root.Descendants() {
		switch {
		case node.Type != html.ElementNode:
		case has(node, "onload"):
			if inline || slices.Contains(sources, "'unsafe-hashes'") && hashed(attribute(node, "onload")) {
				return true
			}
		case node.Data != "script":
		case attribute(node, "nonce") != "" && slices.Contains(sources, "'nonce-"+attribute(node, "nonce")+"'"):
			return true
		case has(node, "src"):
			to, err := p.url.Parse(attribute(node, "src"))
			if err == nil && (slices.Contains(sources, "'self'") && sameOrigin(to, p.url) || slices.Contains(sources, originOf(to)) || slices.Contains(sources, "*")) {
				return true
			}
		case inline || node.FirstChild != nil && hashed(node.FirstChild.Data):
			return true
		}
	}
	return false
}
