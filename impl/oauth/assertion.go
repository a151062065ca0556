package oauth

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/key"
	"github.com/writ-id/writ/impl/signing"
	"github.com/writ-id/writ/impl/store"
	"github.com/writ-id/writ/impl/token"
)

// Bounds of the times in assertions (SEC-038, SEC-055).
const (
	assertionLife = time.Hour        // how far exp may be ahead, and iat back
	assertionLead = time.Minute      // by how much iat and nbf may be in the future
	clockSkew     = 10 * time.Second // tolerated at exp
)

// byAssertion authenticates a client by a JWT that one of its keys signed
// (private_key_jwt; RFC 7523, section 3).
func (c *call) byAssertion(shown credentials, methods []int16) (*client, error) {
	if !slices.Contains(methods, methodJWT) {
		c.note("this endpoint does not take private_key_jwt")
		return nil, errClient
	}
	jwt, err := token.ParseJWT(shown.assertion)
	if err != nil {
		c.note("client_assertion is no JWT")
		return nil, errClient
	}
	issuer, _ := jwt.Claims.Text("iss")
	if shown.id != "" && shown.id != issuer {
		c.note("client_id is not the issuer of client_assertion")
		return nil, errClient
	}
	found, err := c.client(issuer)
	if err != nil {
		return nil, err
	}
	if found == nil || found.AuthMethodType != methodJWT {
		c.noteClient(found, methodJWT, methods)
		return nil, errClient
	}
	public, err := c.keyOf(found, jwt.KeyID)
	if err != nil {
		return nil, err
	}
	good, err := c.checkAssertion(jwt, public, issuer, issuer)
	if err == nil && !good {
		c.noteClient(found, methodJWT, methods)
		err = errClient
	}
	if err == nil {
		c.from(found.ClientID)
	}
	return found, err
}

// keyOf returns a key that a client registered, if it is good now (SEC-056); no key
// verifies nothing.
func (c *call) keyOf(of *client, id string) (crypto.PublicKey, error) {
	registered, ok := of.keys[id]
	if !ok || registered.Until != nil && !c.now.Before(*registered.Until) {
		return nil, nil
	}
	public, _, err := key.Parse(registered.Key)
	return public, err
}

// subjectOf returns whom a JWT is about that a client signed for an exchange.
func (c *call) subjectOf(text string, of *client) (userID string, good bool, err error) {
	jwt, err := token.ParseJWT(text)
	if errors.Is(err, token.ErrInvalid) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	issuer, _ := jwt.Claims.Text("iss")
	userID, named := jwt.Claims.Text("sub")
	if issuer != of.ClientID || !named {
		return "", false, nil
	}
	public, err := c.keyOf(of, jwt.KeyID)
	if err == nil {
		good, err = c.checkAssertion(jwt, public, issuer, userID)
	}
	return userID, good, err
}

// serviceKey is a key of a service user.
type serviceKey struct {
	db.ServiceKeyRow
	public crypto.PublicKey
}

// serviceKey returns a key by ID; nil when there is none.
func (c *call) serviceKey(id string) (*serviceKey, error) {
	if id == "" || len(id) > 200 {
		return nil, nil
	}
	return c.userKeys.Get(c.ctx(), clientKey{c.instance.ID, id}, func(ctx context.Context) (*serviceKey, error) {
		row, err := c.queries.ServiceKey(ctx, c.DB.Pool, db.ServiceKeyParams{InstanceID: c.instance.ID, ID: id})
		if store.NoRow(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		public, _, err := key.Parse(row.PublicKey)
		return &serviceKey{row, public}, err
	})
}

// checkAssertion reports whether an assertion is good, once: signed by the key, about
// who it is to be about, for this issuer alone, and of now.
func (c *call) checkAssertion(jwt *token.JWT, public crypto.PublicKey, issuer, about string) (bool, error) {
	if !slices.Contains(signing.Foreign, jwt.Algorithm) || !signing.Verify(jwt.Algorithm, public, jwt.Input, jwt.Signature) || jwt.IsType(signing.AccessToken) {
		return false, nil
	}
	subject, _ := jwt.Claims.Text("sub")
	if subject != about || !c.forUs(jwt) {
		return false, nil
	}
	end, ok := jwt.Claims.Time("exp")
	if !ok || !c.now.Before(end.Add(clockSkew)) || end.After(c.now.Add(assertionLife+clockSkew)) {
		return false, nil
	}
	for _, name := range []string{"iat", "nbf"} {
		at, ok := jwt.Claims.Time(name)
		if jwt.Claims.Has(name) && (!ok || at.After(c.now.Add(assertionLead))) {
			return false, nil
		}
		if name == "iat" && ok && at.Before(c.now.Add(-assertionLife-clockSkew)) {
			return false, nil
		}
	}
	// Without an ID the assertion itself is what may not come again.
	hash := sha256.Sum256([]byte(issuer + "\x01" + string(jwt.Input)))
	if jwt.Claims.Has("jti") {
		id, ok := jwt.Claims.Text("jti")
		if !ok {
			return false, nil
		}
		hash = sha256.Sum256([]byte(issuer + "\x00" + id))
	}
	n, err := c.queries.UseAssertion(c.ctx(), c.DB.Pool, db.UseAssertionParams{InstanceID: c.instance.ID, Hash: hash[:], ExpirationDate: end.Add(assertionLead)})
	return n == 1, err
}

// forUs reports whether the audience is this issuer and nobody else (SEC-054): a text, or
// a list in which every address is one of ours, as clients of the field send it.
func (c *call) forUs(jwt *token.JWT) bool {
	meant := false
	for _, one := range jwt.Claims.Texts("aud") {
		if one != c.issuer && !strings.HasPrefix(one, c.issuer+"/") {
			return false
		}
		meant = meant || one == c.issuer || c.TokenEndpointAudience && one == c.issuer+tokenPath
	}
	return meant
}
