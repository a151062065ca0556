package token

import (
	"context"
	"strings"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

const noServiceScope = "none of the scopes is known, and one that a service user can have"

var errNotOfOrg = endpoint.InvalidScope("the user does not belong to the organization")

// serviceGrant issues a token to a service user that shows its secret (RFC 6749, section
// 4.4) or signs an assertion (RFC 7523, section 2.1). Nothing is stored of it but the
// audit event, which goes with those of others in one commit; that it is still good
// is asked where it is used.
type serviceGrant struct {
	*Endpoint
	id bool // an ID token comes with the scope openid
}

func (g *serviceGrant) present(_ context.Context, x *request) (err error) {
	if len(strings.Fields(x.form.Scope)) == 0 {
		return endpoint.InvalidRequest("scope is missing")
	}
	if x.Scopes, err = scope.Read(x.form.Scope); err == nil {
		x.Scopes = x.Scopes.Online()
	}
	return err
}

// about reads the user only where something is told of them, or asked.
func (g *serviceGrant) about(ctx context.Context, x *request) (err error) {
	x.ID = g.id && x.Scopes.Has(scope.OpenID)
	if !x.ID && x.Scopes.OrgDomain == "" {
		return nil
	}
	x.Subject, err = g.Subjects.Read(ctx, x.at, subject.About{User: x.service.UserID, Metadata: x.Scopes.Has(scope.Metadata)})
	if err == nil && x.Subject == nil {
		err = endpoint.InvalidGrant("the user is not active")
	}
	return err
}

// audienceUser begins the audience that every token of a service user has: no ID of
// a client or project does, so nobody can name a user like somebody's API.
const audienceUser = scope.URN + "user:id:"

// isUser reports whether an audience is that of a service user.
func isUser(one string) bool { return strings.HasPrefix(one, audienceUser) }

func (g *serviceGrant) draft(_ context.Context, x *request) error {
	x.Access = g.Issuer.Begin(x.at, x.Lives, "", x.service.UserID, x.service.Generation)
	x.Access.ClientId, x.Access.Audience = x.service.Username, x.Scopes.Audience(audienceUser+x.service.UserID)
	if x.Subject != nil {
		x.Access.AuthTime = x.at.Now.Unix()
	}
	x.JWT = x.service.JWT
	return nil
}

func (g *serviceGrant) write(ctx context.Context, x *request) error {
	return g.Ledger.Audit(ctx, x.at, x.service.OrgID, x.Access.GetId(), x.service.UserID, &eventv1.OIDCSessionAccessTokenAdded{
		UserId: x.service.UserID, ClientId: x.service.Username, GrantType: x.kind.name, Scopes: x.Scopes.List,
	})
}
