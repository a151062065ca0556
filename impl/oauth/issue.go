package oauth

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/oauth"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/signing"
	"github.com/writ-id/writ/impl/token"
)

// How long tokens live.
const (
	accessLife  = 12 * time.Hour
	idLife      = 12 * time.Hour
	codeLife    = 60 * time.Second
	refreshIdle = 30 * 24 * time.Hour
	refreshLife = 90 * 24 * time.Hour
)

// issuance is what tokens are made of.
type issuance struct {
	access  *tokenv1.AccessToken
	scopes  *scopes
	state   *state
	client  *client // nil for a service user
	jwt     bool    // the form of the access token
	refresh string
	id      bool  // an ID token too
	idEnds  int64 // when the ID token ends at the latest; 0: as every other one
	nonce   string
}

// issue makes the answer of the token endpoint.
func (c *call) issue(i *issuance) (*oauth.TokenReply, error) {
	access, err := c.accessToken(i)
	if err != nil {
		return nil, err
	}
	res := &oauth.TokenReply{
		AccessToken: access, TokenType: oauth.TokenReplyTokenTypeBearer, ExpiresIn: i.access.GetExpiresAt() - c.now.Unix(),
		RefreshToken: i.refresh, Scope: strings.Join(i.scopes.list, " "),
	}
	if i.id {
		res.IdToken, err = c.idToken(i, access)
	}
	return res, err
}

// accessToken makes an access token, in the form the client is set to.
func (c *call) accessToken(i *issuance) (string, error) {
	t := i.access
	t.Scopes = i.scopes.list
	if !i.jwt {
		return c.Box.Seal(c.ctx(), c.instance.ID, token.Access, t)
	}
	keys, err := c.Keys.Get(c.ctx(), c.instance.ID)
	if err != nil {
		return "", err
	}
	o := newClaimSet()
	o.string("iss", c.issuer)
	o.string("sub", t.GetUserId())
	o.strings("aud", t.GetAudience())
	o.string("client_id", t.GetClientId())
	if t.GetAppId() != "" {
		o.string("azp", t.GetClientId())
	}
	skew := i.skew()
	o.number("exp", t.GetExpiresAt()+skew)
	o.number("iat", t.GetIssuedAt()-skew)
	o.number("nbf", t.GetIssuedAt()-skew)
	o.string("jti", t.GetId())
	o.string("scope", strings.Join(t.GetScopes(), " "))
	o.string("sid", t.GetSessionId())
	o.raw("act", t.GetActor())
	o.strings(claimOrigins, t.GetOrigins())
	if i.client != nil && i.client.AccessTokenRoleAssertion && i.state != nil {
		projects, only := roleProjects(i.scopes, i.client.ProjectID, i.client.assertRoles, t.GetAudience())
		i.state.appendRoles(o, i.scopes, i.client.ProjectID, projects, only)
	}
	kind := signing.AccessToken
	if i.client != nil && i.client.PlainJwtType {
		kind = signing.IDToken // which is of type JWT
	}
	return keys.Signer().Sign(kind, o.end())
}

// tokenParts is what has to be read for the tokens of a client.
func (c *client) tokenParts(sc *scopes, claims []string) part {
	var parts part
	if c.AccessTokenRoleAssertion || c.IDTokenRoleAssertion {
		parts |= withRoles
	}
	if c.IDTokenUserinfoAssertion {
		parts |= sc.parts()
	}
	if sc.has(scopeMetadata) {
		parts |= withMetadata
	}
	if len(claimsAt(claims, placeIDToken)) > 0 {
		parts |= withClaims
	}
	return parts
}

// skew is by how many seconds the times in tokens give way to the clock of the
// client.
func (i *issuance) skew() int64 {
	if i.client == nil {
		return 0
	}
	return i.client.skew()
}

func (c *client) skew() int64 {
	return int64(time.Duration(c.ClockSkewNanos).Round(time.Second).Seconds())
}

// idToken makes an ID token (OpenID Connect Core, section 2). It carries the claims of
// the scopes profile, email, phone and address only when no access token can fetch them,
// unless the client wants them here too (document 2, "Token responses").
func (c *call) idToken(i *issuance, access string) (string, error) {
	keys, err := c.Keys.Get(c.ctx(), c.instance.ID)
	if err != nil {
		return "", err
	}
	key, t, o, skew := keys.Signer(), i.access, newClaimSet(), i.skew()
	clientID := t.GetClientId()
	o.string("iss", c.issuer)
	o.string("sub", t.GetUserId())
	o.strings("aud", []string{clientID})
	o.string("azp", clientID)
	ends := c.now.Add(idLife).Unix()
	if i.idEnds != 0 {
		ends = min(ends, i.idEnds)
	}
	o.number("exp", ends+skew)
	o.number("iat", c.now.Unix()-skew)
	if t.GetAuthTime() != 0 {
		o.number("auth_time", t.GetAuthTime()-skew)
	}
	o.string("nonce", i.nonce)
	o.strings("amr", t.GetAmr())
	o.string("acr", acr(t.GetAmr()))
	o.string("sid", t.GetSessionId())
	if t.GetAppId() == "" { // so that it ends with the credentials of its service user
		o.string("jti", t.GetId())
	}
	if access != "" {
		o.string("at_hash", halfHash(key.Algorithm, access))
	}
	o.raw("act", t.GetActor())
	if i.client != nil {
		i.state.reader = i.client.OrgID
	}
	if access == "" || i.client != nil && i.client.IDTokenUserinfoAssertion {
		i.state.appendStandard(o, i.scopes)
	}
	for _, name := range claimsAt(t.GetClaims(), placeIDToken) {
		i.state.appendClaim(o, name)
	}
	i.state.appendPlatform(o, i.scopes)
	if i.client != nil && i.client.IDTokenRoleAssertion {
		projects, only := roleProjects(i.scopes, i.client.ProjectID, i.client.assertRoles, t.GetAudience())
		i.state.appendRoles(o, i.scopes, i.client.ProjectID, projects, only)
	}
	return key.Sign(signing.IDToken, o.end())
}

// Authentication context classes: how many factors proved who the user is.
const (
	acrOne  = "1"
	acrMany = "2"
)

func acr(amr []string) string {
	switch {
	case len(amr) == 0:
		return ""
	case slices.Contains(amr, "mfa"):
		return acrMany
	}
	return acrOne
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

// Where a claim was asked for by name (OpenID Connect Core, section 5.5).
const (
	placeUserinfo = "userinfo:"
	placeIDToken  = "id_token:"
)

// claimsAt returns the names that were asked for at a place.
func claimsAt(claims []string, place string) []string {
	var names []string
	for _, claim := range claims {
		if name, ok := strings.CutPrefix(claim, place); ok {
			names = append(names, name)
		}
	}
	return names
}
