package oauth

import (
	"errors"
	"slices"
	"strings"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/signing"
	"github.com/writ-id/writ/impl/store"
	"github.com/writ-id/writ/impl/token"

	"github.com/writ-id/writ/gen/db"
)

// readAccess returns what an access token says, opaque or JWT, when it was issued
// here and is of now; nil for everything else. Whether what it is about is still
// good is another question (state).
func (c *call) readAccess(text string) (*tokenv1.AccessToken, error) {
	t := &tokenv1.AccessToken{}
	var err error
	switch {
	case strings.HasPrefix(text, string(token.Access)):
		err = c.Box.Open(c.ctx(), c.instance.ID, token.Access, text, t)
	case strings.HasPrefix(text, "eyJ"):
		t, err = c.readJWT(text)
	default:
		return nil, nil
	}
	if errors.Is(err, token.ErrInvalid) {
		return nil, nil
	}
	if err != nil || c.now.Unix() >= t.GetExpiresAt() {
		return nil, err
	}
	return t, nil
}

// readJWT reads an access token in the form JWT (RFC 9068): every claim it needs has
// to be there (SEC-074).
func (c *call) readJWT(text string) (*tokenv1.AccessToken, error) {
	jwt, err := token.ParseJWT(text)
	if err != nil {
		return nil, err
	}
	keys, err := c.Keys.Get(c.ctx(), c.instance.ID)
	if err != nil {
		return nil, err
	}
	// Of a client that wants it so they are of type JWT, as ID tokens are, which have
	// neither jti and client_id at once.
	if !jwt.IsType(signing.AccessToken) && !jwt.IsType(signing.IDToken) || !jwt.VerifiedBy(keys) {
		return nil, token.ErrInvalid
	}
	issuer, _ := jwt.Claims.Text("iss")
	id, hasID := jwt.Claims.Text("jti")
	subject, hasSubject := jwt.Claims.Text("sub")
	clientID, hasClient := jwt.Claims.Text("client_id")
	begins, hasBegin := jwt.Claims.Time("iat")
	ends, hasEnd := jwt.Claims.Time("exp")
	notBefore, hasNotBefore := jwt.Claims.Time("nbf")
	audience := jwt.Claims.Texts("aud")
	if issuer != c.issuer || !hasID || !hasSubject || !hasClient || !hasBegin || !hasEnd || len(audience) == 0 || hasNotBefore && notBefore.After(c.now.Add(clockSkew)) {
		return nil, token.ErrInvalid
	}
	t := &tokenv1.AccessToken{
		Id: id, UserId: subject, ClientId: clientID, Audience: audience, IssuedAt: begins.Unix(), ExpiresAt: ends.Unix(), Actor: jwt.Claims["act"],
	}
	t.GrantId, _, _ = source(id)
	t.Origins = jwt.Claims.Texts(claimOrigins)
	scope, _ := jwt.Claims.Text("scope")
	t.Scopes = spaceless(scope)
	t.SessionId, _ = jwt.Claims.Text("sid")
	if _, ok := jwt.Claims.Text("azp"); !ok {
		return t, nil
	}
	known, err := c.client(clientID)
	if err != nil {
		return nil, err
	}
	if known == nil {
		return nil, token.ErrInvalid
	}
	t.AppId = known.ID
	// The token gave way to the client's clock; that is no longer life.
	t.IssuedAt, t.ExpiresAt = t.GetIssuedAt()+known.skew(), t.GetExpiresAt()-known.skew()
	return t, nil
}

// patToken returns a personal access token as an access token: it has no audience of its
// own. It is for a client that knows its user, and asks for every role of the client's
// project; without a client, at userinfo, it is its user's. nil when it is not good.
func (c *call) patToken(text string, of *client) (*tokenv1.AccessToken, error) {
	if !strings.HasPrefix(text, policy.TokenPrefix) {
		return nil, nil
	}
	p := db.TokenOwnerParams{InstanceID: c.instance.ID, Now: c.now}
	if of != nil {
		p.OrgID, p.ProjectID = of.OrgID, of.ProjectID
	}
	hash := policy.HashToken(text)
	p.TokenHash = hash[:]
	row, err := c.queries.TokenOwner(c.ctx(), c.DB.Pool, p)
	if store.NoRow(err) || err == nil && of != nil && !row.IsKnown {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &tokenv1.AccessToken{
		Id: row.ID, UserId: row.UserID, ClientId: row.Username, IssuedAt: row.CreationDate.Unix(), Scopes: []string{scopeOpenID, scopeProfile, scopeOwner},
	}
	if of != nil {
		t.Audience = []string{of.ClientID, of.ProjectID}
		for _, role := range of.roles {
			t.Scopes = append(t.Scopes, scopeRole+role)
		}
	}
	if row.ExpirationDate != nil {
		t.ExpiresAt = row.ExpirationDate.Unix()
	}
	return t, nil
}

// audienceHas reports whether a token is for a client: for it, or for its project.
func audienceHas(t *tokenv1.AccessToken, of *client) bool {
	return slices.Contains(t.GetAudience(), of.ClientID) || slices.Contains(t.GetAudience(), of.ProjectID)
}

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
