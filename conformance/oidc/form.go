package oidc

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// page is an answer that a browser shows.
type page struct {
	url    *url.URL
	status int
	header http.Header
	source string
	root   *html.Node
	forms  []*form
}

// form is a form of a page with its controls.
type form struct {
	page     *page
	node     *html.Node
	controls []*control
	buttons  []*control
}

// control is an input, a select, a textarea or a button.
type control struct {
	kind  string // the type of an input, else the element
	name  string
	value string
	label string // what the user reads on a button
	hint  string // autocomplete, name and id of an input
	on    bool   // whether it is sent
	node  *html.Node
}

func readPage(at *url.URL, x *exchange) *page {
	p := &page{url: at, status: x.status, header: x.header, source: x.body}
	root, err := html.Parse(strings.NewReader(x.body))
	if err != nil {
		return p
	}
	p.root = root
	byID := map[string]*form{}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode && node.Data == "form" {
			f := &form{page: p, node: node}
			p.forms = append(p.forms, f)
			byID[attribute(node, "id")] = f
		}
	}
	for node := range root.Descendants() {
		c := readControl(node)
		if c == nil {
			continue
		}
		owner := byID[attribute(node, "form")] // a control may stand outside of its form
		if attribute(node, "form") == "" {
			owner = p.enclosing(node)
		}
		switch {
		case owner == nil:
		case c.kind == "submit" || c.kind == "image":
			owner.buttons = append(owner.buttons, c)
		case c.kind != "button" && c.kind != "reset":
			owner.controls = append(owner.controls, c)
		}
	}
	return p
}

func (p *page) enclosing(node *html.Node) *form {
	for parent := range node.Ancestors() {
		for _, f := range p.forms {
			if f.node == parent {
				return f
			}
		}
	}
	return nil
}

func readControl(node *html.Node) *control {
	if node.Type != html.ElementNode || has(node, "disabled") {
		return nil
	}
	c := &control{name: attribute(node, "name"), value: attribute(node, "value"), on: true, node: node}
	c.hint = strings.ToLower(attribute(node, "autocomplete") + " " + c.name + " " + attribute(node, "id"))
	switch node.Data {
	case "input":
		c.kind = strings.ToLower(cmp.Or(attribute(node, "type"), "text"))
		if c.kind == "checkbox" || c.kind == "radio" {
			c.on, c.value = has(node, "checked"), cmp.Or(c.value, "on")
		}
		c.label = cmp.Or(c.value, c.name)
	case "button":
		c.kind = strings.ToLower(cmp.Or(attribute(node, "type"), "submit"))
		c.label = cmp.Or(textOf(node), attribute(node, "aria-label"), c.value)
	case "textarea":
		c.kind, c.value = "textarea", textOf(node)
	case "select":
		c.kind, c.value = "select", selected(node)
	default:
		return nil
	}
	return c
}

func selected(node *html.Node) string {
	first, found := "", false
	for option := range node.Descendants() {
		if option.Type != html.ElementNode || option.Data != "option" {
			continue
		}
		value := textOf(option)
		if has(option, "value") {
			value = attribute(option, "value")
		}
		if has(option, "selected") {
			return value
		}
		if !found {
			first, found = value, true
		}
	}
	return first
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(node *html.Node, name string) bool {
	return slices.ContainsFunc(node.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// textOf returns what a user reads, in one line.
func textOf(node *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data + " ")
		case n.Type == html.ElementNode && slices.Contains([]string{"script", "style", "head", "template", "noscript"}, n.Data):
			return
		}
		for child := range n.ChildNodes() {
			walk(child)
		}
	}
	walk(node)
	return strings.Join(strings.Fields(b.String()), " ")
}

// words returns what the page says, in one line.
func (p *page) words() string {
	if p.root == nil {
		return ""
	}
	return textOf(p.root)
}

// has says whether the user can fill in a control of that kind.
func (f *form) has(kind string) bool {
	return slices.ContainsFunc(f.controls, func(c *control) bool { return c.kind == kind })
}

func (f *form) method() string { return strings.ToUpper(attribute(f.node, "method")) }

// submit returns the request of the form with these values for its controls.
func (f *form) submit(values map[*control]string, button *control) navigation {
	data, action := url.Values{}, attribute(f.node, "action")
	for _, c := range f.controls {
		value, filled := values[c]
		if !filled {
			value = c.value
		}
		if c.name != "" && (c.on || filled) {
			data.Add(c.name, value)
		}
	}
	if button != nil {
		if button.name != "" {
			data.Add(button.name, button.value)
		}
		if has(button.node, "formaction") {
			action = attribute(button.node, "formaction")
		}
	}
	to := f.page.url
	if reference, err := url.Parse(strings.TrimSpace(action)); err == nil && action != "" {
		to = f.page.url.ResolveReference(reference)
	}
	next := navigation{method: http.MethodGet, url: to, from: f.page, policy: f.page.directive("form-action")}
	if f.method() == http.MethodPost {
		next.method, next.form = http.MethodPost, data
		return next
	}
	query := *to
	query.RawQuery = data.Encode()
	next.url = &query
	return next
}

// directive returns a directive of the page's content security policy.
func (p *page) directive(name string) string {
	for _, policy := range p.header.Values("Content-Security-Policy") {
		for part := range strings.SplitSeq(policy, ";") {
			if found, rest, _ := strings.Cut(strings.TrimSpace(part), " "); strings.EqualFold(found, name) {
				return cmp.Or(strings.TrimSpace(rest), "'none'")
			}
		}
	}
	return ""
}

// toClient returns the form that posts to a client, of a form_post answer.
func (p *page) toClient(isClient func(*url.URL) bool) *form {
	for _, f := range p.forms {
		if isClient(f.submit(nil, nil).url) {
			return f
		}
	}
	return nil
}

// contentType is how a browser would encode the form that leads to a URL.
func (p *page) contentType(to *url.URL) string {
	for _, f := range p.forms {
		if f.submit(nil, nil).url.String() == to.String() {
			return cmp.Or(strings.ToLower(attribute(f.node, "enctype")), urlEncoded)
		}
	}
	return urlEncoded
}

// automatic says whether the page can submit a form by itself.
func (p *page) automatic() bool {
	for node := range p.root.Descendants() {
		if node.Type == html.ElementNode && (node.Data == "script" || has(node, "onload")) {
			return true
		}
	}
	return false
}

// selfSubmitting returns the form of a page that has nothing for the user, only
// a script that submits it.
func (p *page) selfSubmitting() *form {
	if len(p.forms) != 1 || !p.automatic() || len(p.words()) > 0 || len(p.forms[0].buttons) > 0 {
		return nil
	}
	return p.forms[0]
}
