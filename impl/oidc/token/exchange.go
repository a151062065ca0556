package token

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// The types of tokens in an exchange (document 2, "Token exchange type matrix").
const (
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
	typeUserID      = "urn:service:params:oauth:token-type:user_id"
)

// impersonationLife is how long a token in the name of somebody else lives at most.
const impersonationLife = 3600

// exchangeGrant issues a token for another one (RFC 8693; document 2, "Token exchange").
// The new token is about the subject and never for more than subject and actor have
// (SEC-102); with an actor who is somebody else it is impersonation or delegation.
type exchangeGrant struct {
	*Endpoint
	subject, actor *party
}

// present reads what is exchanged, by the type matrix, and refuses who may not.
func (g *exchangeGrant) present(ctx context.Context, x *request) error {
	if err := g.read(ctx, x); err != nil {
		return err
	}
	if err := g.impersonate(ctx, x); err != nil {
		return err
	}
	held := g.subject.GetScopes()
	if g.actor != nil {
		held = append(slices.Clone(held), g.actor.GetScopes()...)
	}
	for _, one := range x.Scopes.List {
		free := !g.subject.scoped && scope.IsIdentity(one) // who they are is known of a subject without scopes
		if !free && !slices.Contains(held, one) {
			return endpoint.InvalidScope("scope goes beyond what subject and actor have")
		}
	}
	return nil
}

func (g *exchangeGrant) read(ctx context.Context, x *request) (err error) {
	form := x.form
	switch {
	case len(form.Resource) > 0:
		return endpoint.InvalidRequest("resource is not supported")
	case form.SubjectToken == "":
		return endpoint.InvalidRequest("subject_token is missing")
	case form.SubjectTokenType == "":
		return endpoint.InvalidRequest("subject_token_type is missing")
	case form.ActorToken != "" && form.ActorTokenType == "":
		return endpoint.InvalidRequest("actor_token_type is missing")
	case form.ActorToken == "" && form.ActorTokenType != "":
		return endpoint.InvalidRequest("actor_token is missing")
	case len(strings.Fields(form.Scope)) == 0:
		return endpoint.InvalidRequest("scope is missing")
	}
	if x.issued = form.RequestedTokenType; x.issued == "" {
		x.issued = typeAccessToken
	}
	if !slices.Contains([]string{typeAccessToken, typeIDToken, typeJWT}, x.issued) {
		return endpoint.InvalidRequest("requested_token_type is not supported")
	}
	if x.Scopes, err = scope.Read(form.Scope); err != nil {
		return err
	}
	if form.ActorToken != "" {
		if form.ActorTokenType != typeAccessToken && form.ActorTokenType != typeIDToken {
			return endpoint.InvalidRequest("actor_token_type is not supported")
		}
		if g.actor, err = g.party(ctx, x, form.ActorToken, form.ActorTokenType, "actor_token"); err != nil {
			return err
		}
	}
	if (form.SubjectTokenType == typeJWT || form.SubjectTokenType == typeUserID) && g.actor == nil {
		return endpoint.InvalidRequest("subject_token_type needs an actor_token")
	}
	if g.subject, err = g.party(ctx, x, form.SubjectToken, form.SubjectTokenType, "subject_token"); err != nil {
		return err
	}
	x.Subject = g.subject.found
	return nil
}

// acts reports whether somebody acts in the name of the subject: somebody else, now
// or before. Who is acting already stays one who acts.
func (g *exchangeGrant) acts() bool {
	return g.actor != nil && (g.actor.GetUserId() != g.subject.GetUserId() || len(g.actor.GetActor()) > 0)
}

// impersonate refuses to act in the name of who the actor may not, and to go on with what
// an actor began who may not any more. A policy that says no is invalid_request (RFC
// 8693, section 2.2.2).
func (g *exchangeGrant) impersonate(ctx context.Context, x *request) error {
	actor := policy.Identity{UserID: subject.Actor(g.subject.GetActor())}
	if g.actor != nil && g.actor.GetUserId() != g.subject.GetUserId() {
		var err error
		if actor, err = g.acting(ctx, x); err != nil {
			return err
		}
	}
	if actor.UserID == "" {
		return nil
	}
	may, err := g.Roles.MayImpersonate(ctx, g.DB.Pool, actor, policy.Place{InstanceID: x.at.ID, OrgID: x.Subject.OrgID, UserID: x.Subject.ID})
	if err == nil && !may {
		err = endpoint.InvalidRequest("the actor may not act in the name of the subject")
	}
	return err
}

// acting is the actor with the rights that its token shows: an application that has it has no
// more of the actor's roles here than at the resource API (SEC-235). An exchanged token that
// is not for that lends none: its origins do not name the applications that it came through.
func (g *exchangeGrant) acting(ctx context.Context, x *request) (policy.Identity, error) {
	who, t := policy.Identity{UserID: g.actor.GetUserId()}, g.actor
	if t.GetAppId() == "" { // its own
		return who, nil
	}
	of, err := g.Clients.Find(ctx, x.at.ID, t.GetClientId())
	consent := &subject.Consent{}
	traced := len(t.GetOrigins()) == 0 || slices.Contains(t.GetAudience(), scope.Platform)
	if err == nil && of != nil && traced {
		consent, err = g.Subjects.Through(ctx, x.at, of, t.GetUserId(), t.GetOrigins())
	}
	if err == nil {
		consent.Bound(&who)
	}
	return who, err
}

// about has nothing to read: whether subject and actor are good came first.
func (g *exchangeGrant) about(context.Context, *request) error { return nil }

// audience works out whom the new token is for: who is asked for, when subject and actor
// have it and the client may have it.
func (g *exchangeGrant) audience(ctx context.Context, x *request, origins []string) (audience []string, err error) {
	combined, err := g.audienceOf(ctx, x, g.subject)
	if err == nil && g.actor != nil {
		var more []string
		more, err = g.audienceOf(ctx, x, g.actor)
		combined = append(combined, more...)
	}
	if err != nil {
		return nil, err
	}
	if may, err := g.keepsPlatform(ctx, x, origins); err != nil {
		return nil, err
	} else if !may {
		combined = slices.DeleteFunc(combined, func(one string) bool { return one == scope.Platform })
	}
	allowed, err := g.projectsOf(ctx, x, combined)
	if err != nil {
		return nil, err
	}
	add := func(one string) {
		if !slices.Contains(audience, one) {
			audience = append(audience, one)
		}
	}
	for _, one := range x.form.Audience { // by name, whatever they have (document 2, "Token exchange")
		if !slices.Contains(combined, one) {
			return nil, endpoint.InvalidRequest("audience goes beyond what subject and actor have")
		}
		add(one)
	}
	if len(x.form.Audience) == 0 {
		for _, one := range combined {
			if slices.Contains(allowed, one) {
				add(one)
			}
		}
	}
	if len(audience) == 0 && len(x.form.Audience) == 0 && !g.subject.scoped { // a subject that is only named has none
		audience = []string{x.client.ClientID, x.client.ProjectID}
	}
	if len(audience) == 0 {
		return nil, endpoint.InvalidRequest("neither subject nor actor has an audience that the client may have tokens for")
	}
	return audience, nil
}

// audienceOf is whom a token that is shown is for, as far as who got it may have tokens for that
// still.
func (g *exchangeGrant) audienceOf(ctx context.Context, x *request, p *party) ([]string, error) {
	if p.GetAppId() == "" {
		return g.had(ctx, x, p.found.OrgID, []string{x.client.ClientID, x.client.ProjectID}, p.GetAudience())
	}
	of, err := g.Clients.Find(ctx, x.at.ID, p.GetClientId())
	if err != nil || of == nil {
		return nil, err
	}
	return g.had(ctx, x, of.OrgID, []string{of.ClientID, of.ProjectID}, p.GetAudience())
}

// keepsPlatform reports whether the new token may be for the resource API: the client is trusted,
// or has the consent of the subject, and each application that held one of the origins is
// trusted as far as the client, so that an exchange adds no rights (SEC-235).
func (g *exchangeGrant) keepsPlatform(ctx context.Context, x *request, origins []string) (bool, error) {
	consent, err := g.Subjects.Through(ctx, x.at, x.client, x.Subject.ID, origins)
	return err == nil && consent.Counts() && !consent.Raised, err
}

// projectsOf returns which of an audience the client may have tokens for: itself, its
// project, and other projects that its organization has.
func (g *exchangeGrant) projectsOf(ctx context.Context, x *request, audience []string) ([]string, error) {
	allowed := []string{x.client.ClientID, x.client.ProjectID}
	var others []string
	for _, one := range audience {
		if !slices.Contains(allowed, one) && one != scope.Platform {
			others = append(others, scope.Project+one+scope.AudienceSuffix)
		}
	}
	if len(others) == 0 {
		return allowed, nil
	}
	had, err := g.Clients.Grantable(ctx, x.at.ID, scope.Of(others), nil, x.client.OrgID)
	if err != nil {
		return nil, err
	}
	return append(allowed, had.Projects...), nil
}

// draft begins the new token, which ends with what it came from (RFC 8693, section 2.2).
func (g *exchangeGrant) draft(ctx context.Context, x *request) (err error) {
	origins := subject.Origins(g.subject.AccessToken)
	if g.actor != nil {
		origins = subject.Origins(g.subject.AccessToken, g.actor.AccessToken)
	}
	audience, err := g.audience(ctx, x, origins)
	if err != nil {
		return err
	}
	origin := g.subject.AccessToken
	if !g.subject.scoped && g.actor != nil && g.actor.GetUserId() == g.subject.GetUserId() {
		origin = g.actor.AccessToken // a subject that is only named proves nothing itself
	}
	t := g.Issuer.Begin(x.at, x.Lives, origin.GetGrantId(), x.Subject.ID, x.Subject.Generation)
	t.SessionId, t.ClientId, t.AppId = origin.GetSessionId(), x.client.ClientID, x.client.ID
	t.Audience, t.AuthTime, t.Amr, t.Actor = audience, g.subject.GetAuthTime(), g.subject.GetAmr(), g.subject.GetActor()
	ends := []int64{g.subject.GetExpiresAt()}
	if g.actor != nil {
		ends = append(ends, g.actor.GetExpiresAt())
	}
	if t.Origins = origins; subject.Exchanges(origins) > subject.MaxOrigins {
		return endpoint.InvalidRequest("the tokens were exchanged too often")
	}
	if g.acts() {
		t.Actor = g.actClaim(x.at)
		ends = append(ends, x.at.Now.Unix()+impersonationLife)
	}
	for _, end := range ends {
		if end != 0 {
			t.ExpiresAt = min(t.ExpiresAt, end)
		}
	}
	x.Access, x.JWT, x.ID, x.IDEnds = t, x.issued == typeJWT, x.Scopes.Has(scope.OpenID), t.GetExpiresAt()
	if x.issued == typeIDToken && !x.ID {
		return endpoint.InvalidScope("an ID token needs the scope openid")
	}
	x.renewable = len(t.GetActor()) == 0 && g.subject.scoped // a borrowed identity is not renewed (SEC-104)
	x.apart, x.parentID, x.fixed = true, origin.GetGrantId(), x.JWT
	return nil
}

// actClaim is the claim act: the actor, and who acted before (RFC 8693, section 4.1).
func (g *exchangeGrant) actClaim(at endpoint.Site) []byte {
	act := map[string]any{"sub": g.actor.GetUserId(), "iss": at.Issuer}
	previous := g.actor.GetActor()
	if len(previous) == 0 {
		previous = g.subject.GetActor()
	}
	if len(previous) > 0 {
		act["act"] = json.RawMessage(previous)
	}
	text, err := json.Marshal(act)
	if err != nil { // of texts
		return nil
	}
	return text
}

// write makes the row of the family that begins here, if one does, and audits the exchange.
func (g *exchangeGrant) write(ctx context.Context, x *request) error {
	if x.generation > 0 {
		made, err := g.Ledger.Grant(ctx, x.at, x.made())
		if err == nil && !made {
			err = endpoint.InvalidRequest("the subject_token was revoked")
		}
		if err != nil {
			return err
		}
	}
	t := x.Access
	if g.acts() {
		return g.Ledger.Audit(ctx, x.at, x.Subject.OrgID, t.GetUserId(), g.actor.GetUserId(), &eventv1.UserImpersonated{
			ClientId: t.GetClientId(), ActorId: g.actor.GetUserId(), Scopes: x.Scopes.List,
		})
	}
	return g.Ledger.Audit(ctx, x.at, x.Subject.OrgID, t.GetId(), t.GetUserId(), &eventv1.OIDCSessionAccessTokenAdded{
		UserId: t.GetUserId(), ClientId: t.GetClientId(), GrantType: x.kind.name, Scopes: x.Scopes.List,
	})
}
