package oidc

import (
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// request is an authorization request (OpenID Connect Core 1.0 §3.1.2.1).
type request struct {
	client   *Client
	params   map[string]string
	verifier string // of PKCE, sent with the code
	hands    hands
	reversed bool   // the parameters from z to a
	more     string // appended to the query as it is
	post     bool
}

// request returns the plan's request, for the module to change.
func (r *run) request() *request { return r.requestOf(r.client) }

func (r *run) requestOf(c *Client) *request {
	q := &request{client: c, hands: user, params: map[string]string{
		"client_id": c.ClientID, "redirect_uri": c.RedirectURI, "response_type": r.responseType, "scope": "openid",
		"nonce": randomText(10, alphanumerics), "state": randomText(10, alphanumerics),
	}}
	if r.formPost {
		q.params["response_mode"] = "form_post"
	}
	if c.auth == authNone {
		r.prove(q)
	}
	return q
}

// with sets a parameter.
func (q *request) with(name, value string) *request { q.params[name] = value; return q }

// without leaves a parameter out.
func (q *request) without(name string) *request { delete(q.params, name); return q }

// as sets what the user does.
func (q *request) as(h hands) *request { q.hands = h; return q }

// encode returns the parameters in alphabetical order, or reversed.
func (q *request) encode() string {
	names := slices.Sorted(maps.Keys(q.params))
	if q.reversed {
		slices.Reverse(names)
	}
	for i, name := range names {
		names[i] = url.QueryEscape(name) + "=" + url.QueryEscape(q.params[name])
	}
	return join(strings.Join(names, "&"), q.more)
}

// send takes the request to the authorization endpoint.
func (r *run) send(q *request) *arrival {
	endpoint := r.meta.text("authorization_endpoint")
	if q.post {
		form := url.Values{}
		for name, value := range q.params {
			form.Set(name, value)
		}
		return r.browser.post(endpoint, form, q.hands)
	}
	return r.browser.get(endpoint, q.encode(), q.hands)
}

// delivered returns the authorization response that arrived at the client, from
// where mode says it has to be: query, fragment or form_post.
func (r *run) delivered(q *request, a *arrival, mode string) url.Values {
	if !a.client {
		r.stop("the browser is on a page (%s: status %d, %s) and not back at the client", a.at.Path, a.page.status, brief(a.page.words()))
	}
	if got := a.at.Scheme + "://" + a.at.Host + a.at.Path; got != q.client.RedirectURI {
		r.stop("the browser was sent to %s, not to the redirect URI %s", got, q.client.RedirectURI)
	}
	query := a.at.Query()
	switch mode {
	case "form_post":
		if a.method != http.MethodPost {
			r.stop("the response came by %s: %s, want a POST of a form (response_mode=form_post)", a.method, a.at)
		}
		if a.contentType != urlEncoded {
			r.fail("the form is sent as %q, want %q", a.contentType, urlEncoded)
		}
		if !a.automatic {
			r.fail("the form_post page has no script: a browser would not send it by itself")
		}
		r.notIn(query, "query", "code", "error")
		return a.form
	case "fragment":
		r.notIn(query, "query", "code", "error")
		if a.method != http.MethodGet {
			r.fail("the response came by %s, want a redirect with a fragment", a.method)
		}
		response, err := url.ParseQuery(a.at.EscapedFragment())
		if err != nil {
			r.stop("the fragment is not form-encoded: %v", err)
		}
		return response
	}
	if a.method != http.MethodGet {
		r.stop("the response came by %s, want a redirect with a query", a.method)
	}
	return query
}

func (r *run) notIn(values url.Values, place string, names ...string) {
	for _, name := range names {
		if values.Has(name) {
			r.fail("%s is in the %s", name, place)
		}
	}
}

// mode is the response mode of the plan's requests.
func (r *run) mode() string {
	switch {
	case r.formPost:
		return "form_post"
	case r.codeFlow():
		return "query"
	}
	return "fragment"
}

// flow is a whole authorization, with what came out of it.
type flow struct {
	*request
	arrival      *arrival
	response     url.Values
	code         string
	accessToken  string
	tokenType    string
	refreshToken string
	tokens       map[string]any // the token response
	front, back  *jwt           // the ID tokens of the two endpoints
}

// idToken returns the ID token of a flow that has one.
func (f *flow) idToken() *jwt {
	if f.back != nil {
		return f.back
	}
	return f.front
}

// authorize sends q and checks a successful response.
func (r *run) authorize(q *request) *flow { return r.accept(q, r.send(q)) }

// accept checks a successful response to q.
func (r *run) accept(q *request, a *arrival) *flow {
	f := &flow{request: q, arrival: a}
	f.response = r.delivered(q, f.arrival, r.mode())
	r.checkIssuer(f.response)
	if f.response.Has("error") {
		r.stop("the authorization endpoint answered error=%s: %s", f.response.Get("error"), f.response.Get("error_description"))
	}
	r.checkState(q, f.response)
	if r.codeFlow() {
		if f.code = f.response.Get("code"); f.code == "" {
			r.stop("no code in the authorization response %v", f.response)
		}
		return f
	}
	if r.givesAccessToken() {
		f.accessToken, f.tokenType = f.response.Get("access_token"), f.response.Get("token_type")
		if f.accessToken == "" || f.tokenType == "" {
			r.stop("no access_token or no token_type in the authorization response %v", f.response)
		}
	}
	f.front = r.idToken(q, f.response.Get("id_token"))
	return f
}

func (r *run) checkState(q *request, response url.Values) {
	if got, want := response.Get("state"), q.params["state"]; got != want {
		r.fail("state came back as %q, want %q", got, want)
	}
	if len(response["state"]) > 1 {
		r.fail("state came back %d times", len(response["state"]))
	}
}

// checkIssuer checks iss, which is optional (RFC 9207 §2).
func (r *run) checkIssuer(response url.Values) {
	if iss := response.Get("iss"); response.Has("iss") && iss != r.meta.text("issuer") {
		r.fail("iss of the authorization response is %q, want the issuer %q", iss, r.meta.text("issuer"))
	}
}

// complete runs a flow to its end: the tokens and a call with the access token.
func (r *run) complete(q *request) *flow { return r.finish(r.authorize(q)) }

// finish is what follows the authorization response.
func (r *run) finish(f *flow) *flow {
	if r.codeFlow() {
		r.exchange(f)
	}
	if f.accessToken != "" {
		r.ping(f)
	}
	return f
}

// again completes a second flow in the same session. It has to be the same
// user, who did not log in again.
func (r *run) again(first *flow, q *request) *flow {
	second := r.complete(q)
	r.sameUser(first, second)
	a, inFirst := number(first.idToken().claims["auth_time"])
	b, inSecond := number(second.idToken().claims["auth_time"])
	if inFirst && inSecond && a != b {
		r.fail("auth_time was %v and is %v, but the user did not log in again", a, b)
	}
	return second
}

func (r *run) sameUser(first, second *flow) {
	if a, b := text(first.idToken().claims, "sub"), text(second.idToken().claims, "sub"); a != b {
		r.fail("the sub of the two ID tokens differs: %q and %q", a, b)
	}
}

// silently fails the module if the user had to do something.
func (r *run) silently(f *flow) {
	if f.arrival.logins+f.arrival.clicks > 0 {
		r.fail("the user was asked although prompt=none")
	}
}

// The characters of an error and its description (RFC 6749 §5.2).
func isErrorText(s string, alsoWhitespace bool) bool {
	for _, c := range []byte(s) {
		switch {
		case c == 0x20, c == 0x21, 0x23 <= c && c <= 0x5B, 0x5D <= c && c <= 0x7E:
		case alsoWhitespace && (c == '\t' || c == '\n' || c == '\r'):
		default:
			return false
		}
	}
	return true
}

// checkErrorMembers checks what the two endpoints say of an error.
func (r *run) checkErrorMembers(description, uri string, hasURI bool) {
	if !isErrorText(description, true) {
		r.fail("error_description has a character that RFC 6749 §5.2 does not allow (a double quote, a backslash, beyond ASCII): %q", description)
	} else if strings.ContainsAny(description, "\t\r\n") {
		r.warn("error_description has a tab or a line break: %q", description)
	}
	if !hasURI {
		return
	}
	u, err := url.Parse(uri)
	if err != nil || !u.IsAbs() || !isErrorText(uri, false) || strings.Contains(uri, " ") {
		r.fail("error_uri is no absolute URL: %q", uri)
	}
}

// refused checks an error response of the authorization endpoint and returns
// its code, which has to be one of want.
func (r *run) refused(q *request, a *arrival, mode string, want ...string) string {
	response := r.delivered(q, a, mode)
	r.checkState(q, response)
	return r.refusal(a, response, want...)
}

// refusal is refused without a look at the state.
func (r *run) refusal(a *arrival, response url.Values, want ...string) string {
	r.checkIssuer(response)
	code := response.Get("error")
	if code == "" {
		r.fail("no error in the authorization response %v", response)
	} else if !slices.Contains(want, code) {
		r.fail("error is %q (%s), want %s", code, response.Get("error_description"), strings.Join(want, " or "))
	}
	fragment, _ := url.ParseQuery(a.at.EscapedFragment())
	r.notIn(a.at.Query(), "query of an error", "code")
	r.notIn(fragment, "fragment of an error", "code")
	for name := range response {
		if !slices.Contains([]string{"error", "error_description", "error_uri", "state", "session_state", "iss"}, name) {
			r.warn("the error response has the extra parameter %s", name)
		}
	}
	r.checkErrorMembers(response.Get("error_description"), response.Get("error_uri"), response.Has("error_uri"))
	return code
}

// The refusals of prompt=none (OpenID Connect Core 1.0 §3.1.2.6).
var interaction = []string{"login_required", "interaction_required", "account_selection_required", "consent_required"}

// errorPage holds an error page to what lets it pass without a look of a person:
// nothing went to a client, it says so in its status, it is a page to read, it
// names the problem and gives away nothing. Words name the problem.
func (r *run) errorPage(a *arrival, words ...string) {
	if a.client {
		r.stop("the browser was sent to the client (%s), want an error page", a.at)
	}
	p := a.page
	if p.status < 400 || p.status > 499 {
		r.fail("the error page has status %d, want 4xx", p.status)
	}
	if kind, _, _ := mime.ParseMediaType(p.header.Get("Content-Type")); kind != "text/html" {
		r.fail("the error page has the type %q, want text/html", p.header.Get("Content-Type"))
		return
	}
	r.notIn(a.at.Query(), "URL of the error page", "code", "access_token", "id_token")
	said := strings.ToLower(p.words())
	if len(strings.Fields(said)) < 3 {
		r.fail("the error page says nothing a person understands: %q", said)
		return
	}
	if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) }) {
		r.review("does the error page name the problem (%s)? It says: %s", strings.Join(words, ", "), brief(said))
	}
}

// brief shortens a text for one line.
func brief(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
