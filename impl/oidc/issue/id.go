package issue

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"slices"

	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/function"
)

// ID makes an ID token (OpenID Connect Core, section 2). It carries the claims of
// the scopes profile, email, phone and address only when no access token can fetch them,
// unless the client wants them here too (document 2, "Token responses").
func (s *Issuer) ID(ctx context.Context, at endpoint.Site, i *Issuance, access string) (string, error) {
	keys, err := s.Keys.Get(ctx, at.ID)
	if err != nil {
		return "", err
	}
	key, t, o, skew := keys.Signer(i.algorithm()), i.Access, claims.NewSet(), i.skew()
	clientID := t.GetClientId()
	o.String("iss", at.Issuer)
	o.String("sub", t.GetUserId())
	o.Strings("aud", []string{clientID})
	if t.GetAppId() != "" { // so what has none is a service user's own
		o.String("azp", clientID)
	}
	o.Number("exp", i.idEnd(at)+skew)
	o.Number("iat", at.Now.Unix()-skew)
	if t.GetAuthTime() != 0 {
		o.Number("auth_time", t.GetAuthTime()-skew)
	}
	o.String("nonce", i.Nonce)
	o.Strings("amr", t.GetAmr())
	o.String("acr", ACR(t.GetAmr()))
	o.String("sid", t.GetSessionId())
	o.String("jti", t.GetId()) // what it came from, so that it proves nothing any more when that has ended
	o.Strings(claims.Origins, t.GetOrigins())
	if access != "" {
		o.String("at_hash", halfHash(key.Algorithm, access))
	}
	o.Raw("act", t.GetActor())
	reader := ""
	if i.Client != nil {
		reader = i.Client.OrgID
	}
	if access == "" || i.Client != nil && i.Client.IDTokenUserinfoAssertion {
		claims.Standard(o, i.Subject, i.Scopes, reader)
	}
	claims.Named(o, i.Subject, claims.At(t.GetClaims(), claims.AtIDToken), reader)
	claims.Platform(o, i.Subject, i.Scopes)
	if i.Client != nil && i.Client.IDTokenRoleAssertion {
		projects, only := claims.RoleProjects(i.Scopes, i.Client.ProjectID, i.Client.AssertRoles, t.GetAudience())
		claims.Roles(o, i.Subject, i.Scopes, i.Client.ProjectID, projects, only)
	}
	asked, err := s.Functions.Add(ctx, at, function.Userinfo, i.about(), o)
	i.Asked = i.Asked || asked
	if err != nil {
		return "", err
	}
	return key.Sign(signing.IDToken, o.End())
}

// idEnd is when the ID token ends.
func (i *Issuance) idEnd(at endpoint.Site) int64 {
	ends := at.Now.Add(i.Lives.ID).Unix()
	if i.IDEnds != 0 {
		ends = min(ends, i.IDEnds)
	}
	return ends
}

// IDLife is for how many seconds the ID token is good.
func (i *Issuance) IDLife(at endpoint.Site) int64 { return i.idEnd(at) - at.Now.Unix() }

// Authentication context classes (OpenID Connect Core, section 2): how many factors
// proved who the user is.
const (
	ACROne  = "1"
	ACRMany = "2"
)

// ACR returns the class of an authentication, by its methods (RFC 8176).
func ACR(amr []string) string {
	switch {
	case len(amr) == 0:
		return ""
	case slices.Contains(amr, "mfa"):
		return ACRMany
	}
	return ACROne
}

// halfHash is at_hash (OpenID Connect Core, section 3.2.2.9): the left
// half of the hash that the algorithm of the ID token uses; for Ed25519 SHA-512.
func halfHash(algorithm signing.Algorithm, value string) string {
	if algorithm == signing.EdDSA {
		sum := sha512.Sum512([]byte(value))
		return base64.RawURLEncoding.EncodeToString(sum[:32])
	}
	sum := sha256.Sum256([]byte(value))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
