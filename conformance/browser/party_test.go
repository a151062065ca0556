package browser

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// party is a relying party: go-oidc and oauth2 as they are, and the little web
// server that the browser comes back to.
type party struct {
	provider *oidc.Provider
	config   oauth2.Config
	home     string // where a browser comes after a logout
	onward   string // where the callback sends the browser; "" when it stays
	logout   string
	client   *http.Client

	mu      sync.Mutex
	waiting map[string]chan answer // by state
}

// answer is an authorization response as the browser brought it.
type answer struct {
	method string
	url.Values
}

// newParty registers a relying party on a free port and starts it.
func newParty(s *server) (*party, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, err
	}
	p := &party{}
	go func() { _ = http.Serve(listener, p) }() //nolint:gosec // for this process only, which ends it
	return p, p.register(s, "Field Notes", fmt.Sprintf("http://localhost:%d/", listener.Addr().(*net.TCPAddr).Port))
}

// register registers a relying party that is served at home.
func (p *party) register(s *server, name, home string) (err error) {
	var registered struct{ ClientID, ClientSecret string }
	if err := s.call("/resources/v3alpha/apps", object{"projectId": s.ProjectID, "name": name, "oidc": object{
		"applicationType": "APPLICATION_TYPE_WEB", "authMethodType": "AUTH_METHOD_TYPE_BASIC", "developmentMode": true,
		"grantTypes": []string{"GRANT_TYPE_AUTHORIZATION_CODE"}, "responseTypes": []string{"RESPONSE_TYPE_CODE"},
		"redirectUris": []string{home + "callback"}, "postLogoutRedirectUris": []string{home},
	}}, &registered); err != nil {
		return err
	}
	p.home, p.client, p.waiting = home, s.client, map[string]chan answer{}
	if p.provider, err = oidc.NewProvider(p.context(context.Background()), s.Issuer); err != nil {
		return err
	}
	var more struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err := p.provider.Claims(&more); err != nil {
		return err
	}
	p.logout = more.EndSession
	p.config = oauth2.Config{
		ClientID: registered.ClientID, ClientSecret: registered.ClientSecret, Endpoint: p.provider.Endpoint(),
		RedirectURL: home + "callback", Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}
	return nil
}

func (p *party) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// ServeHTTP is all the pages that the relying party has.
func (p *party) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.URL.Path != "/callback" {
		fmt.Fprintf(w, `<title>Field Notes</title><link rel="icon" href="data:,"><h1>Signed out of Field Notes</h1>`)
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if p.onward != "" {
		http.Redirect(w, r, p.onward, http.StatusSeeOther)
	} else {
		fmt.Fprintf(w, `<title>Field Notes</title><link rel="icon" href="data:,"><h1>Welcome</h1><p>%s`, html.EscapeString(r.Form.Get("error")))
	}
	p.mu.Lock()
	waiting := p.waiting[r.Form.Get("state")]
	p.mu.Unlock()
	select {
	case waiting <- answer{r.Method, r.Form}:
	default: // nobody waits: a reload
	}
}

// attempt is one login that the relying party asks for.
type attempt struct {
	*party
	address                string // of the authorization request
	state, nonce, verifier string
	answers                chan answer
}

// begin makes an authorization request with the code flow and PKCE. more are
// parameters and their values in turn.
func (p *party) begin(more ...string) *attempt {
	a := &attempt{
		party: p, state: oauth2.GenerateVerifier(), nonce: oauth2.GenerateVerifier(), verifier: oauth2.GenerateVerifier(), answers: make(chan answer, 1),
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier)}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i] == "state" {
			a.state = more[i+1]
			continue
		}
		options = append(options, oauth2.SetAuthURLParam(more[i], more[i+1]))
	}
	p.mu.Lock()
	p.waiting[a.state] = a.answers
	p.mu.Unlock()
	a.address = p.config.AuthCodeURL(a.state, options...)
	return a
}

// signedIn is what a relying party knows after a login.
type signedIn struct {
	raw    string // the ID token
	id     *oidc.IDToken
	info   *oidc.UserInfo
	method string // by which the browser brought the answer
	name   string
	claims struct {
		AMR      []string
		AuthTime int64 `json:"auth_time"`
	}
}

// answer returns what the browser brought.
func (a *attempt) answer(t *testing.T) answer {
	t.Helper()
	select {
	case got := <-a.answers:
		return got
	case <-time.After(patience):
		t.Fatal("the browser did not come back to the client")
	}
	return answer{}
}

// finish exchanges the code that the browser brought and verifies what it gets.
func (a *attempt) finish(t *testing.T) *signedIn {
	t.Helper()
	got := a.answer(t)
	if got.Has("error") {
		t.Fatalf("the client was told %s: %s", got.Get("error"), got.Get("error_description"))
	}
	if iss := got.Get("iss"); iss != "" && iss != strings.TrimSuffix(a.provider.Endpoint().AuthURL, "/oauth/v2/authorize") {
		t.Errorf("got iss %q (RFC 9207)", iss)
	}
	ctx := a.context(t.Context())
	token, err := a.config.Exchange(ctx, got.Get("code"), oauth2.VerifierOption(a.verifier))
	if err != nil {
		t.Fatalf("exchange the code: %v", err)
	}
	s := &signedIn{method: got.method}
	s.raw, _ = token.Extra("id_token").(string)
	if s.id, err = a.provider.VerifierContext(ctx, &oidc.Config{ClientID: a.config.ClientID}).Verify(ctx, s.raw); err != nil {
		t.Fatalf("verify the ID token: %v", err)
	}
	if s.id.Nonce != a.nonce {
		t.Errorf("got nonce %q, want %q", s.id.Nonce, a.nonce)
	}
	s.info, err = a.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		t.Fatalf("userinfo: %v", err)
	}
	var profile struct{ Name string }
	if err := errors.Join(s.id.Claims(&s.claims), s.info.Claims(&profile)); err != nil {
		t.Fatal(err)
	}
	s.name = profile.Name
	if s.info.Subject != s.id.Subject {
		t.Errorf("userinfo is about %q, the ID token about %q", s.info.Subject, s.id.Subject)
	}
	return s
}

// wantUser fails the test unless the login is that of a user.
func (s *signedIn) wantUser(t *testing.T, p person) {
	t.Helper()
	if s.id.Subject != p.ID {
		t.Errorf("signed in as %s (%s), want %s (%s)", s.id.Subject, s.info.Email, p.ID, p.LoginName)
	}
}

// logoutAddress returns where the relying party sends a browser to sign out
// (OpenID Connect RP-Initiated Logout).
func (p *party) logoutAddress(params url.Values) string {
	if len(params) == 0 {
		return p.logout
	}
	return p.logout + "?" + params.Encode()
}
