package client

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// Bounds of the times in assertions (SEC-038, SEC-055).
const (
	assertionLife = time.Hour   // how far exp may be ahead, and iat back
	assertionLead = time.Minute // by how much iat and nbf may be in the future
	// ClockSkew is tolerated at exp.
	ClockSkew = 10 * time.Second
)

// byAssertion authenticates a client by a JWT that one of its keys signed
// (private_key_jwt; RFC 7523, section 3).
func (d *Directory) byAssertion(ctx context.Context, at endpoint.Site, shown Credentials, methods []appv3.AuthMethodType) (*Client, error) {
	if !slices.Contains(methods, assertion) {
		endpoint.Note(ctx, "this endpoint does not take private_key_jwt")
		return nil, endpoint.ErrClient
	}
	jwt, err := token.ParseJWT(shown.assertion)
	if err != nil {
		endpoint.Note(ctx, "client_assertion is no JWT")
		return nil, endpoint.ErrClient
	}
	issuer, _ := jwt.Claims.Text("iss")
	if shown.id != "" && shown.id != issuer {
		endpoint.Note(ctx, "client_id is not the issuer of client_assertion")
		return nil, endpoint.ErrClient
	}
	found, err := d.Find(ctx, at.ID, issuer)
	if err != nil {
		return nil, err
	}
	if found == nil || found.AuthMethodType != assertion {
		noteClient(ctx, found, assertion, methods)
		return nil, endpoint.ErrClient
	}
	public, err := found.key(jwt.KeyID, at.Now)
	if err != nil {
		return nil, err
	}
	var good bool
	if shown.again {
		_, good = d.good(at, shown.assertion, jwt, public, issuer)
	} else {
		good, err = d.check(ctx, at, shown.assertion, jwt, public, issuer, issuer)
	}
	if err == nil && !good {
		noteClient(ctx, found, assertion, methods)
		err = endpoint.ErrClient
	}
	if err != nil {
		return nil, err
	}
	endpoint.From(ctx, found.ClientID)
	return found, nil
}

// ServiceByAssertion returns the service user that signed an assertion; nil when it is
// not good (RFC 7523, section 2.1).
func (d *Directory) ServiceByAssertion(ctx context.Context, at endpoint.Site, text string) (*Service, error) {
	jwt, err := token.ParseJWT(text)
	if err != nil {
		return nil, nil //nolint:nilerr // it is no JWT
	}
	key, err := d.serviceKey(ctx, at, jwt.KeyID)
	if err != nil {
		return nil, err
	}
	issuer, _ := jwt.Claims.Text("iss")
	if key == nil || key.UserID != issuer || key.ExpirationDate != nil && !at.Now.Before(*key.ExpirationDate) {
		return nil, nil
	}
	if good, err := d.check(ctx, at, text, jwt, key.public, issuer, issuer); err != nil || !good {
		return nil, err
	}
	endpoint.From(ctx, key.Username)
	return &Service{key.UserID, key.OrgID, key.Username, key.Generation, isJWT(key.AccessTokenType)}, nil
}

// SubjectOf returns whom a JWT is about that a client signed for an exchange (RFC 8693,
// section 3); "" when it is not good.
func (d *Directory) SubjectOf(ctx context.Context, at endpoint.Site, text string, c *Client) (userID string, err error) {
	jwt, err := token.ParseJWT(text)
	if errors.Is(err, token.ErrInvalid) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	issuer, _ := jwt.Claims.Text("iss")
	userID, named := jwt.Claims.Text("sub")
	if issuer != c.ClientID || !named {
		return "", nil
	}
	public, err := c.key(jwt.KeyID, at.Now)
	if err != nil {
		return "", err
	}
	if good, err := d.check(ctx, at, text, jwt, public, issuer, userID); err != nil || !good {
		return "", err
	}
	return userID, nil
}

// good reports whether an assertion is signed by the key, about who it is to be about, for
// this issuer alone, and of now; and until when.
func (d *Directory) good(at endpoint.Site, text string, jwt *token.JWT, public crypto.PublicKey, about string) (end time.Time, ok bool) {
	if !verify(jwt, text, public) || !isAssertion(jwt) {
		return end, false
	}
	subject, _ := jwt.Claims.Text("sub")
	if subject != about || !d.isForUs(at, jwt) {
		return end, false
	}
	end, ok = jwt.Claims.Time("exp")
	if !ok || !at.Now.Before(end.Add(ClockSkew)) || end.After(at.Now.Add(assertionLife+ClockSkew)) {
		return end, false
	}
	for _, name := range []string{"iat", "nbf"} {
		begin, ok := jwt.Claims.Time(name)
		if jwt.Claims.Has(name) && (!ok || begin.After(at.Now.Add(assertionLead))) {
			return end, false
		}
		if name == "iat" && ok && begin.Before(at.Now.Add(-assertionLife-ClockSkew)) {
			return end, false
		}
	}
	return end, true
}

// isAssertion reports whether the header of a JWT says nothing else than that it is one, or one
// for what it is used for: what was signed as a token of another kind proves nothing here (RFC
// 8725, sections 2.8 and 3.11).
func isAssertion(jwt *token.JWT) bool {
	return jwt.Type == "" || jwt.IsType(signing.IDToken) || strings.EqualFold(strings.TrimPrefix(jwt.Type, "application/"), "client-authentication+jwt")
}

// check is good, once.
func (d *Directory) check(ctx context.Context, at endpoint.Site, text string, jwt *token.JWT, public crypto.PublicKey, issuer, about string) (bool, error) {
	end, ok := d.good(at, text, jwt, public, about)
	if !ok {
		return false, nil
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
	n, err := d.queries.UseAssertion(ctx, d.DB.Pool, db.UseAssertionParams{InstanceID: at.ID, Hash: hash[:], ExpirationDate: end.Add(assertionLead)})
	return n == 1, err
}

// Algorithms are those that clients may sign assertions with (RFC 7518, RFC 8037); the kind
// of the key and its curve decide which of them fit.
var Algorithms = []jwa.SignatureAlgorithm{jwa.RS256(), jwa.PS256(), jwa.ES256(), jwa.ES384(), jwa.ES512(), jwa.EdDSA()}

// verify reports whether a key signed an assertion (RFC 7515, section 5.2), by an algorithm
// that fits the kind of the key and no other (RFC 8725, section 3.1). jwt is its text taken
// apart, as strictly as our own tokens are.
func verify(jwt *token.JWT, text string, public crypto.PublicKey) bool {
	i := slices.IndexFunc(Algorithms, func(one jwa.SignatureAlgorithm) bool { return one.String() == string(jwt.Algorithm) })
	if i < 0 || !fits(Algorithms[i], public) {
		return false
	}
	_, err := jws.Verify([]byte(text), jws.WithKey(Algorithms[i], public))
	return err == nil
}

func fits(algorithm jwa.SignatureAlgorithm, public crypto.PublicKey) bool {
	switch key := public.(type) {
	case *rsa.PublicKey:
		return algorithm == jwa.RS256() || algorithm == jwa.PS256()
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return algorithm == jwa.ES256()
		case elliptic.P384():
			return algorithm == jwa.ES384()
		case elliptic.P521():
			return algorithm == jwa.ES512()
		}
	case ed25519.PublicKey:
		return algorithm == jwa.EdDSA()
	}
	return false
}

// isForUs reports whether the audience is this issuer and nobody else (SEC-054): a text, or
// a list in which every address is one of ours, as clients of the field send it.
func (d *Directory) isForUs(at endpoint.Site, jwt *token.JWT) bool {
	meant := false
	for _, one := range jwt.Claims.Texts("aud") {
		if one != at.Issuer && !strings.HasPrefix(one, at.Issuer+"/") {
			return false
		}
		meant = meant || one == at.Issuer || d.TokenEndpointAudience && one == at.Issuer+endpoint.PathToken
	}
	return meant
}
