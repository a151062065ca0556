package login

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/writ-id/writ/impl/core/compress"
	"github.com/writ-id/writ/impl/core/policy"
)

//go:embed pages/*.html
var files embed.FS

//go:embed style/style.css
var style []byte

//go:embed style/reveal.js
var reveal string

// revealHash is what the content security policy of pages with a password lets run,
// and nothing else: the script that shows what was typed.
var revealHash = func() string {
	hash := sha256.Sum256([]byte(reveal))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}()

// styleURL names the stylesheet by its content, so that browsers may keep it.
var styleURL = func() string {
	hash := sha256.Sum256(style)
	return pathStyle + "?v=" + base64.RawURLEncoding.EncodeToString(hash[:9])
}()

var templates = template.Must(template.ParseFS(files, "pages/*.html"))

// page is what a page shows. Texts are in its language already.
type page struct {
	name   string // of its template
	status int

	Words  words
	Brand  brand
	Style  string
	Title  string // of the window
	Head   string
	Lead   string
	Notice string // what became of the page before

	Action template.URL // where its form goes; checked by who sets it
	Flow   string       // sealed
	Hidden []param
	Fields []field
	Who    string // the login name, once it is known
	Change link
	Submit string
	Links  []link
	Other  []link // each a form with one button
	// Providers are the buttons of identity providers, one form.
	Providers []link
	Cancel    link // the way back to the client, a form too; empty when none waits
	Errors    []fieldError

	Accounts []account
	Handed   []string // the roles that a consent names

	Code, RequestID string   // of an error
	Received        string   // the address that is not registered
	Registered      []string // those that are
	Nonce           string
	flow, who       string      // what a sheet is filled with
	Reveal          template.JS // shows passwords; only on pages that have some
}

// field is an entry of a form.
type field struct {
	Name, Type, Value, Autocomplete string
	Label, Hint, Error              string // filled by render, as far as they are empty
	Username                        bool   // a login name: not to be corrected or capitalized
	Numeric, Optional, Focus        bool
	MinLength                       int
}

type fieldError struct{ Field, Text string }

type link struct{ Text, Href string }

type param struct{ Name, Value string }

// mistake is what is wrong with an entry, by the key of its text.
type mistake struct{ field, key string }

// page returns a page of the flow, with the texts that are called like it.
func (v *visit) page(name string, action template.URL) *page {
	p := &page{
		name: "form.html", status: http.StatusOK, Words: v.words, Action: action,
		Head: v.words.get(name + ".head"), Submit: v.words.get(name + ".submit"),
	}
	if v.words.has(name + ".lead") {
		p.Lead = v.words.get(name + ".lead")
	}
	if v.flow.GetAppName() != "" && (name == "name" || name == "password" || name == "accounts" || name == "register") {
		p.Lead = v.words.get("continue", v.flow.GetAppName())
	}
	if v.words.has("notice." + v.flow.GetNotice()) {
		p.Notice = v.words.get("notice." + v.flow.GetNotice())
	}
	return p
}

// link returns a link to a page of the flow; render completes it.
func (v *visit) link(name, path string) link { return link{v.words.get("link." + name), path} }

// renderWith is render with the buttons of the identity providers that count in the flow. Who
// is linking an identity has come from one.
func (v *visit) renderWith(p *page, mistakes []mistake) error {
	offered, err := v.offer()
	if err != nil {
		return err
	}
	if !v.flow.GetLinking() {
		for _, one := range offered {
			p.Providers = append(p.Providers, link{v.words.get("external.continue", one.Name), one.ID})
		}
	}
	return v.render(p, mistakes)
}

// render shows a page of the flow with the mistakes that were made on it.
func (v *visit) render(p *page, mistakes []mistake) error {
	v.flow.Notice = "" // told
	v.spent = v.spent || slices.ContainsFunc(mistakes, func(one mistake) bool {
		return strings.HasSuffix(one.key, ".wrong") || strings.HasSuffix(one.key, ".spent")
	})
	sealed, err := v.sealed()
	if err != nil {
		return err
	}
	p.flow, p.who, p.Flow, p.Title = sealed, p.Who, flowMark, v.words.title(p.Head, hostOf(v.r))
	if p.Who != "" {
		p.Who = whoMark
	}
	if v.flow.GetRequest() != "" {
		p.Cancel = v.link("cancel", pathCancel)
	}
	for i := range p.Links {
		p.Links[i].Href += "?flow=" + flowMark
	}
	if p.Change.Href != "" {
		p.Change.Href += "?flow=" + flowMark
	}
	for i := range p.Fields {
		f := &p.Fields[i]
		if f.Label == "" {
			f.Label = v.words.get("field." + f.Name)
		}
		if f.Hint == "" && v.words.has("hint."+f.Name) {
			f.Hint = v.words.get("hint." + f.Name)
		}
		for _, one := range mistakes {
			if one.field == f.Name && f.Error == "" {
				f.Error = v.words.get(one.key)
				p.Errors = append(p.Errors, fieldError{f.Name, f.Error})
			}
		}
		f.Focus = i == 0 && len(mistakes) == 0 || f.Error != "" && len(p.Errors) == 1
	}
	for _, one := range mistakes {
		policy.RequestFrom(v.r.Context()).Reason = one.key
	}
	if len(p.Errors) > 0 {
		p.status = http.StatusBadRequest
		p.Title = v.words.get("title.error", p.Title)
	}
	if slices.ContainsFunc(p.Fields, func(f field) bool { return f.Type == "password" }) {
		p.Reveal = template.JS(reveal) //nolint:gosec // our own file
	}
	v.leave()
	targets := formTargets(v.flow.GetRequest())
	if len(p.Providers) > 0 {
		targets = v.beyond(v.r, targets)
	}
	v.show(v.w, v.r, p, targets)
	return nil
}

// show writes a page. Its form may go to ourselves and to what targets allow.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, shown *page, targets string) {
	shown.Style, shown.Brand = styleURL, shown.Words.brand(hostOf(r))
	rendered, err := p.sheets.of(shown, func() (*sheet, error) {
		var body bytes.Buffer
		err := templates.ExecuteTemplate(&body, shown.name, shown)
		return newSheet(body.Bytes()), err
	})
	if err != nil {
		p.Logger.ErrorContext(r.Context(), "a page cannot be shown", "page", shown.name, policy.LogID(r.Context()), "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	script := ""
	switch {
	case shown.Nonce != "":
		script = "'nonce-" + shown.Nonce + "'"
	case shown.Reveal != "":
		script = revealHash
	}
	secureHeaders(w, p.secure(r), targets, script, shown.Words.scene.hash)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Language", shown.Words.language)
	w.WriteHeader(shown.status)
	_ = rendered.fill(w, shown.flow, shown.who) // a client that is gone cannot be told
}

// secureHeaders sets what keeps a page from running, loading, being framed by and
// telling others anything (SEC-146, SEC-147, SEC-148).
func secureHeaders(w http.ResponseWriter, secure bool, targets, script, style string) {
	policy := "default-src 'none'; style-src " + strings.TrimSpace("'self' "+style) + "; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action " + targets
	if script != "" {
		policy += "; script-src " + script
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// formTargets returns where forms of a login may lead: the last one leads to the
// client, if one waits.
func formTargets(request string) string {
	query, err := url.ParseQuery(request)
	if targets := clientTargets(query.Get("redirect_uri")); err == nil && targets != "" {
		return "'self' " + targets
	}
	return "'self'"
}

// beyond adds to targets where forms lead that go on to identity providers: wherever those send
// the browser on, which nobody here knows; in development, to servers on this machine.
func (p *Pages) beyond(r *http.Request, targets string) string {
	more := []string{"https:"}
	if !p.secure(r) {
		more = append(more, "http://localhost:*", "http://127.0.0.1:*")
	}
	for _, one := range more {
		if !slices.Contains(strings.Fields(targets), one) {
			targets += " " + one
		}
	}
	return targets
}

// clientTargets returns where a form may lead that ends at a client. Chromium holds
// every redirect that answers a form to form-action, those of the client too, and a
// callback may send the browser on to an origin that nobody here knows: the pages of
// a backend are often elsewhere. So all that can be named is its scheme, and for
// clients without TLS, which are being developed or run on the user's device, the
// loopback hosts that can be a source: [::1] cannot.
func clientTargets(address string) string {
	own := source(address)
	switch {
	case strings.HasPrefix(own, "https:"):
		return "https:"
	case strings.HasPrefix(own, "http:"):
		return own + " http://localhost:* http://127.0.0.1:* https:"
	}
	return own
}

// plainHost is a host that can stand in a content security policy.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]{1,5})?$`)

// source returns a URL as a source of a content security policy: its origin, or its
// scheme where that is all there is to name (an app's own, an IPv6 address).
func source(text string) string {
	target, err := url.Parse(text)
	switch {
	case err != nil || target.Scheme == "" || slices.Contains([]string{"javascript", "data", "vbscript"}, target.Scheme):
		return ""
	case (target.Scheme == "http" || target.Scheme == "https") && plainHost.MatchString(target.Host):
		return target.Scheme + "://" + target.Host
	}
	return target.Scheme + ":"
}

// serveStyle serves the stylesheet.
func serveStyle(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/css; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.URL.RequestURI() == styleURL {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	preparedStyle.Serve(w, r)
}

var preparedStyle = &compress.Prepared{Plain: style}

// hostOf returns the host that a request was made to, without its port.
func hostOf(r *http.Request) string { return policy.CanonicalHost(r.Host) }

// requestID returns the ID that the server gave a request.
func requestID(r *http.Request) string { return policy.RequestFrom(r.Context()).ID }

// shorten cuts a text to so many bytes and makes it one that can be stored.
func shorten(text string, length int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if len(text) > length {
		text = strings.ToValidUTF8(text[:length], "")
	}
	return text
}
