package writ

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// Authorization is a login that begins: send the browser to URL, remember the rest in its
// session, and compare State with what comes back before you call [OAuthService.Exchange].
type Authorization struct {
	URL, State, Nonce, Verifier string
}

// Authorize makes the address at which a login begins (authorization code with PKCE). What
// else the endpoint takes (prompt, login_hint, …) goes into extra, which may be nil.
func (s *OAuthService) Authorize(ctx context.Context, clientID, redirectURI string, scopes []string, extra url.Values) (*Authorization, error) {
	discovery, err := s.GetConfiguration(ctx)
	if err != nil {
		return nil, err
	}
	a := &Authorization{State: random(), Nonce: random(), Verifier: random()}
	challenge := sha256.Sum256([]byte(a.Verifier))
	query := url.Values{
		"client_id": {clientID}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {strings.Join(scopes, " ")},
		"state": {a.State}, "nonce": {a.Nonce},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	for name, values := range extra {
		query[name] = values
	}
	a.URL = discovery.AuthorizationEndpoint + "?" + query.Encode()
	return a, nil
}

// Exchange gets the tokens for the code that came back. Use [AsClient] to name the client.
// What the ID token says is yours to verify, with the keys of GetKeys and the Nonce.
func (s *OAuthService) Exchange(ctx context.Context, code, redirectURI, verifier string, opts ...CallOption) (*TokenReply, error) {
	return s.Token(ctx, &TokenRequest{GrantType: "authorization_code", Code: &code, RedirectURI: &redirectURI, CodeVerifier: &verifier}, opts...)
}

// EndSession makes the address at which a browser signs out.
func (s *OAuthService) EndSession(ctx context.Context, idToken, postLogoutRedirectURI, state string) (string, error) {
	discovery, err := s.GetConfiguration(ctx)
	if err != nil {
		return "", err
	}
	query := url.Values{}
	for name, value := range map[string]string{"id_token_hint": idToken, "post_logout_redirect_uri": postLogoutRedirectURI, "state": state} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return discovery.EndSessionEndpoint + "?" + query.Encode(), nil
}

func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// UnmarshalJSON implements json.Unmarshaler.
func (u *UserInfo) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &u.Claims); err != nil {
		return err
	}
	u.Sub, _ = u.Claims["sub"].(string)
	return nil
}
