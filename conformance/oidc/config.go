package oidc

import (
	"cmp"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/lestrrat-go/jwx/v3/jwk"
)

// Config says which provider to test, as whom. The ready file of `writ dev` is
// one: keys that are not named here are ignored.
type Config struct {
	Issuer  string             `json:"issuer"`
	User    User               `json:"user"`
	Clients map[string]*Client `json:"clients"` // by role, see the constants
	// Service is a client that acts for itself: it has a secret for the grant
	// client_credentials and a key for the JWT grant; either may be missing.
	Service *Client `json:"service_user,omitempty"`

	// Connect is the host:port to connect to instead of the issuer's, for a
	// provider behind a name that does not resolve here.
	Connect string `json:"connect,omitempty"`
	// LoginHint and UILocales are sent by the modules about them.
	LoginHint string `json:"login_hint,omitempty"`
	UILocales string `json:"ui_locales,omitempty"`
}

// User is the person at the browser. To avoid warnings the user has a value for
// every standard claim (OpenID Connect Core 1.0 §5.1).
type User struct {
	LoginName string `json:"login_name"`
	Password  string `json:"password"`
}

// The roles of clients. Modules whose client is not configured are skipped,
// those of roleMain fail.
const (
	roleMain     = "web"      // client_secret_basic; code and refresh_token
	roleSecond   = "second"   // as roleMain, with the same redirect URI
	rolePost     = "post"     // client_secret_post
	roleImplicit = "implicit" // id_token and id_token token
	rolePublic   = "spa"      // none: has no secret, uses PKCE
	roleJWT      = "jwt"      // private_key_jwt
)

// The methods of client authentication (OpenID Connect Core 1.0 §9).
const (
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authNone  = "none"
	authJWT   = "private_key_jwt"
)

// Client is a client as it is registered at the provider.
type Client struct {
	ClientID              string `json:"client_id"`
	ClientSecret          string `json:"client_secret,omitempty"`
	KeyFile               string `json:"key_file,omitempty"` // JSON with keyId, key (a private key in PEM) and maybe userId
	RedirectURI           string `json:"redirect_uri,omitempty"`
	PostLogoutRedirectURI string `json:"post_logout_redirect_uri,omitempty"`

	auth   string // how it authenticates
	keyID  string
	userID string // whom the key is of, when that is not the client
	key    crypto.Signer
}

// Load reads a configuration file.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	// What `writ dev` calls web puts the claims of the user into the ID token, for
	// clients that look nowhere else. The rules are about one without such options.
	if main, second := c.Clients[roleMain], c.Clients[roleSecond]; main != nil && second != nil {
		c.Clients[roleMain], c.Clients[roleSecond] = second, main
	}
	return c, nil
}

// FromEnvironment overrides with the variables that are set: WRIT_OIDC_URL,
// WRIT_OIDC_LOGIN_NAME, WRIT_OIDC_PASSWORD, WRIT_OIDC_CONNECT.
func (c *Config) FromEnvironment() {
	for name, to := range map[string]*string{
		"WRIT_OIDC_URL": &c.Issuer, "WRIT_OIDC_LOGIN_NAME": &c.User.LoginName,
		"WRIT_OIDC_PASSWORD": &c.User.Password, "WRIT_OIDC_CONNECT": &c.Connect,
	} {
		*to = cmp.Or(os.Getenv(name), *to)
	}
}

// prepare checks c and reads the keys of its clients.
func (c *Config) prepare() error {
	if c.Issuer == "" || c.User.LoginName == "" || c.User.Password == "" {
		return errors.New("issuer, user.login_name and user.password are required")
	}
	if c.Clients[roleMain] == nil {
		return fmt.Errorf("clients.%s is required", roleMain)
	}
	methods := map[string]string{
		roleMain: authBasic, roleSecond: authBasic, rolePost: authPost,
		roleImplicit: authBasic, rolePublic: authNone, roleJWT: authJWT,
	}
	for role, client := range c.Clients {
		if client.auth = methods[role]; client.auth == "" {
			continue // for another suite
		}
		if client.ClientID == "" || client.RedirectURI == "" {
			return fmt.Errorf("clients.%s: client_id and redirect_uri are required", role)
		}
		if u, err := url.Parse(client.RedirectURI); err != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("clients.%s: redirect_uri must be a URI without query and fragment", role)
		}
		if client.KeyFile != "" {
			if err := client.readKey(); err != nil {
				return fmt.Errorf("clients.%s: %w", role, err)
			}
		}
	}
	if c.Service != nil {
		c.Service.auth = authBasic
		if c.Service.KeyFile != "" {
			return c.Service.readKey()
		}
	}
	return nil
}

func (c *Client) readKey() error {
	text, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return err
	}
	var file struct{ KeyID, Key, UserID string }
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("%s: %w", c.KeyFile, err)
	}
	parsed, err := jwk.ParseKey([]byte(file.Key), jwk.WithPEM(true))
	if err != nil {
		return fmt.Errorf("%s: %w", c.KeyFile, err)
	}
	var key any
	if err := jwk.Export(parsed, &key); err != nil {
		return fmt.Errorf("%s: %w", c.KeyFile, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return fmt.Errorf("%s: %T cannot sign", c.KeyFile, key)
	}
	c.key, c.keyID, c.userID = signer, file.KeyID, file.UserID
	return nil
}
