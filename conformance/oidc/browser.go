package oidc

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// browser is a user agent with cookies of its own. It follows redirects and
// fills forms, as its user would, until it is sent to a client or until a page
// leaves it nothing to do. It never connects to a client.
//
// It sends what the provider's CSRF protection may look at (Origin, Referer,
// Sec-Fetch-*), and keeps an eye on what a real browser would refuse.
type browser struct {
	r      *run
	client *http.Client
	jar    *siteJar
	// The violations of a content security policy: what would stop a real
	// browser, and goes on here.
	blocked []string
}

// arrival is where a navigation ended: at the client, or on a page.
type arrival struct {
	at     *url.URL // the last URL, with its fragment
	client bool     // at belongs to a client
	method string   // how it is requested
	form   url.Values
	// The type of a POST to the client, and whether the page would send it
	// without the user.
	contentType string
	automatic   bool

	page   *page // the page, or the one whose form leads to the client
	logins int   // how often credentials were asked for
	clicks int   // how often something else was
}

// hands says what the user does with the forms of a page.
type hands struct {
	name     bool // enters the login name where only that is asked for
	password int  // how often the password is entered
	confirm  int  // how many pages without a login form are confirmed
	cancel   bool // takes the way out, where there is one
	as       User // someone else than the user of the configuration
}

var (
	user    = hands{name: true, password: 2, confirm: 6}
	leaving = hands{confirm: 1} // confirms a logout, does not log in again
	visitor = hands{name: true} // goes as far as the password
	nobody  = hands{}           // looks at what comes and does nothing
)

const maxSteps = 40

func (r *run) newBrowser() *browser {
	jar := newSiteJar()
	return &browser{r: r, jar: jar, client: &http.Client{
		Transport:     r.log,
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// navigation is the next request of a browser.
type navigation struct {
	method string
	url    *url.URL
	form   url.Values // of a POST
	from   *page      // the page with the form; nil for the client's own page
	policy string     // the form-action that holds for a form and its redirects
}

// get opens a link of the client's page.
func (b *browser) get(to string, params string, h hands) *arrival {
	u := b.parse(nil, to)
	u.RawQuery = join(u.RawQuery, params)
	return b.navigate(navigation{method: http.MethodGet, url: u}, h)
}

// post submits a form of the client's page.
func (b *browser) post(to string, form url.Values, h hands) *arrival {
	return b.navigate(navigation{method: http.MethodPost, url: b.parse(nil, to), form: form}, h)
}

func join(query, more string) string {
	if query == "" || more == "" {
		return query + more
	}
	return query + "&" + more
}

// parse resolves a reference of the provider; a bad one ends the module.
func (b *browser) parse(base *url.URL, reference string) *url.URL {
	u, err := url.Parse(reference)
	if err != nil {
		b.r.stop("the provider gave a URL that is none: %v", err)
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	return u
}

func (b *browser) navigate(next navigation, h hands) *arrival {
	a := &arrival{}
	for range maxSteps {
		a.at, a.method, a.form = next.url, next.method, next.form
		b.checkFormAction(next)
		if b.r.suite.isClient(next.url) {
			a.client = true
			if next.method == http.MethodPost {
				a.contentType, a.automatic = next.from.contentType(next.url), next.from.automatic()
			}
			b.r.suite.masks.response(a)
			return a
		}
		x := b.send(next)
		if to := x.header.Get("Location"); to != "" && x.status >= 300 && x.status < 400 {
			next = follow(next, x.status, b.parse(next.url, to))
			continue
		}
		a.page = readPage(next.url, x)
		var ok bool
		if next, ok = b.act(a, &h); !ok {
			return a
		}
	}
	b.r.stop("the browser was sent around %d times and arrived nowhere", maxSteps)
	return nil
}

// follow is what a browser requests after a redirect (RFC 9110 §15.4): 307 and
// 308 repeat a form, credentials included; the others turn it into a GET.
func follow(last navigation, status int, to *url.URL) navigation {
	if to.Fragment == "" {
		to.Fragment = last.url.Fragment
	}
	next := navigation{method: http.MethodGet, url: to, from: last.from, policy: last.policy}
	if status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect {
		next.method, next.form = last.method, last.form
	}
	return next
}

func (b *browser) send(n navigation) *exchange {
	ctx, cancel := context.WithTimeout(b.r.ctx, b.r.suite.timeout)
	defer cancel()
	body := ""
	if n.method == http.MethodPost {
		body = n.form.Encode()
	}
	target := *n.url
	target.Fragment, target.RawFragment = "", ""
	req, err := http.NewRequestWithContext(ctx, n.method, target.String(), strings.NewReader(body))
	if err != nil {
		b.r.stop("cannot request %s: %v", n.url, err)
	}
	if n.method == http.MethodPost {
		req.Header.Set("Content-Type", urlEncoded)
		req.Header.Set("Origin", b.origin(n))
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	req.Header.Set("Accept-Language", "en")
	req.Header.Set("User-Agent", "Mozilla/5.0 (conformance)")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	site := "cross-site"
	if n.from != nil && sameOrigin(n.from.url, n.url) {
		site = "same-origin"
	}
	req.Header.Set("Sec-Fetch-Site", site)
	b.jar.crossSite, b.jar.post = site == "cross-site", n.method == http.MethodPost
	resp, err := b.client.Do(req)
	if err != nil {
		b.r.stop("no answer from %s: %v", n.url, err)
	}
	resp.Body.Close() // the transcript has read it
	return b.r.log.last()
}

// origin is what a browser sends with a form (Fetch, "append a request Origin
// header"): a page without a referrer has the origin null.
func (b *browser) origin(n navigation) string {
	if n.from == nil {
		u, err := url.Parse(b.r.client.RedirectURI)
		if err != nil {
			return "null"
		}
		return originOf(u)
	}
	switch n.from.header.Get("Referrer-Policy") {
	case "no-referrer":
		return "null"
	case "same-origin":
		if !sameOrigin(n.from.url, n.url) {
			return "null"
		}
	}
	return originOf(n.from.url)
}

// checkFormAction notes a form or a redirect after it that form-action forbids.
// Chromium holds redirects to it too, so a login page has to allow the client.
func (b *browser) checkFormAction(n navigation) {
	if n.from == nil || n.policy == "" {
		return
	}
	for source := range strings.FieldsSeq(n.policy) {
		switch {
		case source == "*", source == "'self'" && sameOrigin(n.from.url, n.url), source == n.url.Scheme+":":
			return
		case strings.TrimRight(source, "/") == originOf(n.url), strings.HasPrefix(n.url.String(), source):
			return
		}
	}
	b.blocked = append(b.blocked, "form-action "+n.policy+" of "+n.from.url.Path+" does not allow "+originOf(n.url))
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

const urlEncoded = "application/x-www-form-urlencoded"

// act decides what the user does on a page; false for nothing.
func (b *browser) act(a *arrival, h *hands) (navigation, bool) {
	if !a.page.isHTML() {
		return navigation{}, false
	}
	if f := a.page.toClient(b.r.suite.isClient); f != nil { // nobody has to click it
		return f.submit(nil, nil), true
	}
	if f := a.page.selfSubmitting(); f != nil {
		return f.submit(nil, nil), true
	}
	who := b.r.suite.config.User
	if h.as.LoginName != "" {
		who = h.as
	}
	if h.cancel {
		if next, ok := a.page.wayOut(); ok {
			a.clicks++
			return next, true
		}
	}
	if f, values := a.page.loginForm(who); f != nil {
		if !f.has("password") {
			if !h.name {
				return navigation{}, false
			}
			return f.submit(values, f.button(who)), true
		}
		if h.password == 0 {
			if a.logins > 1 {
				b.r.stop("the provider does not take the login name and password: %s", brief(a.page.words()))
			}
			return navigation{}, false
		}
		h.password--
		a.logins++
		return f.submit(values, f.button(who)), true
	}
	if a.page.status >= 400 || h.confirm == 0 {
		return navigation{}, false
	}
	f := a.page.confirmation(who)
	if f == nil {
		return navigation{}, false
	}
	h.confirm--
	a.clicks++
	return f.submit(nil, f.button(who)), true
}

// isHTML says whether a browser would show forms.
func (p *page) isHTML() bool {
	kind, _, _ := mime.ParseMediaType(cmp.Or(p.header.Get("Content-Type"), "text/html"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}
