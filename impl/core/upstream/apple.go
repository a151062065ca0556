package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"

	"github.com/writ-id/writ/impl/core/token"
)

// assertionLife is how long the client assertion of one request is good.
const assertionLife = 5 * time.Minute

// CheckAppleKey says what is wrong with the private key of an APPLE provider.
func CheckAppleKey(key []byte) error { _, err := appleKey(key); return err }

func appleKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the key is no PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the key is no private key in PKCS #8")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the key is none on the curve P-256")
	}
	return key, nil
}

// appleSecret makes the client secret of Apple: an assertion signed by the key of the
// team, with the algorithm ES256.
func appleSecret(p *Provider, now time.Time) (string, error) {
	key, err := appleKey(p.PrivateKey)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": p.TeamID, "sub": p.ClientID, "aud": "https://appleid.apple.com", "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
	if err != nil {
		return "", err
	}
	header := jws.NewHeaders()
	if err := header.Set(jws.KeyIDKey, p.KeyID); err != nil {
		return "", fmt.Errorf("the ID of the key: %w", err)
	}
	signed, err := jws.Sign(claims, jws.WithKey(jwa.ES256(), key, jws.WithProtectedHeaders(header)))
	return string(signed), err
}

// mendApple takes the name from the answer: Apple tells it there, not in the ID token,
// and only the first time. Nothing depends on it: the browser could have changed it.
func mendApple(_ *Provider, _ token.Claims, params url.Values, who *Identity) {
	var user struct {
		Name struct {
			First string `json:"firstName"`
			Last  string `json:"lastName"`
		} `json:"name"`
	}
	if json.Unmarshal([]byte(params.Get("user")), &user) == nil {
		who.GivenName, who.FamilyName = clean(user.Name.First), clean(user.Name.Last)
	}
}
