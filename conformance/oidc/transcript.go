package oidc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// exchange is a request and its answer, as they were on the wire.
type exchange struct {
	request     *http.Request
	requestBody string
	status      int
	header      http.Header
	body        string
	err         error
}

// transcript keeps the exchanges of a module, so that who wrote the provider
// can tell from the output alone what happened.
type transcript struct {
	mu        sync.Mutex
	exchanges []*exchange
	base      http.RoundTripper
}

func (t *transcript) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.exchanges)
}

func (t *transcript) last() *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exchanges[len(t.exchanges)-1]
}

// bodyLimit is more than any page or document of a provider takes.
const bodyLimit = 2 << 20

// RoundTrip implements http.RoundTripper. The body of an answer is read whole.
func (t *transcript) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{request: req}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body.Close()
		x.requestBody = string(body)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := t.base.RoundTrip(req)
	if err == nil {
		var body []byte
		body, err = io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		x.status, x.header, x.body = resp.StatusCode, resp.Header, string(body)
	}
	x.err = err
	t.mu.Lock()
	t.exchanges = append(t.exchanges, x)
	t.mu.Unlock()
	return resp, err
}

// longPart is what makes a line unreadable: a token or a sealed state.
var longPart = regexp.MustCompile(`([A-Za-z0-9._~-]{24})[A-Za-z0-9._~-]{60,}`)

// String returns one line, shortened; detail has all of it.
func (x *exchange) String() string { return longPart.ReplaceAllString(x.line(), "$1…") }

func (x *exchange) line() string {
	line := fmt.Sprintf("%s %s", x.request.Method, x.request.URL)
	switch {
	case x.err != nil:
		return fmt.Sprintf("%s → %v", line, x.err)
	case x.header.Get("Location") != "":
		return fmt.Sprintf("%s → %d, Location: %s", line, x.status, x.header.Get("Location"))
	}
	return fmt.Sprintf("%s → %d %s", line, x.status, x.header.Get("Content-Type"))
}

// excerpt is how much of a body is printed.
const excerpt = 1500

// tokenMember is a token in a token response, also in one that was not expected.
var tokenMember = regexp.MustCompile(`("(?:access|refresh)_token": ?"[^"]{6})[^"]*`)

// detail returns the whole exchange.
func (x *exchange) detail() string {
	var b strings.Builder
	fmt.Fprintf(&b, "> %s %s\n", x.request.Method, x.request.URL)
	headers(&b, "> ", x.request.Header)
	if x.requestBody != "" {
		fmt.Fprintf(&b, "> %s\n", x.requestBody)
	}
	if x.err != nil {
		fmt.Fprintf(&b, "< %v\n", x.err)
		return b.String()
	}
	fmt.Fprintf(&b, "< %d %s\n", x.status, http.StatusText(x.status))
	headers(&b, "< ", x.header)
	body := tokenMember.ReplaceAllString(x.body, "$1…")
	if len(body) > excerpt {
		body = fmt.Sprintf("%s… (%d bytes)", body[:excerpt], len(body))
	}
	for line := range strings.Lines(body) {
		fmt.Fprintf(&b, "< %s\n", strings.TrimRight(line, "\r\n"))
	}
	return b.String()
}

// longValue is a cookie that may stand for a session.
var longValue = regexp.MustCompile(`(=[^;= ]{6})[^;= ]{12,}`)

func headers(b *strings.Builder, prefix string, h http.Header) {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range h[name] {
			if name == "Cookie" || name == "Set-Cookie" {
				value = longValue.ReplaceAllString(value, "$1…")
			}
			fmt.Fprintf(b, "%s%s: %s\n", prefix, name, value)
		}
	}
}

// masks takes the secrets out of what is printed.
type masks struct {
	mu   sync.Mutex
	from []string
	to   []string
}

// secret hides value in every form in which it travels.
func (m *masks) secret(name, value string) {
	if len(value) < 4 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.from, value) {
		return
	}
	forms := []string{value}
	for _, form := range []string{url.QueryEscape(value), url.PathEscape(value)} {
		if !slices.Contains(forms, form) {
			forms = append(forms, form)
		}
	}
	for _, form := range forms {
		m.from, m.to = append(m.from, form), append(m.to, "«"+name+"»")
	}
}

// basic hides the header of a client.
func (m *masks) basic(c *Client) {
	m.secret("client_secret", c.ClientSecret)
	pair := url.QueryEscape(c.ClientID) + ":" + url.QueryEscape(c.ClientSecret)
	m.secret(c.ClientID+":client_secret", base64.StdEncoding.EncodeToString([]byte(pair)))
}

// token hides all of a token but its beginning, by which it is recognized.
func (m *masks) token(value string) {
	if len(value) > 12 {
		m.secret(value[:6]+"…", value)
	}
}

// response hides what an authorization response brings to a client.
func (m *masks) response(a *arrival) {
	fragment, _ := url.ParseQuery(a.at.EscapedFragment()) // what is none has no token
	for _, values := range []url.Values{a.at.Query(), fragment, a.form} {
		m.token(values.Get("code"))
		m.token(values.Get("access_token"))
	}
}

// apply returns text without the secrets.
func (m *masks) apply(text string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, from := range m.from { // a plain loop: a later secret may hold an earlier one
		text = strings.ReplaceAll(text, from, m.to[i])
	}
	return text
}
