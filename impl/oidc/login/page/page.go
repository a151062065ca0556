// Package page draws what people see of the OpenID provider: log-in, consent, errors and
// log-out, in the language and the looks that apply. A page comes out as a value (Answer); who
// asked, and over what, is not known here.
package page

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// Page is what a page shows. Texts are in its language already.
type Page struct {
	template string // its name
	status   int

	Words  Words
	Brand  brand
	Style  string
	Title  string // of the window
	Head   string
	Lead   string
	Notice string // what became of the page before

	Action template.URL // where its form goes; checked by who sets it
	Flow   string       // sealed
	Hidden []Param
	Fields []Field
	Who    string // the login name, once it is known
	Change Link
	Submit string
	Links  []Link
	Other  []Link // each a form with one button
	// Providers are the buttons of identity providers, one form.
	Providers []Link
	Cancel    Link // the way back to the client, a form too; empty when none waits
	Errors    []fieldError

	Accounts []Account
	Handed   []string // the roles that a consent names

	Code, RequestID string      // of an error
	Received        string      // the address that is not registered
	Registered      []string    // those that are
	Nonce           string      // of the one script that may run
	flow, who       string      // what a sheet is filled with
	Reveal          template.JS // shows passwords; only on pages that have some
}

// Field is an entry of a form.
type Field struct {
	Name, Type, Value, Autocomplete string
	Label, Hint, Error              string // filled by Render, as far as they are empty
	Username                        bool   // a login name: not to be corrected or capitalized
	Numeric, Optional, Focus        bool
	MinLength                       int
}

type fieldError struct{ Field, Text string }

// Link is a link or a button; on pages of a login the flow is added to its address.
type Link struct{ Text, Href string }

// Param is a hidden entry of a form.
type Param struct{ Name, Value string }

// Account is a line of the chooser.
type Account struct {
	Session, DisplayName, LoginName string
	Initial                         string
	State                           string // what is still asked for, in words
	Focus                           bool
}

// NewAccount returns a line for a user.
func NewAccount(sessionID, displayName, loginName string) Account {
	one := Account{Session: sessionID, DisplayName: displayName, LoginName: loginName, Initial: "·"}
	for _, first := range displayName {
		one.Initial = string(first)
		break
	}
	return one
}

// Mistake is what is wrong with an entry, by the key of its text.
type Mistake struct{ Field, Key string }

// Of returns a page of a login, with the texts that are called like it.
func (w Words) Of(f *flow.Flow, name, action string) *Page {
	p := w.page("form.html", name)
	p.Action = template.URL(action) //nolint:gosec // one of our own paths
	if app := f.Asked().AppName; app != "" && (name == "name" || name == "password" || name == "accounts" || name == "register") {
		p.Lead = w.Get("continue", app)
	}
	if w.Has("notice." + f.Notice()) {
		p.Notice = w.Get("notice." + f.Notice())
	}
	return p
}

// page returns a page with the texts that are called like it.
func (w Words) page(template, name string) *Page {
	p := &Page{template: template, status: http.StatusOK, Words: w, Head: w.Get(name + ".head"), Submit: w.Get(name + ".submit")}
	if w.Has(name + ".lead") {
		p.Lead = w.Get(name + ".lead")
	}
	return p
}

// Message returns a page that says something, with links to go on by.
func (w Words) Message(name string, links ...Link) *Page {
	p := w.page("message.html", name)
	p.Links = links
	return p
}

// Confirm returns a page with one button, which posts what is hidden.
func (w Words) Confirm(name string, action string, hidden ...Param) *Page {
	p := w.page("signout.html", name)
	p.Action, p.Hidden = template.URL(action), hidden //nolint:gosec // one of our own paths
	return p
}

// Post returns a page that posts an authorization response to a client by itself (OAuth 2.0
// Form Post Response Mode), or by a button without scripts.
func (w Words) Post(action, nonce string, hidden []Param) *Page {
	p := w.page("post.html", "post")
	p.Action, p.Nonce, p.Hidden = template.URL(action), nonce, hidden //nolint:gosec // a registered address, whose scheme ClientTargets admits
	return p
}

// Problem is what an error page tells: a stable code, such as an OAuth error, and
// words that name the problem.
type Problem struct {
	Status      int
	Code        string
	Description string

	// An address that is none of those registered, shown in development.
	Received   string
	Registered []string
}

// maxTold bounds what an error page repeats of a request, in bytes.
const maxTold = 500

// Error returns the page of an error.
func (w Words) Error(told Problem, requestID string) *Page {
	p := w.page("message.html", "error")
	p.status, p.Code, p.RequestID, p.Lead = told.Status, told.Code, requestID, w.Get("error.other")
	if w.Has("error." + told.Code) {
		p.Lead = w.Get("error." + told.Code)
	}
	p.Notice, p.Received, p.Registered = Shorten(told.Description, maxTold), Shorten(told.Received, maxTold), told.Registered
	return p
}

// WithStatus has the page answer with a status other than 200.
func (p *Page) WithStatus(status int) *Page { p.status = status; return p }

// Link returns a link to a page of the login.
func (w Words) Link(name, path string) Link { return Link{w.Get("link." + name), path} }

// Shorten cuts a text to so many bytes and makes it one that can be stored.
func Shorten(text string, length int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if len(text) > length {
		text = strings.ToValidUTF8(text[:length], "")
	}
	return text
}
