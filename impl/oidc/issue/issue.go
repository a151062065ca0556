// Package issue makes what the provider hands out: codes, access tokens, refresh tokens
// and ID tokens.
package issue

import (
	"context"
	"errors"
	"time"

	"github.com/writ-id/writ/gen/oauth"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/function"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// CodeLife is how long codes live.
const CodeLife = 60 * time.Second

// Issuer makes tokens. It is safe for concurrent use; every field is required.
type Issuer struct {
	Box       *token.Box
	Keys      Keys
	NewID     func() string
	Functions *function.Functions
}

// Keys are what tokens of an instance are signed with: a signing.Set is.
type Keys interface {
	Get(ctx context.Context, instanceID string) (*signing.Published, error)
}

// Issuance is what tokens are made of.
type Issuance struct {
	Access  *tokenv1.AccessToken
	Scopes  *scope.Set
	Subject *subject.Subject // nil where nothing is told of the user
	Client  *client.Client   // nil for a service user
	JWT     bool             // the form of the access token
	Lives   lifetime.Lives   // how long the tokens are good
	Refresh string
	ID      bool  // an ID token too
	IDEnds  int64 // when the ID token ends at the latest; 0: as every other one
	Nonce   string
	// Asked is set when targets of functions were asked, which took its time: what the
	// tokens came from may have ended meanwhile.
	Asked bool
}

// about is whom the tokens are about.
func (i *Issuance) about() function.About {
	return function.About{UserID: i.Access.GetUserId(), Subject: i.Subject, Client: i.Client, Actor: i.Access.GetActor()}
}

// algorithm is what the client asks that tokens are signed with.
func (i *Issuance) algorithm() signing.Algorithm {
	if i.Client == nil {
		return ""
	}
	return signing.Asked(i.Client.IDTokenSignedResponseAlg)
}

// skew is by how many seconds the tokens give way to the clock of the client.
func (i *Issuance) skew() int64 {
	if i.Client == nil {
		return 0
	}
	return i.Client.Skew()
}

// Begin returns an access token that begins now, of a grant or, without one, of a
// user in a generation.
func (s *Issuer) Begin(at endpoint.Site, lives lifetime.Lives, grantID, userID string, generation int32) *tokenv1.AccessToken {
	return &tokenv1.AccessToken{
		Id: subject.TokenID(grantID, userID, generation, s.NewID()), GrantId: grantID, UserId: userID,
		IssuedAt: at.Now.Unix(), ExpiresAt: at.Now.Add(lives.Access).Unix(),
	}
}

// Roles returns which of projects have roles that the tokens of a client tell.
func Roles(c *client.Client, projects []string) []string {
	if c.AccessTokenRoleAssertion || c.IDTokenRoleAssertion {
		return projects
	}
	return nil
}

// Reply makes the answer of the token endpoint (RFC 6749, section 5.1).
func (s *Issuer) Reply(ctx context.Context, at endpoint.Site, i *Issuance) (*oauth.TokenReply, error) {
	access, err := s.Access(ctx, at, i)
	if err != nil {
		return nil, err
	}
	res := &oauth.TokenReply{
		AccessToken: access, TokenType: oauth.TokenReplyTokenTypeBearer, ExpiresIn: i.Access.GetExpiresAt() - at.Now.Unix(),
		RefreshToken: i.Refresh, Scope: i.Scopes.String(),
	}
	if i.ID {
		res.IdToken, err = s.ID(ctx, at, i, access)
	}
	return res, err
}

// Access makes an access token, in the form the client is set to (RFC 9068).
func (s *Issuer) Access(ctx context.Context, at endpoint.Site, i *Issuance) (string, error) {
	t := i.Access
	t.Scopes = i.Scopes.List
	if !i.JWT {
		return s.Box.Seal(ctx, at.ID, token.Access, t)
	}
	keys, err := s.Keys.Get(ctx, at.ID)
	if err != nil {
		return "", err
	}
	o := claims.NewSet()
	o.String("iss", at.Issuer)
	o.String("sub", t.GetUserId())
	o.Strings("aud", t.GetAudience())
	o.String("client_id", t.GetClientId())
	if t.GetAppId() != "" {
		o.String("azp", t.GetClientId())
	}
	skew := i.skew()
	o.Number("exp", t.GetExpiresAt()+skew)
	o.Number("iat", t.GetIssuedAt()-skew)
	o.Number("nbf", t.GetIssuedAt()-skew)
	o.String("jti", t.GetId())
	o.String("scope", i.Scopes.String())
	o.String("sid", t.GetSessionId())
	o.Raw("act", t.GetActor())
	o.Strings(claims.Origins, t.GetOrigins())
	if i.Client != nil && i.Client.AccessTokenRoleAssertion && i.Subject != nil {
		projects, only := claims.RoleProjects(i.Scopes, i.Client.ProjectID, i.Client.AssertRoles, t.GetAudience())
		claims.Roles(o, i.Subject, i.Scopes, i.Client.ProjectID, projects, only)
	}
	asked, err := s.Functions.Add(ctx, at, function.AccessToken, i.about(), o)
	i.Asked = i.Asked || asked
	if err != nil {
		return "", err
	}
	kind := signing.AccessToken
	if i.Client != nil && i.Client.PlainJwtType {
		kind = signing.IDToken // which is of type JWT
	}
	return keys.Signer(i.algorithm()).Sign(kind, o.End())
}

// Refresh makes the refresh token of a generation. The access tokens it is
// exchanged for are JWTs if that is asked for, or what the client is set to.
func (s *Issuer) Refresh(ctx context.Context, at endpoint.Site, t *tokenv1.AccessToken, generation int32, jwt bool) (string, error) {
	return s.Box.Seal(ctx, at.ID, token.Refresh, &tokenv1.RefreshToken{
		GrantId: t.GetGrantId(), Generation: generation, ClientId: t.GetClientId(), UserId: t.GetUserId(), Jwt: jwt,
	})
}

// OpenRefresh reads a refresh token; nil when it is none.
func (s *Issuer) OpenRefresh(ctx context.Context, at endpoint.Site, text string) (*tokenv1.RefreshToken, error) {
	t := &tokenv1.RefreshToken{}
	err := s.Box.Open(ctx, at.ID, token.Refresh, text, t)
	if errors.Is(err, token.ErrInvalid) {
		return nil, nil
	}
	return t, err
}

// Code makes an authorization code. It is sealed, holds all that it was issued for
// (SEC-008) and is stored nowhere.
func (s *Issuer) Code(ctx context.Context, at endpoint.Site, code *tokenv1.Code) (string, error) {
	code.Id, code.ExpiresAt = s.NewID(), at.Now.Add(CodeLife).Unix()
	return s.Box.Seal(ctx, at.ID, token.Code, code)
}

// OpenCode reads a code; nil when it is none.
func (s *Issuer) OpenCode(ctx context.Context, at endpoint.Site, text string) (*tokenv1.Code, error) {
	code := &tokenv1.Code{}
	err := s.Box.Open(ctx, at.ID, token.Code, text, code)
	if errors.Is(err, token.ErrInvalid) {
		return nil, nil
	}
	return code, err
}

// KnownCode is OpenCode without the database: nil too when the key is not known here.
func (s *Issuer) KnownCode(at endpoint.Site, text string) *tokenv1.Code {
	code := &tokenv1.Code{}
	if s.Box.OpenKnown(at.ID, token.Code, text, code) != nil {
		return nil
	}
	return code
}

// KnownRefresh is OpenRefresh without the database.
func (s *Issuer) KnownRefresh(at endpoint.Site, text string) *tokenv1.RefreshToken {
	t := &tokenv1.RefreshToken{}
	if s.Box.OpenKnown(at.ID, token.Refresh, text, t) != nil {
		return nil
	}
	return t
}

// IsRefresh reports whether a text reads like a refresh token.
func IsRefresh(text string) bool { return token.Refresh.Begins(text) }
