// Package browser is a small user agent for login pages: it keeps cookies,
// follows redirects, and fills in and sends forms, as people with a browser do.
// It knows nothing about the provider but what its pages say.
package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// Agent is a browser with nobody logged in yet. It is for one goroutine.
type Agent struct {
	Answers map[string]string // what to type, by the kind of the field: "text", "password"
	Trace   []string          // what was asked for, and the status of the answer

	client *http.Client
}

// maxSteps is more than any login takes.
const maxSteps = 25

// New returns an Agent that types a login name and a password.
func New(transport http.RoundTripper, loginName, password string) *Agent {
	jar, _ := cookiejar.New(nil) // never fails
	return &Agent{
		Answers: map[string]string{"text": loginName, "password": password},
		client: &http.Client{
			Transport: transport, Jar: trusting{jar},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// trusting is a jar that takes the loopback interface for as safe as TLS, as
// browsers do: they keep Secure cookies of http://localhost.
type trusting struct{ http.CookieJar }

func (t trusting) SetCookies(u *url.URL, cookies []*http.Cookie) {
	t.CookieJar.SetCookies(trusted(u), cookies)
}

func (t trusting) Cookies(u *url.URL) []*http.Cookie { return t.CookieJar.Cookies(trusted(u)) }

func trusted(u *url.URL) *url.URL {
	host := u.Hostname()
	if address := net.ParseIP(host); u.Scheme != "http" || (host != "localhost" && !address.IsLoopback()) {
		return u
	}
	safe := *u
	safe.Scheme = "https"
	return &safe
}

// Cookies returns the Cookie header that the browser would send to an address.
func (a *Agent) Cookies(address string) (string, error) {
	at, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	var pairs []string
	for _, cookie := range a.client.Jar.Cookies(at) {
		pairs = append(pairs, cookie.Name+"="+cookie.Value)
	}
	return strings.Join(pairs, "; "), nil
}

// Visit opens an address and goes on until it is sent to one that begins with
// stop, which it returns and does not open, or until a page asks nothing more:
// then it returns where that page is and its text.
func (a *Agent) Visit(ctx context.Context, address, stop string) (at *url.URL, page string, err error) {
	method, form := http.MethodGet, url.Values(nil)
	var origin string
	for range maxSteps {
		if stop != "" && strings.HasPrefix(address, stop) {
			at, err := url.Parse(address)
			if err == nil && form != nil {
				at.RawQuery = form.Encode() // response_mode=form_post
			}
			return at, "", err
		}
		res, err := a.ask(ctx, method, address, form, origin)
		if err != nil {
			return nil, "", fmt.Errorf("%w (%s)", err, strings.Join(a.Trace, ", "))
		}
		here := res.Request.URL
		if location := res.Header.Get("Location"); res.StatusCode >= 300 && res.StatusCode < 400 && location != "" {
			_ = res.Body.Close()
			next, err := here.Parse(location)
			if err != nil {
				return nil, "", err
			}
			address = next.String()
			if res.StatusCode != http.StatusTemporaryRedirect && res.StatusCode != http.StatusPermanentRedirect {
				method, form = http.MethodGet, nil
			}
			continue
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return nil, "", err
		}
		if res.StatusCode != http.StatusOK {
			return nil, "", fmt.Errorf("%s %s: %s: %.500s", method, here, res.Status, textOf(string(text)))
		}
		next, err := chooseForm(string(text), isHTML(res))
		if err != nil {
			return nil, "", err
		}
		if next == nil {
			return here, string(text), nil
		}
		if method, address, form, err = a.fill(next, here); err != nil {
			return nil, "", fmt.Errorf("%w (%s)", err, strings.Join(a.Trace, ", "))
		}
		origin = here.Scheme + "://" + here.Host
	}
	return nil, "", fmt.Errorf("no end after %d steps: %s", maxSteps, strings.Join(a.Trace, ", "))
}

// textOf returns what people read on a page.
func textOf(page string) string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return page
	}
	var words []string
	for node := range root.Descendants() {
		if node.Type == html.TextNode && node.Parent.Data != "style" && node.Parent.Data != "script" {
			words = append(words, strings.Fields(node.Data)...)
		}
	}
	return strings.Join(words, " ")
}

func isHTML(res *http.Response) bool {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return err == nil && kind == "text/html"
}

// ask sends what a browser sends when it goes to an address.
func (a *Agent) ask(ctx context.Context, method, address string, form url.Values, origin string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Site", "none")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", origin)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		text := form.Encode()
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
	res, err := a.client.Do(req)
	if err != nil {
		a.Trace = append(a.Trace, fmt.Sprintf("%s %s: %v", method, address, err))
		return nil, err
	}
	a.Trace = append(a.Trace, fmt.Sprintf("%s %s: %d", method, req.URL.Path, res.StatusCode))
	return res, nil
}

// errAsksAgain is a page that wants what was typed before.
var errAsksAgain = errors.New("the page asks for something again that was answered before")

// fill fills in a form and returns where it goes.
func (a *Agent) fill(f *form, here *url.URL) (method, address string, values url.Values, err error) {
	to, err := here.Parse(f.action)
	if err != nil {
		return "", "", nil, err
	}
	values = url.Values{}
	for _, field := range f.fields {
		value := field.value
		switch field.kind {
		case "text", "email", "password":
			kind := strings.Replace(field.kind, "email", "text", 1)
			if field.value == "" || field.kind == "password" {
				value = a.Answers[kind]
			}
		}
		values.Add(field.name, value)
	}
	if previous := to.String() + values.Encode(); len(a.Trace) > 0 && f.asks() {
		sent := "sent " + previous
		for _, line := range a.Trace {
			if line == sent {
				return "", "", nil, errAsksAgain
			}
		}
		a.Trace = append(a.Trace, sent)
	}
	if strings.EqualFold(f.method, http.MethodPost) {
		return http.MethodPost, to.String(), values, nil
	}
	to.RawQuery = values.Encode()
	return http.MethodGet, to.String(), nil, nil
}

type field struct{ name, kind, value string }

type form struct {
	method, action string
	fields         []field
}

// asks says whether somebody has to type something.
func (f *form) asks() bool { return f.has("password") || f.has("text") || f.has("email") }

func (f *form) has(kind string) bool {
	for _, field := range f.fields {
		if field.kind == kind {
			return true
		}
	}
	return false
}

// chooseForm returns the form of a page that leads on: the one that asks for a
// password, or else for a text, or else the first; nil when there is none.
func chooseForm(page string, isHTML bool) (*form, error) {
	if !isHTML {
		return nil, nil
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return nil, err
	}
	var forms []*form
	for node := range root.Descendants() {
		if node.Type == html.ElementNode && node.Data == "form" {
			forms = append(forms, readForm(root, node))
		}
	}
	for _, kind := range []string{"password", "text", "email"} {
		for _, f := range forms {
			if f.has(kind) {
				return f, nil
			}
		}
	}
	if len(forms) > 0 {
		return forms[0], nil
	}
	return nil, nil
}

// readForm reads what a form would send when its first button is pressed. What
// belongs to it may stand outside of it and name it.
func readForm(root, node *html.Node) *form {
	f := &form{method: attribute(node, "method"), action: attribute(node, "action")}
	inside := map[*html.Node]bool{}
	for child := range node.Descendants() {
		inside[child] = true
	}
	pressed := false
	for child := range root.Descendants() {
		if child.Type != html.ElementNode || has(child, "disabled") {
			continue
		}
		if has(child, "form") {
			if attribute(child, "form") != attribute(node, "id") {
				continue
			}
		} else if !inside[child] {
			continue
		}
		name, kind, value := attribute(child, "name"), strings.ToLower(attribute(child, "type")), attribute(child, "value")
		switch child.Data {
		case "input":
			switch kind {
			case "":
				kind = "text"
			case "checkbox", "radio":
				if !has(child, "checked") {
					continue
				}
			case "button", "reset", "image", "file":
				continue
			}
		case "button":
			if kind == "" {
				kind = "submit"
			}
		default:
			continue
		}
		if kind == "submit" {
			if pressed {
				continue
			}
			pressed = true
		}
		if name != "" {
			f.fields = append(f.fields, field{name, kind, value})
		}
	}
	return f
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
	for _, a := range node.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}
