package token

import (
	"context"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/oidc/access"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// party is a subject or an actor of an exchange.
type party struct {
	*tokenv1.AccessToken
	scoped   bool             // its token has scopes
	personal bool             // it is a personal access token, which was looked up already
	found    *subject.Subject // its user, as they are now
}

// party reads a token of a type, which is good still.
func (g *exchangeGrant) party(ctx context.Context, x *request, text, kind, field string) (*party, error) {
	bad := endpoint.InvalidRequest("%s is not a good token of its type", field)
	p, err := g.readParty(ctx, x, text, kind, field)
	if err != nil || p == nil {
		return nil, endpoint.OrElse(err, bad)
	}
	if p.found, err = g.alive(ctx, x, p); err != nil || p.found == nil {
		return nil, endpoint.OrElse(err, bad)
	}
	// A service user by its own ID token is an actor anywhere, a subject for the clients of
	// its organization.
	if kind == typeIDToken && p.GetAppId() == "" {
		human := userv3.UserType(p.found.UserType) == userv3.UserType_USER_TYPE_HUMAN
		if human || field == "subject_token" && p.found.OrgID != x.client.OrgID {
			return nil, bad
		}
	}
	return p, nil
}

// readParty reads a token of a type; nil when it is none.
func (g *exchangeGrant) readParty(ctx context.Context, x *request, text, kind, field string) (*party, error) {
	switch kind {
	case typeAccessToken:
		return g.accessParty(ctx, x, text, field)
	case typeIDToken:
		return g.idParty(ctx, x, text)
	case typeJWT: // about a user, and signed by the client itself
		userID, err := g.Clients.SubjectOf(ctx, x.at, text, x.client)
		if err != nil || userID == "" {
			return nil, err
		}
		return &party{AccessToken: &tokenv1.AccessToken{UserId: userID}}, nil
	case typeUserID:
		if len(text) > maxUserID {
			return nil, nil
		}
		return &party{AccessToken: &tokenv1.AccessToken{UserId: text}}, nil
	}
	return nil, endpoint.InvalidRequest("%s_type is not supported", field)
}

const maxUserID = 200

func (g *exchangeGrant) accessParty(ctx context.Context, x *request, text, field string) (*party, error) {
	t, err := g.Tokens.Read(ctx, x.at, text)
	personal := err == nil && t == nil
	if personal {
		t, err = g.Tokens.ReadPersonal(ctx, x.at, text, x.client)
	}
	if err != nil || t == nil || field == "subject_token" && !access.IsFor(t, x.client) {
		return nil, err
	}
	return &party{AccessToken: t, scoped: true, personal: personal}, nil
}

// idParty reads an ID token that was issued to the client, or to another one of its
// project, or that a service user got for itself (the JWT profile grant). It has to name what
// it came from, which may have ended although the token has not expired.
func (g *exchangeGrant) idParty(ctx context.Context, x *request, text string) (*party, error) {
	found, err := g.Tokens.ReadHint(ctx, x.at, text)
	if err != nil || found == nil {
		return nil, err
	}
	grantID, userID, generation := subject.Source(found.ID)
	if grantID == "" && generation == nil {
		return nil, nil
	}
	p := &party{AccessToken: &tokenv1.AccessToken{
		Id: found.ID, GrantId: grantID, UserId: found.UserID, SessionId: found.SessionID, Origins: found.Origins,
		ExpiresAt: found.Ends.Unix(), AuthTime: found.AuthTime, Amr: found.AMR, Actor: found.Actor,
	}}
	var of *client.Client
	if found.ClientID != "" {
		if of, err = g.Clients.Find(ctx, x.at.ID, found.ClientID); err != nil {
			return nil, err
		}
	}
	// The release before wrote the name of a service user for that of an application.
	own := found.ClientID == "" || of == nil && userID == found.UserID && len(found.Origins) == 0
	switch {
	case own:
		p.Audience = []string{x.client.ClientID, x.client.ProjectID}
	case of == nil || of.ProjectID != x.client.ProjectID:
		return nil, nil
	default:
		p.ClientId, p.AppId, p.Audience = of.ClientID, of.ID, []string{of.ClientID, of.ProjectID}
		p.ExpiresAt -= of.Skew()
	}
	if x.at.Now.Unix() >= p.GetExpiresAt() {
		return nil, nil
	}
	return p, nil
}

// alive reads the user of a token; nil when it is about something that has ended
// (SEC-101).
func (g *exchangeGrant) alive(ctx context.Context, x *request, p *party) (*subject.Subject, error) {
	a := subject.AboutToken(p.AccessToken)
	a.Projects, a.Metadata = issue.Roles(x.client, []string{x.client.ProjectID}), x.Scopes.Has(scope.Metadata)
	if p.personal {
		a.Token = ""
	}
	return g.Subjects.OfToken(ctx, x.at, p.AccessToken, a)
}
