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

	"github.com/writ-id/writ/gen/devapi"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/oidc/client"
)

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
	browser := &browser{handler: c.handler(), request: r}
	if browser.cookies, err = c.pages.SignInAs(r, instance, asked.User); err != nil {
		return nil, err
	}
	if asked.Authorize != nil {
		at, err := url.Parse(*asked.Authorize)
		if err != nil || at.Path != "/oauth/v2/authorize" {
			return nil, fault.Invalid("INVALID_FIELD", "authorize", "it has to be a URL of %s://%s/oauth/v2/authorize", c.scheme(), r.Host)
		}
		answer := browser.get(r.Context(), at.RequestURI())
		if location := answer.Header().Get("Location"); location != "" && !strings.HasPrefix(location, "/login") {
			return devapi.LoginAnswer{Location: &location}, nil
		}
		if text := answer.Body.String(); answer.Code == http.StatusOK && strings.Contains(text, "<form") {
			return devapi.LoginAnswer{Html: &text}, nil
		}
		return nil, fault.New(fault.FailedPrecondition, "LOGIN_INCOMPLETE", "the session of %q is not enough for the request (%d): it asks for another log-in (prompt, max_age), or is refused on a page", asked.User, answer.Code)
	}

	clientID := cmp.Or(c.Dev.Clients[*asked.Client], *asked.Client)
	app, err := c.public.Client(r.Context(), instance.ID, clientID)
	if err != nil {
		return nil, err
	}
	if app == nil {
		return nil, fault.Invalid("CLIENT_UNKNOWN", "client", "%q is the client ID of no active application, and the name of none in the ready file", *asked.Client)
	}
	redirect := ""
	if asked.RedirectUri != nil {
		redirect = *asked.RedirectUri
	} else if len(app.RedirectUris) > 0 {
		redirect = app.RedirectUris[0]
	}
	verifier := secret.Random()
	challenge := sha256.Sum256([]byte(verifier))
	scope := "openid"
	if asked.Scopes != nil && len(*asked.Scopes) > 0 {
		scope = strings.Join(*asked.Scopes, " ")
	}
	params := url.Values{
		"client_id": {clientID}, "response_type": {"code"}, "redirect_uri": {redirect}, "scope": {scope}, "prompt": {"none"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	if asked.Parameters != nil {
		for name, value := range *asked.Parameters {
			if params.Has(name) {
				return nil, fault.Invalid("INVALID_FIELD", "parameters."+name, "it is given by the log-in")
			}
			params.Set(name, value)
		}
	}
	went := browser.get(r.Context(), "/oauth/v2/authorize?"+params.Encode())
	back, err := url.Parse(went.Header().Get("Location"))
	if err != nil || back.Host == "" {
		return nil, fault.New(fault.FailedPrecondition, "AUTHORIZATION_REFUSED", "the authorization endpoint shows a page instead of going back to the client (%d): is %q a redirect URI of it?", went.Code, redirect)
	}
	if refused := back.Query().Get("error"); refused != "" {
		return nil, fault.New(fault.FailedPrecondition, "AUTHORIZATION_REFUSED", "%s: %s", refused, back.Query().Get("error_description"))
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {clientID}, "redirect_uri": {redirect}, "code": {back.Query().Get("code")}, "code_verifier": {verifier},
	}
	answer := browser.post(client.Vouched(r.Context(), clientID), "/oauth/v2/token", form)
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

// browser makes requests in the process, under the host that development was asked under.
type browser struct {
	handler http.Handler
	request *http.Request
	cookies []*http.Cookie
}

func (b *browser) get(ctx context.Context, path string) *httptest.ResponseRecorder {
	return b.send(ctx, http.MethodGet, path, "")
}

func (b *browser) post(ctx context.Context, path string, form url.Values) *httptest.ResponseRecorder {
	return b.send(ctx, http.MethodPost, path, form.Encode())
}

func (b *browser) send(ctx context.Context, method, path, body string) *httptest.ResponseRecorder {
	// Of the request under way nothing goes along but its host: no token, no request ID.
	r, err := http.NewRequestWithContext(ctx, method, "http://"+b.request.Host+path, strings.NewReader(body))
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
