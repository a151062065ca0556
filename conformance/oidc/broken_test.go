package oidc

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// breakage is one thing that a provider does wrong. A proxy in front of the
// provider under test does it.
type breakage struct {
	name    string
	module  string
	variant variant
	want    Verdict
	says    string // a finding says so

	request  func(*http.Request)       // what the provider gets to see
	response func(*http.Response) bool // what it seems to answer; whether that was changed
	wrap     func(provider http.Handler) http.Handler
}

var code = variant{responseType: "code"}

var breakages = []breakage{
	{
		name: "the nonce is dropped", module: "oidcc-server", variant: code, want: Fail, says: "nonce is",
		request: dropQuery("nonce"),
	},
	{
		name: "the state is changed", module: "oidcc-server", variant: code, want: Fail, says: "state came back",
		response: replaceHeader("Location", regexp.MustCompile(`([?&]state=)`), "${1}x"),
	},
	{
		name: "the state is dropped from the fragment", module: "oidcc-server", variant: variant{responseType: "id_token"}, want: Fail, says: "state came back",
		response: replaceHeader("Location", regexp.MustCompile(`[#&]state=[A-Za-z0-9]+`), "#"),
	},
	{
		name: "the signature is another", module: "oidcc-server", variant: code, want: Fail, says: "the signature does not verify",
		response: replaceBody(regexp.MustCompile(`("id_token": ?"[^.]+\.[^.]+\.)[^"]{4}`), "${1}AAAA"),
	},
	{
		name: "keys have no kid", module: "oidcc-server", variant: code, want: Fail, says: "no kid",
		response: replaceBody(regexp.MustCompile(`"kid":`), `"kidd":`),
	},
	{
		name: "form_post is ignored", module: "oidcc-server", variant: variant{"code", true}, want: Fail, says: "want a POST",
		request: dropQuery("response_mode"),
	},
	{
		name: "a code is good for two times", module: "oidcc-codereuse", variant: code, want: Warn, says: "a second time",
		wrap: replay,
	},
	{
		name: "prompt=login is ignored", module: "oidcc-prompt-login", variant: code, want: Fail, says: "not asked for the password again",
		request: dropQuery("prompt"),
	},
	{
		name: "max_age is ignored", module: "oidcc-max-age-1", variant: code, want: Fail, says: "not asked for the password again",
		request: dropQuery("max_age"),
	},
	{
		name: "the redirect URI is compared by its beginning", module: "oidcc-ensure-registered-redirect-uri", variant: code, want: Fail, says: "want an error page",
		request: func(r *http.Request) {
			q := r.URL.Query()
			if u := q.Get("redirect_uri"); strings.Count(u, "/") > 3 && q.Has("response_type") {
				q.Set("redirect_uri", u[:strings.LastIndex(u, "/")])
				r.URL.RawQuery = q.Encode()
			}
		},
	},
	{
		name: "a request object is overlooked", module: "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported", variant: code, want: Fail, says: "state came back",
		request: dropQuery("request"),
	},
	{
		name: "a boolean claim is a string", module: "oidcc-scope-email", variant: code, want: Fail, says: "email_verified",
		response: replaceBody(regexp.MustCompile(`"email_verified": ?(true|false)`), `"email_verified":"$1"`),
	},
	{
		name: "the refresh response may be cached", module: "oidcc-refresh-token", variant: code, want: Fail, says: "no-store",
		response: replaceHeader("Cache-Control", regexp.MustCompile(`no-store`), "private"),
	},
	{
		name: "a description has quotation marks", module: "oidcc-prompt-none-not-logged-in", variant: code, want: Fail, says: "error_description",
		response: replaceHeader("Location", regexp.MustCompile(`error_description=`), "error_description=%22"),
	},
	{
		name: "PKCE is not checked", module: "writ-pkce-wrong-verifier", variant: code, want: Fail, says: "answered 200",
		request: func(r *http.Request) {
			dropQuery("code_challenge")(r)
			dropQuery("code_challenge_method")(r)
			dropForm(r, "code_verifier")
		},
	},
	{
		name: "iss is left out", module: "writ-issuer-in-response", variant: code, want: Fail, says: "iss of the authorization",
		response: replaceHeader("Location", regexp.MustCompile(`([?&])iss=[^&]*&?`), "$1"),
	},
	{
		name: "a token is taken from the query", module: "writ-userinfo-bearer", variant: code, want: Fail, says: "in the query",
		request: func(r *http.Request) {
			if q := r.URL.Query(); q.Has("access_token") {
				r.Header.Set("Authorization", "Bearer "+q.Get("access_token"))
				r.URL.RawQuery = ""
			}
		},
	},
	{
		name: "the last of two parameters counts", module: "writ-duplicate-parameter", variant: code, want: Fail, says: "twice was not refused",
		request: func(r *http.Request) {
			q := r.URL.Query()
			for name, values := range q {
				q[name] = values[len(values)-1:]
			}
			r.URL.RawQuery = q.Encode()
		},
	},
	{
		name: "the password is sent on", module: "writ-credentials-not-repeated", variant: code, want: Fail, says: "want 303",
		response: func(r *http.Response) bool {
			if r.Request.Method != http.MethodPost || r.StatusCode/100 != 3 {
				return false
			}
			r.StatusCode = http.StatusTemporaryRedirect
			return true
		},
	},
	{
		name: "cookies travel without TLS", module: "writ-session-cookies", variant: code, want: Fail, says: "not Secure",
		response: func(r *http.Response) bool {
			for i, c := range r.Header["Set-Cookie"] {
				r.Header["Set-Cookie"][i] = regexp.MustCompile(`(?i); *secure`).ReplaceAllString(c, "")
			}
			return true
		},
	},
	{
		name: "an error page shows the request", module: "writ-error-page-escapes", variant: code, want: Fail, says: "as markup",
		response: func(r *http.Response) bool {
			if r.StatusCode < 400 {
				return false
			}
			query, _ := url.QueryUnescape(r.Request.URL.RawQuery)
			return editBody(r, regexp.MustCompile(`\z`), strings.ReplaceAll(query, "$", ""))
		},
	},
	{
		name: "the policy stops the form_post page", module: "writ-form-post-page", variant: variant{"code", true}, want: Fail, says: "does not let its script run",
		response: func(r *http.Response) bool {
			r.Header.Set("Content-Security-Policy", "script-src 'none'")
			return true
		},
	},
	{
		name: "the policy stops the way back", module: "writ-policies-let-the-flow-pass", variant: code, want: Fail, says: "a browser would stop here",
		response: func(r *http.Response) bool {
			r.Header.Set("Content-Security-Policy", "form-action 'self'")
			return true
		},
	},
	{
		name: "a logout leaves the session", module: "oidcc-rp-initiated-logout", variant: code, want: Fail, says: "no error in the authorization response",
		wrap: logoutWithoutCare,
	},
	{
		name: "a logout redirects without a hint", module: "oidcc-rp-initiated-logout-no-id-token-hint", variant: code, want: Fail, says: "want a page of the provider",
		wrap: logoutWithoutCare,
	},
}

// TestABrokenProviderFails shows that the suite sees what it is for: each
// breakage fails its module, which passes through the same proxy without it.
func TestABrokenProviderFails(t *testing.T) {
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			result := b.runThroughProxy(t, b)
			if result.Verdict != b.want {
				t.Errorf("got %s, want %s: %v", result.Verdict, b.want, result.Findings)
			}
			said := false
			for _, finding := range result.Findings {
				said = said || finding.Verdict == b.want && strings.Contains(finding.Text, b.says)
			}
			if !said {
				t.Errorf("no finding says %q: %v", b.says, result.Findings)
			}
			if intact := b.runThroughProxy(t, breakage{}); intact.Verdict != Pass && intact.Verdict != Skip {
				t.Errorf("without the breakage: %s, %v", intact.Verdict, intact.Findings)
			}
		})
	}
}

// TestRequestObjectsMayBeSupported: the modules about request objects pass with a
// provider that reads them, too; a proxy does that for the one under test.
func TestRequestObjectsMayBeSupported(t *testing.T) {
	for _, module := range []string{
		"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported", "oidcc-ensure-request-object-with-redirect-uri",
	} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			b := breakage{module: module, variant: code, request: readRequestObject, response: func(r *http.Response) bool {
				editBody(r, regexp.MustCompile(`"request_(parameter_supported|object_signing_alg_values_supported)":`), `"x_$1":`)
				return editBody(r, regexp.MustCompile(`(?s)^\s*\{(.*"jwks_uri":)`), `{"request_parameter_supported":true,$1`)
			}}
			if result := b.runThroughProxy(t, b); result.Verdict != Pass {
				t.Errorf("got %s: %v", result.Verdict, result.Findings)
			}
		})
	}
}

// readRequestObject puts what a request object has in the place of the parameters.
func readRequestObject(r *http.Request) {
	q := r.URL.Query()
	parts := strings.Split(q.Get("request"), ".")
	if len(parts) != 3 {
		return
	}
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var params map[string]string
	if json.Unmarshal(text, &params) != nil {
		return
	}
	q.Del("request")
	for name, value := range params {
		q.Set(name, value)
	}
	r.URL.RawQuery = q.Encode()
}

// runThroughProxy runs the module of b on a provider that is broken as how says.
func (b breakage) runThroughProxy(t *testing.T, how breakage) Result {
	t.Helper()
	c := provider(t)
	target, err := url.Parse(c.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // as the suite
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
			r.Out.Host = r.In.Host
			r.Out.Header.Del("Accept-Encoding") // bodies are read here
			if how.request != nil {
				how.request(r.Out)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if how.response != nil {
				how.response(r)
			}
			return nil
		},
	}
	var handler http.Handler = proxy
	if how.wrap != nil {
		handler = how.wrap(proxy)
	}
	server := httptest.NewUnstartedServer(handler)
	if target.Scheme == "https" {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	c.Connect = server.Listener.Addr().String()
	suite, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	suite.Only = func(_, module, variant string) bool { return module == b.module && variant == b.variant.String() }
	results := suite.Run(t.Context())
	if len(results) != 1 {
		t.Fatalf("%d modules %s in the variant %s, want one", len(results), b.module, b.variant)
	}
	return results[0]
}

// dropQuery takes a parameter out of authorization requests.
func dropQuery(name string) func(*http.Request) {
	return func(r *http.Request) {
		if q := r.URL.Query(); q.Has("client_id") && q.Has(name) { // else it is not an authorization request
			q.Del(name)
			r.URL.RawQuery = q.Encode()
		}
	}
}

// dropForm takes a parameter out of a form.
func dropForm(r *http.Request, name string) {
	if r.Method != http.MethodPost {
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body.Close()
	if form, err := url.ParseQuery(string(body)); err == nil && form.Has(name) {
		form.Del(name)
		body = []byte(form.Encode())
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

func replaceHeader(name string, what *regexp.Regexp, by string) func(*http.Response) bool {
	return func(r *http.Response) bool {
		old := r.Header.Get(name)
		if old == "" {
			return false
		}
		r.Header.Set(name, what.ReplaceAllString(old, by))
		return r.Header.Get(name) != old
	}
}

func replaceBody(what *regexp.Regexp, by string) func(*http.Response) bool {
	return func(r *http.Response) bool { return editBody(r, what, by) }
}

func editBody(r *http.Response, what *regexp.Regexp, by string) bool {
	old, _ := io.ReadAll(r.Body)
	r.Body.Close()
	body := what.ReplaceAll(old, []byte(by))
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return !bytes.Equal(old, body)
}

// replay answers a second redemption of a code like the first.
func replay(provider http.Handler) http.Handler {
	var mu sync.Mutex
	answers := map[string]*httptest.ResponseRecorder{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, _ := url.ParseQuery(string(body))
		code := form.Get("code")
		if code == "" {
			provider.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if answers[code] == nil {
			answers[code] = httptest.NewRecorder()
			provider.ServeHTTP(answers[code], r)
		}
		for name, values := range answers[code].Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answers[code].Code)
		_, _ = w.Write(answers[code].Body.Bytes())
	})
}

// logoutWithoutCare sends everybody back at once and ends no session.
func logoutWithoutCare(provider http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if to := q.Get("post_logout_redirect_uri"); to != "" {
			http.Redirect(w, r, to+"?"+url.Values{"state": q["state"]}.Encode(), http.StatusFound)
			return
		}
		provider.ServeHTTP(w, r)
	})
}
