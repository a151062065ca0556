package interop

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/writ-id/writ/conformance/interop/browser"
)

var scopes = []string{oidc.ScopeOpenID, "profile", "email", oidc.ScopeOfflineAccess}

// party is a relying party that is go-oidc with oauth2. The verifier is one for
// its whole life: it has to learn of new keys by itself.
type party struct {
	*testing.T
	provider  *oidc.Provider
	verifier  *oidc.IDTokenVerifier
	config    oauth2.Config
	client    client
	endpoints struct {
		Introspection string `json:"introspection_endpoint"`
		Revocation    string `json:"revocation_endpoint"`
		EndSession    string `json:"end_session_endpoint"`
	}
}

// newParty makes a relying party from what discovery says.
func newParty(t *testing.T, p *provider, c client, style oauth2.AuthStyle) *party {
	t.Helper()
	provider, err := oidc.NewProvider(t.Context(), p.Issuer)
	if err != nil {
		t.Fatalf("discovery: %v", err)
	}
	r := &party{T: t, provider: provider, verifier: provider.Verifier(&oidc.Config{ClientID: c.ClientID}), client: c, config: oauth2.Config{
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: c.RedirectURI, Scopes: scopes,
	}}
	r.config.Endpoint.AuthStyle = style
	if err := provider.Claims(&r.endpoints); err != nil {
		t.Fatal(err)
	}
	return r
}

// logIn gets tokens with a browser, by code and PKCE.
func (r *party) logIn(agent *browser.Agent, start []oauth2.AuthCodeOption, exchange ...oauth2.AuthCodeOption) (*oauth2.Token, *oidc.IDToken, error) {
	verifier, state, nonce := oauth2.GenerateVerifier(), oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	address := r.config.AuthCodeURL(state, append(start, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))...)
	back, page, err := agent.Visit(r.Context(), address, r.client.RedirectURI)
	if err != nil {
		return nil, nil, err
	}
	if page != "" {
		return nil, nil, fmt.Errorf("the browser stopped at %s: %.500s", back, page)
	}
	query := back.Query()
	if got := query.Get("state"); got != state {
		return nil, nil, fmt.Errorf("got state %q, want %q", got, state)
	}
	if query.Has("error") {
		return nil, nil, errors.New(query.Get("error"))
	}
	token, err := r.config.Exchange(r.Context(), query.Get("code"), append(exchange, oauth2.VerifierOption(verifier))...)
	if err != nil {
		return nil, nil, fmt.Errorf("exchange the code: %w", err)
	}
	id, err := r.verify(token)
	if err == nil && id.Nonce != nonce {
		err = fmt.Errorf("got nonce %q, want %q", id.Nonce, nonce)
	}
	return token, id, err
}

// mustLogIn is logIn without anything special.
func (r *party) mustLogIn(agent *browser.Agent, exchange ...oauth2.AuthCodeOption) (*oauth2.Token, *oidc.IDToken) {
	r.Helper()
	token, id, err := r.logIn(agent, nil, exchange...)
	if err != nil {
		r.Fatalf("log in: %v", err)
	}
	return token, id
}

func (r *party) verify(token *oauth2.Token) (*oidc.IDToken, error) {
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("no ID token came")
	}
	id, err := r.verifier.Verify(r.Context(), raw)
	if err != nil {
		return nil, err
	}
	if id.AccessTokenHash != "" {
		return id, id.VerifyAccessToken(token.AccessToken)
	}
	return id, nil
}

func (r *party) refresh(token string) (*oauth2.Token, error) {
	return r.config.TokenSource(r.Context(), &oauth2.Token{RefreshToken: token}).Token()
}

// call sends a form as a client with a secret, if any, and decodes the answer.
func (r *party) call(as client, address string, form url.Values, into any) int {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if as.ClientID != "" {
		req.SetBasicAuth(url.QueryEscape(as.ClientID), url.QueryEscape(as.ClientSecret))
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			r.Fatalf("%s: %s: %v: %.300s", address, res.Status, err, text)
		}
	}
	return res.StatusCode
}

func (r *party) active(as client, token string) bool {
	r.Helper()
	var answer struct{ Active bool }
	if status := r.call(as, r.endpoints.Introspection, url.Values{"token": {token}}, &answer); status != http.StatusOK {
		r.Fatalf("introspection: got status %d", status)
	}
	return answer.Active
}

func (r *party) revoke(token string) {
	r.Helper()
	if status := r.call(r.client, r.endpoints.Revocation, url.Values{"token": {token}}, nil); status != http.StatusOK {
		r.Fatalf("revocation: got status %d", status)
	}
}

// refusal returns the error code of a token endpoint.
func refusal(err error) string {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return refused.ErrorCode
	}
	return fmt.Sprint(err)
}

// TestGoClient is the whole life of a login.
func TestGoClient(t *testing.T) {
	p := shared(t)
	r, agent, api := newParty(t, p, p.Clients["web"], oauth2.AuthStyleAutoDetect), p.browse(), p.Clients["api"]
	ctx := t.Context()
	token, id := r.mustLogIn(agent)
	if time.Until(token.Expiry) <= 0 || !token.Valid() {
		t.Errorf("the access token expires at %s", token.Expiry)
	}
	info, err := r.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		t.Fatalf("userinfo: %v", err)
	}
	if info.Subject != id.Subject || info.Email != p.User.Email || !info.EmailVerified {
		t.Errorf("got userinfo %+v, want subject %s with the verified address %s", info, id.Subject, p.User.Email)
	}
	if !r.active(api, token.AccessToken) || r.active(api, "no such token") {
		t.Error("introspection by the API takes the token for inactive, or nonsense for active")
	}

	renewed, err := r.refresh(token.RefreshToken)
	if err != nil {
		t.Fatalf("refresh: %v", err)
	}
	if renewed.AccessToken == token.AccessToken || renewed.RefreshToken == token.RefreshToken {
		t.Error("a refresh gave a token again")
	}

	// A verifier that lives on has to take tokens of the new key, and of the old.
	if _, err := p.rotate(ctx, "RS256"); err != nil {
		t.Fatalf("rotate the signing key: %v", err)
	}
	if _, after := r.mustLogIn(agent); after.Subject != id.Subject {
		t.Errorf("got subject %q after the rotation, want %q", after.Subject, id.Subject)
	}
	if _, err := r.verify(token); err != nil {
		t.Errorf("an ID token from before the rotation: %v", err)
	}
	if renewed, err = r.refresh(renewed.RefreshToken); err != nil {
		t.Fatalf("refresh after the rotation: %v", err)
	}

	r.revoke(renewed.RefreshToken)
	if _, err := r.refresh(renewed.RefreshToken); refusal(err) != "invalid_grant" {
		t.Errorf("refresh with a revoked token: got %v, want invalid_grant", err)
	}
	if r.active(api, renewed.AccessToken) {
		t.Error("the access token of a revoked refresh token is active")
	}
	r.revoke("no such token")

	r.logOut(agent, token)
}

// TestGoClientOfAnotherTime has learned from discovery which algorithms there are
// before the instance begins to sign with another one.
func TestGoClientOfAnotherTime(t *testing.T) {
	p := shared(t)
	r, agent := newParty(t, p, p.Clients["web"], oauth2.AuthStyleInHeader), p.browse()
	for _, algorithm := range []string{"ES256", "EdDSA", "RS256"} {
		rotated, err := p.rotate(t.Context(), algorithm)
		if err != nil {
			t.Fatalf("rotate the signing key: %v", err)
		}
		token, _, err := r.logIn(agent, nil)
		if err != nil {
			t.Errorf("log in when the key is of %s: %v", algorithm, err)
		} else if got := algorithmOf(token); rotated && got != algorithm {
			t.Errorf("got an ID token signed with %s, want %s", got, algorithm)
		}
	}
}

// algorithmOf returns what an ID token is signed with.
func algorithmOf(token *oauth2.Token) string {
	raw, _ := token.Extra("id_token").(string)
	parsed, err := jose.ParseSigned(raw, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil {
		return err.Error()
	}
	return parsed.Signatures[0].Header.Algorithm
}

// logOut ends the session with an ID token as the hint.
func (r *party) logOut(agent *browser.Agent, token *oauth2.Token) {
	r.Helper()
	hint, _ := token.Extra("id_token").(string)
	query := url.Values{"id_token_hint": {hint}, "post_logout_redirect_uri": {r.client.PostLogoutRedirectURI}, "state": {"good bye"}}
	back, page, err := agent.Visit(r.Context(), r.endpoints.EndSession+"?"+query.Encode(), r.client.PostLogoutRedirectURI)
	if err != nil || page != "" {
		r.Fatalf("log out: %v, at %v: %.500s", err, back, page)
	}
	if got := back.Query().Get("state"); got != "good bye" {
		r.Errorf("got state %q after the logout", got)
	}
	if _, _, err := r.logIn(agent, []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("prompt", "none")}); err == nil || err.Error() != "login_required" {
		r.Errorf("prompt=none after the logout: got %v, want login_required", err)
	}
}

// TestGoClientAuthenticates logs in by every way that a client can authenticate.
func TestGoClientAuthenticates(t *testing.T) {
	p := shared(t)
	for _, test := range []struct {
		name, client string
		style        oauth2.AuthStyle
	}{
		{"client_secret_basic", "web", oauth2.AuthStyleInHeader},
		{"client_secret_post", "post", oauth2.AuthStyleInParams},
		{"none", "spa", oauth2.AuthStyleInParams},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newParty(t, p, p.Clients[test.client], test.style)
			token, _ := r.mustLogIn(p.browse())
			if _, err := r.refresh(token.RefreshToken); err != nil {
				t.Errorf("refresh: %v", err)
			}
		})
	}
	t.Run("private_key_jwt", func(t *testing.T) {
		r := newParty(t, p, p.Clients["jwt"], oauth2.AuthStyleInParams)
		assertion := assert(t, p.Clients["jwt"], p.Issuer)
		r.mustLogIn(p.browse(), oauth2.SetAuthURLParam("client_assertion", assertion),
			oauth2.SetAuthURLParam("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"))
	})
	t.Run("not with another's secret", func(t *testing.T) {
		c := p.Clients["web"]
		c.ClientSecret = "not the secret of this client"
		_, _, err := newParty(t, p, c, oauth2.AuthStyleInHeader).logIn(p.browse(), nil)
		if got := refusal(errors.Unwrap(err)); got != "invalid_client" {
			t.Errorf("got %v, want invalid_client", err)
		}
	})
}

// TestGoClientPrompts asks for logins in the ways that OpenID Connect has.
func TestGoClientPrompts(t *testing.T) {
	p := shared(t)
	r, agent := newParty(t, p, p.Clients["web"], oauth2.AuthStyleInHeader), p.browse()
	param := oauth2.SetAuthURLParam
	if _, _, err := r.logIn(agent, []oauth2.AuthCodeOption{param("prompt", "none")}); err == nil || err.Error() != "login_required" {
		t.Errorf("prompt=none without a session: got %v, want login_required", err)
	}
	token, id := r.mustLogIn(agent)
	hint, _ := token.Extra("id_token").(string)
	_, again, err := r.logIn(agent, []oauth2.AuthCodeOption{param("prompt", "none"), param("id_token_hint", hint)})
	if err != nil || again.Subject != id.Subject {
		t.Errorf("prompt=none with a session: got %v, %v", again, err)
	}
	agent.Trace = nil
	if _, _, err := r.logIn(agent, []oauth2.AuthCodeOption{param("prompt", "login")}); err != nil {
		t.Errorf("prompt=login: %v", err)
	}
	if typed := strings.Join(agent.Trace, "\n"); !strings.Contains(typed, "sent ") {
		t.Error("prompt=login asked for nothing")
	}
	if _, _, err := r.logIn(agent, []oauth2.AuthCodeOption{param("response_mode", "form_post")}); err != nil {
		t.Errorf("response_mode=form_post: %v", err)
	}
	_, aged, err := r.logIn(agent, []oauth2.AuthCodeOption{param("max_age", "3600")})
	if err != nil {
		t.Fatalf("max_age: %v", err)
	}
	var claims struct {
		AuthTime int64 `json:"auth_time"`
	}
	if err := aged.Claims(&claims); err != nil || time.Since(time.Unix(claims.AuthTime, 0)).Abs() > time.Hour {
		t.Errorf("max_age: got auth_time %d (%v)", claims.AuthTime, err)
	}
}

// TestGoClientImplicit takes an ID token from the fragment of the redirect.
func TestGoClientImplicit(t *testing.T) {
	p := shared(t)
	c, ok := p.Clients["implicit"]
	if !ok {
		t.Skip("the provider has no client for it")
	}
	r := newParty(t, p, c, oauth2.AuthStyleInParams)
	r.config.Scopes = []string{oidc.ScopeOpenID}
	for _, kind := range []string{"id_token", "id_token token"} {
		address := r.config.AuthCodeURL("the state", oidc.Nonce("the nonce"), oauth2.SetAuthURLParam("response_type", kind))
		back, page, err := p.browse().Visit(t.Context(), address, c.RedirectURI)
		if err != nil || page != "" {
			t.Fatalf("%s: %v, at %v: %.500s", kind, err, back, page)
		}
		answer, err := url.ParseQuery(back.Fragment)
		if err != nil || answer.Get("state") != "the state" {
			t.Fatalf("%s: got %s (%v)", kind, back, err)
		}
		id, err := r.verifier.Verify(t.Context(), answer.Get("id_token"))
		if err != nil || id.Nonce != "the nonce" {
			t.Errorf("%s: got %+v, %v", kind, id, err)
			continue
		}
		if access := answer.Get("access_token"); (access != "") != (kind == "id_token token") {
			t.Errorf("%s: got access token %q", kind, access)
		} else if access != "" {
			if err := id.VerifyAccessToken(access); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

// TestGoServices gets tokens without a user.
func TestGoServices(t *testing.T) {
	p := shared(t)
	service := p.ServiceUser
	discovered, err := oidc.NewProvider(t.Context(), p.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	config := clientcredentials.Config{
		ClientID: service.ClientID, ClientSecret: service.ClientSecret, TokenURL: discovered.Endpoint().TokenURL, Scopes: []string{oidc.ScopeOpenID},
	}
	if service.Scope != "" {
		config.Scopes = []string{service.Scope}
	}
	token, err := config.Token(t.Context())
	if err != nil || token.AccessToken == "" {
		t.Fatalf("client_credentials: %v", err)
	}
	wrong := config
	wrong.ClientSecret = "not the secret of this service"
	if _, err := wrong.Token(t.Context()); refusal(err) != "invalid_client" {
		t.Errorf("client_credentials with a wrong secret: got %v, want invalid_client", err)
	}
	if service.KeyFile == "" {
		return // no JWT profile
	}
	// oauth2/jwt puts the scope into the assertion, where RFC 7523 has none.
	userID := readKey(t, service.KeyFile).UserID
	r := newParty(t, p, client{}, oauth2.AuthStyleInParams)
	var issued struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
	}
	r.call(client{}, config.TokenURL, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "scope": {"openid profile"},
		"assertion": {assert(t, client{ClientID: userID, KeyFile: service.KeyFile}, p.Issuer)},
	}, &issued)
	info, err := discovered.UserInfo(t.Context(), oauth2.StaticTokenSource(&oauth2.Token{AccessToken: issued.AccessToken, TokenType: issued.TokenType}))
	if err != nil || info.Subject != userID {
		t.Errorf("userinfo of the service: got %+v, %v, want subject %s", info, err, userID)
	}
}

// keyFile is the file that goes with a key of a service or an application.
type keyFile struct{ Type, KeyID, Key, UserID, ClientID string }

func readKey(t *testing.T, path string) (key keyFile) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// assert signs what a client says of itself (RFC 7523 §3).
func assert(t *testing.T, c client, issuer string) string {
	t.Helper()
	file := readKey(t, c.KeyFile)
	block, _ := pem.Decode([]byte(file.Key))
	if block == nil {
		t.Fatal("the key file has no PEM in it")
	}
	key, err := parseRSA(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: file.KeyID}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	id := base64.RawURLEncoding.EncodeToString([]byte(oauth2.GenerateVerifier()))
	assertion, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: c.ClientID, Subject: c.ClientID, Audience: jwt.Audience{issuer}, ID: id,
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(5 * time.Minute)),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return assertion
}

func parseRSA(der []byte) (*rsa.PrivateKey, error) {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	private, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T", key)
	}
	return private, nil
}
