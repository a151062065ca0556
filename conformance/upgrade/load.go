package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/writ-id/writ/conformance/harness"
	"github.com/writ-id/writ/conformance/interop/browser"
)

// load is what users do all the time, through the balancer. Whatever fails is noted.
type load struct {
	*balancer
	server *harness.Server
	client *http.Client
	stop   context.CancelFunc
	group  sync.WaitGroup
	rounds [4]atomic.Int64 // of each worker

	names atomic.Int64
	made  sync.Map // IDs of projects that were answered, for the deliveries
}

// begin starts the workers.
func (l *load) begin(ctx context.Context) {
	ctx, l.stop = context.WithCancel(ctx)
	for i, round := range []func(context.Context) error{l.signIn, l.service, l.write, l.keep()} {
		l.group.Go(func() {
			for ctx.Err() == nil {
				// A round that has begun ends: what is broken off is no failure of the server.
				if err := round(context.WithoutCancel(ctx)); err != nil {
					l.fail(err.Error())
				}
				l.rounds[i].Add(1)
			}
		})
	}
}

func (l *load) end() {
	l.stop()
	l.group.Wait()
}

// signIn is a whole login by the pages, and what a client does with its tokens.
func (l *load) signIn(ctx context.Context) error {
	t, err := l.login(ctx)
	if err != nil {
		return err
	}
	if err := l.active(ctx, l.URL, t.access); err != nil {
		return err
	}
	_, err = l.call(ctx, http.MethodGet, l.URL+"/oidc/v1/userinfo", "Bearer "+t.access, nil, "")
	return err
}

type tokens struct{ access, refresh string }

const verifier = "a-code-verifier-of-the-upgrade-that-is-long-enough-for-it"

func (l *load) login(ctx context.Context) (t tokens, err error) {
	web := l.server.Clients["web"]
	challenge := sha256.Sum256([]byte(verifier))
	agent := browser.New(l.client.Transport, l.server.User.LoginName, l.server.User.Password)
	back, page, err := agent.Visit(ctx, l.URL+"/oauth/v2/authorize?"+url.Values{
		"client_id": {web.ClientID}, "redirect_uri": {web.RedirectURI}, "response_type": {"code"}, "scope": {"openid offline_access"},
		"state": {"some-state"}, "nonce": {"some-nonce"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode(), web.RedirectURI)
	if err != nil {
		return t, fmt.Errorf("a login: %w: %v", err, agent.Trace)
	}
	if back.Query().Get("code") == "" {
		return t, fmt.Errorf("a login ended at %s: %v: %.300s", back, agent.Trace, page)
	}
	return l.token(ctx, l.URL, web.ClientID, web.ClientSecret, url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {web.RedirectURI}, "code_verifier": {verifier},
	})
}

// keep refreshes the tokens of one login again and again, over all releases.
func (l *load) keep() func(context.Context) error {
	var t tokens
	return func(ctx context.Context) (err error) {
		if t.refresh == "" {
			t, err = l.login(ctx)
			return err
		}
		if t, err = l.refresh(ctx, l.URL, t); err != nil {
			return fmt.Errorf("refresh: %w", err)
		}
		return l.active(ctx, l.URL, t.access)
	}
}

func (l *load) refresh(ctx context.Context, at string, t tokens) (tokens, error) {
	web := l.server.Clients["web"]
	return l.token(ctx, at, web.ClientID, web.ClientSecret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.refresh}})
}

// service gets a token for a service and uses it.
func (l *load) service(ctx context.Context) error {
	t, err := l.token(ctx, l.URL, l.server.ServiceUser.ClientID, l.server.ServiceUser.ClientSecret, url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}})
	if err != nil {
		return err
	}
	_, err = l.call(ctx, http.MethodGet, l.URL+"/oidc/v1/userinfo", "Bearer "+t.access, nil, "")
	return err
}

// write makes a project, changes it and finds it.
func (l *load) write(ctx context.Context) error {
	const projects = "/resources/v3alpha/projects"
	admin := "Bearer " + l.server.AdminToken
	name := fmt.Sprintf("upgraded %d", l.names.Add(1))
	text, err := l.call(ctx, http.MethodPost, l.URL+projects, admin, strings.NewReader(fmt.Sprintf(`{"name":%q}`, name)), "application/json")
	if err != nil {
		return err
	}
	var made struct{ Details struct{ ID string } }
	if err := json.Unmarshal(text, &made); err != nil {
		return err
	}
	l.made.Store(made.Details.ID, true)
	if _, err := l.call(ctx, http.MethodPatch, l.URL+projects+"/"+made.Details.ID, admin, strings.NewReader(fmt.Sprintf(`{"name":"changed, %s"}`, name)), "application/json"); err != nil {
		return err
	}
	text, err = l.call(ctx, http.MethodGet, l.URL+projects+"/"+made.Details.ID, admin, nil, "")
	if err == nil && !strings.Contains(string(text), `"changed, `+name) {
		err = fmt.Errorf("a change is not read by the next call: %s", text)
	}
	return err
}

// active asks, at a node or at the balancer, whether a token is good.
func (l *load) active(ctx context.Context, at, token string) error {
	api := l.server.Clients["api"]
	text, err := l.call(ctx, http.MethodPost, at+"/oauth/v2/introspect", basic(api.ClientID, api.ClientSecret),
		strings.NewReader(url.Values{"token": {token}}.Encode()), "application/x-www-form-urlencoded")
	if err == nil && !strings.Contains(string(text), `"active":true`) {
		err = fmt.Errorf("%s does not take a token: %s", at, text)
	}
	return err
}

func (l *load) token(ctx context.Context, at, clientID, secret string, form url.Values) (tokens, error) {
	text, err := l.call(ctx, http.MethodPost, at+"/oauth/v2/token", basic(clientID, secret), strings.NewReader(form.Encode()), "application/x-www-form-urlencoded")
	if err != nil {
		return tokens{}, err
	}
	var answer struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	err = json.Unmarshal(text, &answer)
	return tokens{answer.Access, answer.Refresh}, err
}

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

// call is a request that has to succeed.
func (l *load) call(ctx context.Context, method, at, authorization string, body io.Reader, kind string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", authorization)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := l.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %s %s", method, at, res.Status, text)
	}
	return text, err
}
