package oidc

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// loginForm returns the form that asks who the user is, and what the user
// enters: both on one page, or the login name first and then the password.
func (p *page) loginForm(u User) (*form, map[*control]string) {
	for _, f := range p.forms { // a password form wins over a search field
		if !f.has("password") || slices.ContainsFunc(f.controls, func(c *control) bool { return strings.Contains(c.hint, "new-password") }) {
			continue
		}
		values := map[*control]string{}
		for _, c := range f.controls {
			switch {
			case c.kind == "password":
				values[c] = u.Password
			case c.asksLoginName() || c.kind == "text" && c.value == "":
				values[c] = u.LoginName
			}
		}
		return f, values
	}
	for _, f := range p.forms {
		for _, c := range f.controls {
			if c.asksLoginName() {
				return f, map[*control]string{c: u.LoginName}
			}
		}
	}
	return nil, nil
}

func (c *control) asksLoginName() bool {
	if c.kind != "text" && c.kind != "email" {
		return false
	}
	return slices.ContainsFunc([]string{"username", "login", "email", "user", "identifier", "account"}, func(word string) bool {
		return strings.Contains(c.hint, word)
	})
}

// Words on buttons. The browser asks for English.
var (
	yes = []string{
		"allow", "accept", "continue", "yes", "confirm", "sign out", "sign in", "log out", "log in", "logout", "login",
		"authorize", "approve", "consent", "agree", "submit", "proceed", "skip", "later", "next", "ok",
	}
	no = []string{
		"cancel", "deny", "no", "reject", "decline", "back", "switch", "change", "another", "other", "register",
		"forgot", "reset", "language", "abort", "stay", "sign up",
	}
)

// rate says how much a button is the one to click.
func (c *control) rate(u User) int {
	text := " " + strings.ToLower(c.label+" "+c.value) + " "
	text = strings.Map(func(r rune) rune {
		if r == ',' || r == '.' || r == '!' || r == '?' || r == '_' || r == '-' {
			return ' '
		}
		return r
	}, text)
	rate := 0
	for _, word := range yes {
		if strings.Contains(text, " "+word+" ") {
			rate = 1
		}
	}
	if strings.Contains(text, strings.ToLower(u.LoginName)) { // an account chooser
		rate = 2
	}
	for _, word := range no {
		if strings.Contains(text, " "+word+" ") {
			rate -= 2
		}
	}
	return rate
}

// button returns the button to click, nil when the form has none.
func (f *form) button(u User) *control {
	var best *control
	for _, b := range f.buttons {
		if best == nil || b.rate(u) > best.rate(u) {
			best = b
		}
	}
	return best
}

// confirmation returns the form of a page with nothing to fill in: a consent, a
// "continue", an account to choose, a logout to confirm.
func (p *page) confirmation(u User) *form {
	var best *form
	rate := -1
	for _, f := range p.forms {
		if b := f.button(u); b != nil && b.rate(u) > rate {
			best, rate = f, b.rate(u)
		}
	}
	return best
}

// wayOut returns the link or the button that ends a login without one.
func (p *page) wayOut() (navigation, bool) {
	leaves := func(label string) bool {
		return containsAny(strings.ToLower(label), "cancel", "abort", "deny", "decline", "reject")
	}
	for _, f := range p.forms {
		for _, b := range f.buttons {
			if leaves(b.label) {
				return f.submit(nil, b), true
			}
		}
	}
	for node := range p.root.Descendants() {
		if node.Type != html.ElementNode || node.Data != "a" || !leaves(textOf(node)) {
			continue
		}
		if to, err := p.url.Parse(attribute(node, "href")); err == nil {
			return navigation{method: http.MethodGet, url: to, from: p}, true
		}
	}
	return navigation{}, false
}
