// Package access reads what clients show of what was issued here: access tokens,
// personal access tokens and ID token hints. Whether what they are about is still good
// is another question (package subject).
package access

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// Reader reads tokens. It is safe for concurrent use; every field is required.
type Reader struct {
	DB      *store.DB
	Box     *token.Box
	Keys    *signing.Set
	Clients *client.Directory
}

// Read returns what an access token says, opaque or JWT, when it was issued
// here and is of now; nil for everything else.
func (s *Reader) Read(ctx context.Context, at endpoint.Site, text string) (*tokenv1.AccessToken, error) {
	t := &tokenv1.AccessToken{}
	var err error
	switch {
	case token.Access.Begins(text):
		err = s.Box.Open(ctx, at.ID, token.Access, text, t)
	case strings.HasPrefix(text, "eyJ"):
		t, err = s.readJWT(ctx, at, text)
	default:
		return nil, nil
	}
	if errors.Is(err, token.ErrInvalid) {
		return nil, nil
	}
	if err != nil || at.Now.Unix() >= t.GetExpiresAt() {
		return nil, err
	}
	return t, nil
}

// readJWT reads an access token in the form JWT (RFC 9068): every claim it needs has
// to be there (SEC-074).
func (s *Reader) readJWT(ctx context.Context, at endpoint.Site, text string) (*tokenv1.AccessToken, error) {
	jwt, err := token.ParseJWT(text)
	if err != nil {
		return nil, err
	}
	keys, err := s.Keys.Get(ctx, at.ID)
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
	user, hasUser := jwt.Claims.Text("sub")
	clientID, hasClient := jwt.Claims.Text("client_id")
	begins, hasBegin := jwt.Claims.Time("iat")
	ends, hasEnd := jwt.Claims.Time("exp")
	notBefore, hasNotBefore := jwt.Claims.Time("nbf")
	audience := jwt.Claims.Texts("aud")
	if issuer != at.Issuer || !hasID || !hasUser || !hasClient || !hasBegin || !hasEnd || len(audience) == 0 || hasNotBefore && notBefore.After(at.Now.Add(client.ClockSkew)) {
		return nil, token.ErrInvalid
	}
	t := &tokenv1.AccessToken{
		Id: id, UserId: user, ClientId: clientID, Audience: audience, IssuedAt: begins.Unix(), ExpiresAt: ends.Unix(), Actor: jwt.Claims["act"],
	}
	grantID, _, generation := subject.Source(id)
	if grantID == "" && generation == nil { // nothing would end it
		return nil, token.ErrInvalid
	}
	t.GrantId = grantID
	t.Origins = jwt.Claims.Texts(claims.Origins)
	scopes, _ := jwt.Claims.Text("scope")
	t.Scopes = strings.Fields(scopes)
	t.SessionId, _ = jwt.Claims.Text("sid")
	if _, ok := jwt.Claims.Text("azp"); !ok {
		return t, nil
	}
	known, err := s.Clients.Find(ctx, at.ID, clientID)
	if err != nil {
		return nil, err
	}
	if known == nil {
		return nil, token.ErrInvalid
	}
	t.AppId = known.ID
	// The token gave way to the client's clock; that is no longer life.
	t.IssuedAt, t.ExpiresAt = t.GetIssuedAt()+known.Skew(), t.GetExpiresAt()-known.Skew()
	return t, nil
}

// ReadPersonal returns a personal access token as an access token: it has no audience of
// its own. It is for a client that knows its user, and asks for every role of the client's
// project; without a client, at userinfo, it is its user's. nil when it is not good.
func (s *Reader) ReadPersonal(ctx context.Context, at endpoint.Site, text string, of *client.Client) (*tokenv1.AccessToken, error) {
	if !strings.HasPrefix(text, policy.TokenPrefix) {
		return nil, nil
	}
	hash := secret.HashToken(text)
	p := db.TokenOwnerParams{InstanceID: at.ID, TokenHash: hash[:], Now: at.Now}
	if of != nil {
		p.OrgID, p.ProjectID = of.OrgID, of.ProjectID
	}
	row, err := db.New().TokenOwner(ctx, s.DB.Pool, p)
	if store.NoRow(err) || err == nil && of != nil && !row.IsKnown {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &tokenv1.AccessToken{
		Id: row.ID, UserId: row.UserID, ClientId: row.Username, IssuedAt: row.CreationDate.Unix(), Scopes: []string{scope.OpenID, scope.Profile, scope.Owner},
	}
	if of != nil {
		t.Audience = []string{of.ClientID, of.ProjectID}
		for _, role := range of.Roles {
			t.Scopes = append(t.Scopes, scope.Role+role)
		}
	}
	if row.ExpirationDate != nil {
		t.ExpiresAt = row.ExpirationDate.Unix()
	}
	return t, nil
}

// IsFor reports whether a token is for a client: for it, or for its project.
func IsFor(t *tokenv1.AccessToken, of *client.Client) bool {
	return slices.Contains(t.GetAudience(), of.ClientID) || slices.Contains(t.GetAudience(), of.ProjectID)
}
