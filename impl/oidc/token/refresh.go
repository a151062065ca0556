package token

import (
	"context"
	"slices"
	"strings"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

var errRefresh = endpoint.InvalidGrant("the refresh token is not good: unknown, expired, revoked, used before, or issued to another client")

// refreshGrant exchanges a refresh token (RFC 6749, section 6). It is good once: a token
// that is used again ends all that came from its code (RFC 9700, section 4.14.2).
type refreshGrant struct {
	*Endpoint
	old *tokenv1.RefreshToken
	was *subject.Grant
}

// present opens the refresh token and reads its grant.
func (g *refreshGrant) present(ctx context.Context, x *request) (err error) {
	if x.form.RefreshToken == "" {
		return endpoint.InvalidRequest("refresh_token is missing")
	}
	if g.old, err = g.Issuer.OpenRefresh(ctx, x.at, x.form.RefreshToken); err != nil {
		return err
	}
	if g.old == nil || g.old.GetClientId() != x.client.ClientID {
		return errRefresh
	}
	x.Subject, g.was, err = g.Subjects.ReadGrant(ctx, x.at, g.old.GetUserId(), g.old.GetGrantId(), x.client.AccessTokenRoleAssertion || x.client.IDTokenRoleAssertion)
	if err != nil {
		return err
	}
	switch {
	case x.Subject == nil || g.was.AppID != x.client.ID || !x.at.Now.Before(g.was.IdleDate) || !x.at.Now.Before(g.was.ExpirationDate):
		return errRefresh
	case g.was.Generation != g.old.GetGeneration():
		return endpoint.OrElse(g.Ledger.RevokeFamily(ctx, x.at, g.old.GetGrantId(), "reuse"), errRefresh)
	}
	if ended, err := g.Subjects.Ended(ctx, x.at.ID, g.was.Origins); err != nil || ended {
		return endpoint.OrElse(err, errRefresh)
	}
	x.Scopes, err = narrowed(g.was.Scopes, x.form.Scope)
	return err
}

// narrowed returns the scopes that a refresh asks for, of those that were granted
// (SEC-094).
func narrowed(granted []string, asked string) (*scope.Set, error) {
	list := strings.Fields(asked)
	if len(list) == 0 {
		return scope.Of(granted), nil
	}
	sc, err := scope.Read(asked)
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if !slices.Contains(granted, one) {
			return nil, endpoint.InvalidScope("scope goes beyond what was granted")
		}
	}
	return sc, nil
}

// about has nothing to read: the grant came with its user.
func (g *refreshGrant) about(context.Context, *request) error { return nil }

func (g *refreshGrant) draft(ctx context.Context, x *request) error {
	was := g.was
	audience, err := g.current(ctx, x, x.client, was.UserID, was.Audience, was.Origins)
	if err != nil {
		return err
	}
	if len(audience) == 0 { // nobody is left whom it could be for
		return errRefresh
	}
	t := g.Issuer.Begin(x.at, x.Lives, g.old.GetGrantId(), was.UserID, 0)
	t.SessionId, t.ClientId, t.AppId, t.Origins = was.LiveSessionID, x.client.ClientID, x.client.ID, was.Origins
	t.Audience, t.AuthTime, t.Amr, t.Claims, t.Actor = audience, was.AuthTime.Unix(), was.Amr, was.Claims, was.Actor
	t.ExpiresAt = min(t.ExpiresAt, was.ExpirationDate.Unix())
	x.Access, x.JWT, x.ID = t, g.old.GetJwt() || x.client.HasJWT(), x.Scopes.Has(scope.OpenID)
	x.fixed, x.generation = g.old.GetJwt(), g.old.GetGeneration()
	return nil
}

// write raises the generation of the grant. Whose token is of another one by now uses it
// for the second time, and ends the family.
func (g *refreshGrant) write(ctx context.Context, x *request) error {
	won, err := g.Ledger.Rotate(ctx, x.at, g.old.GetGrantId(), g.old.GetGeneration(), x.Lives.RefreshIdle)
	if err == nil && !won {
		err = endpoint.OrElse(g.Ledger.RevokeFamily(ctx, x.at, g.old.GetGrantId(), "reuse"), errRefresh)
	}
	return err
}
