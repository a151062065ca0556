package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/writ-id/writ/gen/devapi"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// tickets are secrets of clients that only log-ins under way know, by which they authenticate
// applications whose own secrets development does not know. The zero value has none.
type tickets struct {
	mu      sync.Mutex
	clients map[string]string // their IDs, by ticket
}

// issue returns a ticket for a client, and what ends it.
func (t *tickets) issue(clientID string) (ticket string, end func()) {
	ticket = secret.Random()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clients == nil {
		t.clients = map[string]string{}
	}
	t.clients[ticket] = clientID
	return ticket, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.clients, ticket)
	}
}

func (t *tickets) isFor(ticket, clientID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of, known := t.clients[ticket]
	return known && of == clientID
}

// ticketed authenticates applications by tickets too, whatever they are configured for. It is
// the authenticator of development.
type ticketed struct {
	*client.Directory
	tickets *tickets
}

// Authenticate implements token.Authenticator.
func (t ticketed) Authenticate(ctx context.Context, at endpoint.Site, shown client.Credentials, methods []appv3.AuthMethodType) (*client.Client, error) {
	if id, ticket, ok := shown.Posted(); ok && t.tickets.isFor(ticket, id) {
		if found, err := t.Find(ctx, at.ID, id); found != nil || err != nil {
			return found, err
		}
	}
	return t.Directory.Authenticate(ctx, at, shown, methods)
}

// LoginForDevelopment signs a user in: a session as the pages make it, and then the requests
// that a browser and a client would make, by the handler that serves everybody's.
func (c *console) LoginForDevelopment(w http.ResponseWriter, r *http.Request) {
	answer, err := c.login(r)
	c.answer(w, r, http.StatusOK, answer, err)
}

func (c *console) login(r *http.Request) (any, error) {
	asked, err := devRequest[devapi.LoginRequest](r, "LoginRequest")
	if err != nil {
		return nil, err
	}
	if (asked.Client == nil) == (asked.Authorize == nil) {
		return nil, fault.Invalid("INVALID_FIELD", "client", "give the client that tokens are for, or the URL of a request in authorize")
	}
	instance, err := c.pages.Instance(r)
	if err != nil {
		return nil, err
	}
	browser := &browser{handler: c.whole, request: r}
	if browser.cookies, err = c.pages.SignInAs(r, instance, asked.User); err != nil {
		return nil, err
	}
	if asked.Authorize != nil {
		return c.complete(browser, asked)
	}
	flow, err := c.begin(r.Context(), instance, asked)
	if err != nil {
		return nil, err
	}
	code, err := browser.authorize(flow)
	if err != nil {
		return nil, err
	}
	ticket, end := c.Dev.tickets.issue(flow.clientID)
	defer end()
	return browser.redeem(flow, code, ticket)
}

// complete goes on with a request that a browser made, and returns where that is sent, or the
// page that it is shown.
func (c *console) complete(b *browser, asked *devapi.LoginRequest) (any, error) {
	at, err := url.Parse(*asked.Authorize)
	if err != nil || at.Path != endpoint.PathAuthorize {
		return nil, fault.Invalid("INVALID_FIELD", "authorize", "it has to be a URL of %s://%s%s", c.scheme(), b.request.Host, endpoint.PathAuthorize)
	}
	answer := b.get(at.RequestURI())
	if location := answer.Header().Get("Location"); location != "" && !strings.HasPrefix(location, "/login") {
		return devapi.LoginAnswer{Location: &location}, nil
	}
	if text := answer.Body.String(); answer.Code == http.StatusOK && strings.Contains(text, "<form") {
		return devapi.LoginAnswer{Html: &text}, nil
	}
	return nil, fault.New(fault.FailedPrecondition, "LOGIN_INCOMPLETE", "the session of %q is not enough for the request (%d): it asks for another log-in (prompt, max_age), or is refused on a page", asked.User, answer.Code)
}

// devFlow is a log-in of a client, with PKCE.
type devFlow struct {
	clientID, redirect, verifier string

	parameters url.Values // of the request for authorization
}

// begin makes the request of the client that is asked for.
func (c *console) begin(ctx context.Context, instance *policy.Instance, asked *devapi.LoginRequest) (*devFlow, error) {
	f := &devFlow{clientID: cmp.Or(c.Dev.Clients[*asked.Client], *asked.Client), verifier: secret.Random()}
	app, err := c.clients.Find(ctx, instance.ID, f.clientID)
	if err != nil {
		return nil, err
	}
	if app == nil {
		return nil, fault.Invalid("CLIENT_UNKNOWN", "client", "%q is the client ID of no active application, and the name of none in the ready file", *asked.Client)
	}
	if asked.RedirectUri != nil {
		f.redirect = *asked.RedirectUri
	} else if len(app.RedirectUris) > 0 {
		f.redirect = app.RedirectUris[0]
	}
	challenge := sha256.Sum256([]byte(f.verifier))
	scope := "openid"
	if asked.Scopes != nil && len(*asked.Scopes) > 0 {
		scope = strings.Join(*asked.Scopes, " ")
	}
	f.parameters = url.Values{
		"client_id": {f.clientID}, "response_type": {"code"}, "redirect_uri": {f.redirect}, "scope": {scope}, "prompt": {"none"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	if asked.Parameters != nil {
		for name, value := range *asked.Parameters {
			if f.parameters.Has(name) {
				return nil, fault.Invalid("INVALID_FIELD", "parameters."+name, "it is given by the log-in")
			}
			f.parameters.Set(name, value)
		}
	}
	return f, nil
}

// browser makes requests in the process, under the host that development was asked under.
type browser struct {
	handler http.Handler
	request *http.Request
	cookies []*http.Cookie
}

// authorize makes the request of a flow, and returns the code that comes back.
func (b *browser) authorize(f *devFlow) (code string, err error) {
	went := b.get(endpoint.PathAuthorize + "?" + f.parameters.Encode())
	back, err := url.Parse(went.Header().Get("Location"))
	if err != nil || back.Host == "" {
		return "", fault.New(fault.FailedPrecondition, "AUTHORIZATION_REFUSED", "the authorization endpoint shows a page instead of going back to the client (%d): is %q a redirect URI of it?", went.Code, f.redirect)
	}
	if refused := back.Query().Get("error"); refused != "" {
		return "", fault.New(fault.FailedPrecondition, "AUTHORIZATION_REFUSED", "%s: %s", refused, back.Query().Get("error_description"))
	}
	return back.Query().Get("code"), nil
}

// redeem makes the request of the client for tokens, which a ticket authenticates.
func (b *browser) redeem(f *devFlow, code, ticket string) (any, error) {
	answer := b.post(endpoint.PathToken, url.Values{
		"grant_type": {"authorization_code"}, "client_id": {f.clientID}, "client_secret": {ticket},
		"redirect_uri": {f.redirect}, "code": {code}, "code_verifier": {f.verifier},
	})
	if answer.Code != http.StatusOK {
		var refused struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		_ = json.Unmarshal(answer.Body.Bytes(), &refused)
		return nil, fault.New(fault.FailedPrecondition, "TOKEN_REFUSED", "the token endpoint answers %d %s: %s", answer.Code, refused.Error, refused.Description)
	}
	return json.RawMessage(bytes.TrimSpace(answer.Body.Bytes())), nil
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	return b.send(http.MethodGet, path, "")
}

func (b *browser) post(path string, form url.Values) *httptest.ResponseRecorder {
	return b.send(http.MethodPost, path, form.Encode())
}

func (b *browser) send(method, path, body string) *httptest.ResponseRecorder {
	// Of the request under way nothing goes along but its host: no token, no request ID.
	r, err := http.NewRequestWithContext(b.request.Context(), method, "http://"+b.request.Host+path, strings.NewReader(body))
	answer := httptest.NewRecorder()
	if err != nil {
		answer.Code = http.StatusBadRequest
		return answer
	}
	r.RequestURI, r.RemoteAddr, r.TLS = path, b.request.RemoteAddr, b.request.TLS
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, one := range b.cookies {
		r.AddCookie(one)
	}
	b.handler.ServeHTTP(answer, r)
	return answer
}
