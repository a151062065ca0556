package upstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"golang.org/x/oauth2"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/token"
)

// algorithms are those that an ID token may be signed with: none that needs a shared
// secret. Which of them a key can be used with is for its kind and curve to say.
var algorithms = []jwa.SignatureAlgorithm{
	jwa.RS256(), jwa.RS384(), jwa.RS512(), jwa.PS256(), jwa.PS384(), jwa.PS512(), jwa.ES256(), jwa.ES384(), jwa.ES512(), jwa.EdDSA(),
}

// clockSkew is by how much the clock of a provider may differ.
const clockSkew = time.Minute

// keys are those of a provider.
type keys struct{ all []jwk.Key }

// maxKeys bounds a key set.
const maxKeys = 100

// keySet returns the keys of a provider.
func (c *Client) keySet(ctx context.Context, p *Provider, at *metadata, anew bool) (*keys, error) {
	return c.keys.get(ctx, p.pool()+" "+at.KeysURI, anew, func(ctx context.Context) (*keys, error) {
		var set struct {
			Keys []json.RawMessage `json:"keys"`
		}
		if err := c.document(ctx, p, at.KeysURI, &set); err != nil {
			return nil, err
		}
		if len(set.Keys) > maxKeys {
			return nil, problem(Invalid, "the key set has more than %d keys", maxKeys)
		}
		read := &keys{}
		for _, one := range set.Keys {
			// One of a kind that nobody here knows is no reason to refuse the others.
			if key, err := jwk.ParseKey(one); err == nil && signs(key) {
				read.all = append(read.all, key)
			}
		}
		return read, nil
	})
}

// signs reports whether a key is a public one for signatures.
func signs(key jwk.Key) bool {
	use, said := key.KeyUsage()
	private, err := jwk.IsPrivateKey(key)
	return err == nil && !private && (!said || use == "sig")
}

// of returns the keys that can have signed a token with an algorithm. Without an ID there
// has to be no doubt which one did.
func (k *keys) of(id string, algorithm jwa.SignatureAlgorithm) (fit []any) {
	for _, key := range k.all {
		kid, _ := key.KeyID()
		if only, said := key.Algorithm(); id != "" && kid != id || said && only.String() != algorithm.String() {
			continue
		}
		var public any
		if jwk.Export(key, &public) != nil {
			continue
		}
		if fits(algorithm, public) {
			fit = append(fit, public)
		}
	}
	if id == "" && len(fit) != 1 {
		return nil
	}
	return fit
}

// fits reports whether a key can be used with an algorithm: by its kind and its curve (RFC
// 7518, RFC 8037; RFC 8725, section 3.1).
func fits(algorithm jwa.SignatureAlgorithm, public any) bool {
	switch key := public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm.String(), "RS") || strings.HasPrefix(algorithm.String(), "PS")
	case *ecdsa.PublicKey:
		curve := map[elliptic.Curve]jwa.SignatureAlgorithm{elliptic.P256(): jwa.ES256(), elliptic.P384(): jwa.ES384(), elliptic.P521(): jwa.ES512()}
		return curve[key.Curve] == algorithm
	case ed25519.PublicKey:
		return algorithm == jwa.EdDSA()
	}
	return false
}

// verify returns the claims of an ID token once everything about it is right (OpenID
// Connect Core, section 3.1.3.7; SEC-074, SEC-204). What is missing is wrong.
func (c *Client) verify(ctx context.Context, p *Provider, at *metadata, pending *tokenv1.Upstream, text string) (token.Claims, error) {
	parsed, err := token.ParseJWT(text)
	if err != nil {
		return nil, problem(Invalid, "the ID token is none")
	}
	i := slices.IndexFunc(algorithms, func(one jwa.SignatureAlgorithm) bool { return one.String() == string(parsed.Algorithm) })
	if i < 0 {
		return nil, problem(Invalid, "the ID token is signed with an algorithm that is not accepted")
	}
	set, err := c.keySet(ctx, p, at, false)
	if err != nil {
		return nil, err
	}
	fit := set.of(parsed.KeyID, algorithms[i])
	if len(fit) == 0 { // the provider may have another key by now
		if set, err = c.keySet(ctx, p, at, true); err != nil {
			return nil, err
		}
		fit = set.of(parsed.KeyID, algorithms[i])
	}
	if !slices.ContainsFunc(fit, func(key any) bool {
		_, err := jws.Verify([]byte(text), jws.WithKey(algorithms[i], key))
		return err == nil
	}) {
		return nil, problem(Invalid, "the ID token is signed by no key of the provider")
	}
	return parsed.Claims, c.judge(p, at, pending, parsed.Claims)
}

// judge says what is wrong with the claims of an ID token.
func (c *Client) judge(p *Provider, at *metadata, pending *tokenv1.Upstream, claims token.Claims) error {
	issuer, _ := claims.Text("iss")
	same := issuer == at.Issuer
	if of := p.dialect(); of.isIssuer != nil {
		tenant, _ := claims.Text("tid")
		same = tenant != "" && of.isIssuer(p, issuer, tenant) && (same || at.Issuer == azure+tenantID+azureSuffix)
	}
	audience := claims.Texts("aud")
	party, named := claims.Text("azp")
	nonce, _ := claims.Text("nonce")
	now := c.now()
	ends, hasEnd := claims.Time("exp")
	issued, hasIssued := claims.Time("iat")
	begins, hasBegin := claims.Time("nbf")
	switch {
	case !same:
		return problem(Invalid, "the ID token is of another issuer")
	case !slices.Contains(audience, p.ClientID):
		return problem(Invalid, "the ID token is for another client")
	case claims.Has("azp") && (!named || party != p.ClientID), len(audience) > 1 && !named:
		return problem(Invalid, "the ID token was issued to another client")
	case !hasEnd || !now.Before(ends.Add(clockSkew)):
		return problem(Invalid, "the ID token has ended, or never does")
	case !hasIssued || issued.After(now.Add(clockSkew)) || issued.Before(time.Unix(pending.GetStartedAt(), 0).Add(-clockSkew)):
		return problem(Invalid, "the ID token was not issued for this attempt")
	case claims.Has("nbf") && (!hasBegin || begins.After(now.Add(clockSkew))):
		return problem(Invalid, "the ID token has not begun")
	case pending.GetNonce() == "" || nonce != pending.GetNonce():
		return problem(Invalid, "the ID token has another nonce")
	}
	if _, ok := claims.Text("sub"); !ok {
		return problem(Invalid, "the ID token has no subject")
	}
	return nil
}

// byIDToken identifies the user by the ID token, and by what the userinfo endpoint adds.
func byIDToken(ctx context.Context, c *Client, p *Provider, at *metadata, pending *tokenv1.Upstream, tokens *oauth2.Token, params url.Values) (*Identity, error) {
	text, _ := tokens.Extra("id_token").(string)
	claims, err := c.verify(ctx, p, at, pending, text)
	if err != nil {
		return nil, err
	}
	of := p.dialect()
	said := claims
	if at.UserinfoEndpoint != "" && !of.onlyIDToken && !p.IDTokenMapping {
		more := token.Claims{}
		if err := c.ask(ctx, p, at.UserinfoEndpoint, tokens, &more); err != nil {
			return nil, err
		}
		subject, _ := claims.Text("sub")
		if also, _ := more.Text("sub"); also != subject { // OpenID Connect Core, section 5.3.2
			return nil, problem(Invalid, "the userinfo endpoint tells of another user")
		}
		said = more
		for name, value := range claims {
			if !said.Has(name) {
				said[name] = value
			}
		}
	}
	who := read(p, said)
	who.Subject, _ = claims.Text("sub")
	who.AuthTime, _ = claims.Time("auth_time")
	if of.mend != nil {
		of.mend(p, claims, params, who)
	}
	return who, nil
}
