package writ

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// APIScope asks for a token that the resource API accepts.
const APIScope = "openid urn:service:iam:org:project:id:service:aud"

// AccessToken is what a [TokenSource] gets.
type AccessToken struct {
	Value   string
	Expires time.Time // zero: it does not
}

// TokenSource gets access tokens. A client asks it when it needs one and remembers what it
// got until shortly before it ends, so a source need not; and it asks once at a time.
type TokenSource interface {
	AccessToken(ctx context.Context, client *Client) (AccessToken, error)
}

// Token is a personal access token, or another that does not end.
type Token string

// AccessToken implements [TokenSource].
func (t Token) AccessToken(context.Context, *Client) (AccessToken, error) {
	return AccessToken{Value: string(t)}, nil
}

// TokenFunc gets tokens from elsewhere.
type TokenFunc func(context.Context) (AccessToken, error)

// AccessToken implements [TokenSource].
func (f TokenFunc) AccessToken(ctx context.Context, _ *Client) (AccessToken, error) { return f(ctx) }

// ClientCredentials are the ID and secret of a service user (client_credentials).
type ClientCredentials struct {
	ID, Secret string
	Scope      string // APIScope when empty
}

// AccessToken implements [TokenSource].
func (s *ClientCredentials) AccessToken(ctx context.Context, client *Client) (AccessToken, error) {
	request := &TokenRequest{GrantType: "client_credentials", Scope: scope(s.Scope)}
	reply, err := client.OAuth.Token(ctx, request, AsClient(s.ID, s.Secret), Repeatable())
	return received(reply, err)
}

// KeyFile is the key file of a service user, with which it signs for itself (JWT profile,
// RFC 7523). [ReadKeyFile] reads one.
type KeyFile struct {
	Type   string `json:"type"`
	KeyID  string `json:"keyId"`
	Key    string `json:"key"` // PEM
	UserID string `json:"userId"`

	Scope string `json:"-"` // APIScope when empty
	// Audience is the issuer that the assertion is for; discovered when empty.
	Audience string `json:"-"`
}

// ReadKeyFile reads what CreateMachineKey answers in KeyDetails from a file.
func ReadKeyFile(name string) (*KeyFile, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return ParseKeyFile(text)
}

// ParseKeyFile reads what CreateMachineKey answers in KeyDetails.
func ParseKeyFile(text []byte) (*KeyFile, error) {
	file := &KeyFile{}
	if err := json.Unmarshal(text, file); err != nil {
		return nil, fmt.Errorf("writ: the key file is not JSON: %w", err)
	}
	if file.KeyID == "" || file.Key == "" || file.UserID == "" {
		return nil, errors.New("writ: the key file lacks keyId, key or userId")
	}
	return file, nil
}

// AccessToken implements [TokenSource].
func (s *KeyFile) AccessToken(ctx context.Context, client *Client) (AccessToken, error) {
	assertion, _, err := signed(ctx, client, s.UserID, s.KeyID, s.Key, s.Audience)
	if err != nil {
		return AccessToken{}, err
	}
	// An assertion is good once, so this is not repeated when its answer was lost.
	request := &TokenRequest{GrantType: "urn:ietf:params:oauth:grant-type:jwt-bearer", Assertion: &assertion, Scope: scope(s.Scope)}
	reply, err := client.OAuth.Token(ctx, request, AsClient("", ""))
	return received(reply, err)
}

// SystemUser is a user of the installation (`writ serve --system-users`), who signs tokens
// for itself.
type SystemUser struct {
	Name string
	Key  string // the private key in PEM
	// Audience is the issuer of the instance that is called; discovered when empty.
	Audience string
}

// AccessToken implements [TokenSource].
func (s *SystemUser) AccessToken(ctx context.Context, client *Client) (AccessToken, error) {
	token, end, err := signed(ctx, client, s.Name, "", s.Key, s.Audience)
	return AccessToken{Value: token, Expires: end}, err
}

// signed is a JWT that somebody signs about itself, for five minutes.
func signed(ctx context.Context, client *Client, name, keyID, key, audience string) (token string, end time.Time, err error) {
	if audience == "" {
		discovery, err := client.OAuth.GetConfiguration(ctx)
		if err != nil {
			return "", end, err
		}
		audience = discovery.Issuer
	}
	now := time.Now()
	end = now.Add(5 * time.Minute)
	token, err = sign(key, keyID, map[string]any{"iss": name, "sub": name, "aud": audience, "iat": now.Unix(), "exp": end.Unix(), "jti": rand.Text()})
	return token, end, err
}

// sign makes a JWT of claims, with a private key in PEM.
func sign(text, keyID string, claims map[string]any) (string, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return "", errors.New("writ: the private key is not PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return "", fmt.Errorf("writ: the private key: %w", err)
	}
	header := map[string]string{"alg": "RS256", "typ": "JWT"}
	switch key.(type) {
	case *ecdsa.PrivateKey:
		header["alg"] = "ES256"
	case ed25519.PrivateKey:
		header["alg"] = "EdDSA"
	}
	if keyID != "" {
		header["kid"] = keyID
	}
	head, _ := json.Marshal(header)
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	input := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	digest := sha256.Sum256([]byte(input))
	var signature []byte
	switch key := key.(type) {
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	case *ecdsa.PrivateKey:
		if key.Curve != elliptic.P256() {
			return "", errors.New("writ: of elliptic curves only P-256 signs")
		}
		r, other, failed := ecdsa.Sign(rand.Reader, key, digest[:])
		if err = failed; err == nil {
			signature = append(r.FillBytes(make([]byte, 32)), other.FillBytes(make([]byte, 32))...)
		}
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	default:
		err = fmt.Errorf("writ: a key of the type %T cannot sign", key)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// RefreshToken is a refresh token of an app. Each use gives another one and ends it, so
// however many calls want a token, one asks. Keep the source: who makes a second one of the
// same token ends both.
type RefreshToken struct {
	ClientID, ClientSecret string // a public client has no secret
	// Save stores the token that comes next, before the access token that came along is used.
	// A process that starts again needs it. When it fails, the call does; the token is in the
	// source and saved with the next attempt.
	Save func(ctx context.Context, refreshToken string) error

	mutex   sync.Mutex
	token   string
	unsaved bool
}

// NewRefreshToken is a source that goes on from a refresh token.
func NewRefreshToken(clientID, clientSecret, token string, save func(context.Context, string) error) *RefreshToken {
	return &RefreshToken{ClientID: clientID, ClientSecret: clientSecret, Save: save, token: token}
}

// AccessToken implements [TokenSource].
func (s *RefreshToken) AccessToken(ctx context.Context, client *Client) (AccessToken, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.save(ctx); err != nil {
		return AccessToken{}, err
	}
	request := &TokenRequest{GrantType: "refresh_token", RefreshToken: &s.token}
	reply, err := client.OAuth.Token(ctx, request, AsClient(s.ClientID, s.ClientSecret))
	if err == nil && reply.RefreshToken != nil && *reply.RefreshToken != s.token {
		s.token, s.unsaved = *reply.RefreshToken, true
		err = s.save(ctx)
	}
	return received(reply, err)
}

func (s *RefreshToken) save(ctx context.Context) error {
	if !s.unsaved || s.Save == nil {
		return nil
	}
	if err := s.Save(ctx, s.token); err != nil {
		return fmt.Errorf("writ: the refresh token that came next was not saved: %w", err)
	}
	s.unsaved = false
	return nil
}

func scope(asked string) *string {
	if asked == "" {
		asked = APIScope
	}
	return &asked
}

func received(reply *TokenReply, err error) (AccessToken, error) {
	if err != nil {
		return AccessToken{}, err
	}
	return AccessToken{Value: reply.AccessToken, Expires: time.Now().Add(time.Duration(reply.ExpiresIn) * time.Second)}, nil
}

// tokens remembers the token of a source.
type tokens struct {
	source TokenSource
	client *Client

	turn  chan struct{} // who holds it asks the source
	once  sync.Once
	mutex sync.Mutex
	token AccessToken
	begun time.Time
}

// early is how long before its end a token is not used any more.
const early = 30 * time.Second

// get returns a token that is still good. One call asks the source, and the others wait
// for it, each as long as its context does.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.once.Do(func() { t.turn = make(chan struct{}, 1) })
	if token, ok := t.remembered(); ok {
		return token, nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if token, ok := t.remembered(); ok { // of who had the turn before
		return token, nil
	}
	// A rotation that began is not called off by who first asked: its answer would be lost.
	token, err := t.source.AccessToken(context.WithoutCancel(ctx), t.client)
	if err != nil {
		return "", err
	}
	if token.Value == "" || strings.ContainsAny(token.Value, " \r\n") {
		return "", errors.New("writ: the token source got no access token")
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.token, t.begun = token, time.Now()
	return token.Value, nil
}

func (t *tokens) remembered() (string, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.token.Value == "" {
		return "", false
	}
	if t.token.Expires.IsZero() {
		return t.token.Value, true
	}
	left := time.Until(t.token.Expires)
	return t.token.Value, left > min(early, t.token.Expires.Sub(t.begun)/2)
}

// drop forgets a token that was refused, and says whether asking for another may help.
func (t *tokens) drop(token string) bool {
	if t == nil || token == "" {
		return false
	}
	if _, fixed := t.source.(Token); fixed {
		return false
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.token.Value == token {
		t.token = AccessToken{}
	}
	return true
}

// ErrNoCredentials is the error of a client that has none.
var ErrNoCredentials = errors.New("writ: the client has no credentials")

// AccessToken returns a token of the client's credentials, to use elsewhere.
func (c *Client) AccessToken(ctx context.Context) (string, error) {
	if c.tokens == nil {
		return "", ErrNoCredentials
	}
	return c.tokens.get(ctx)
}

// ForgetAccessToken is for who used a token elsewhere and was refused: the next one is asked
// for, unless it cannot be another. It says whether it may be.
func (c *Client) ForgetAccessToken(token string) bool { return c.tokens.drop(token) }
