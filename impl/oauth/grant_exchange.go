package oauth

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/policy"
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

// exchange issues a token for another one (RFC 8693; document 2, "Token exchange").
// The new token is about the subject and never for more than subject and actor have
// (SEC-102); with an actor who is somebody else it is impersonation or delegation.
func (c *call) exchange(req *oauth.TokenRequest, shown credentials) (*oauth.TokenReply, error) {
	if err := c.Enabled(c.ctx(), policyv1.Feature_FEATURE_OIDC_TOKEN_EXCHANGE, c.instance); err != nil {
		return nil, featureOff(err)
	}
	of, err := c.authenticate(shown, methodBasic, methodPost, methodNone, methodJWT)
	if err != nil {
		return nil, err
	}
	if !of.may(grantExchange) {
		return nil, unauthorizedClient("the client may not exchange tokens")
	}
	x := &exchange{call: c, req: req, client: of}
	if err := x.read(); err != nil {
		return nil, err
	}
	if err := x.permit(); err != nil {
		return nil, err
	}
	if err := x.limit(); err != nil {
		return nil, err
	}
	return x.issue()
}

// exchange is one that is under way.
type exchange struct {
	*call
	req            *oauth.TokenRequest
	client         *client
	subject, actor *party
	state          *state // of the subject
	scopes         *scopes
	audience       []string
}

// party is a subject or an actor.
type party struct {
	*tokenv1.AccessToken
	scoped bool // its token has scopes
	pat    bool // it is a personal access token, which was looked up already
}

// read reads what is exchanged, by the type matrix.
func (x *exchange) read() error {
	req := x.req
	switch {
	case len(req.Resource) > 0:
		return refuse(oauth.InvalidTarget, "resource is not supported")
	case req.SubjectToken == "":
		return invalidRequest("subject_token is missing")
	case req.SubjectTokenType == "":
		return invalidRequest("subject_token_type is missing")
	case req.ActorToken != "" && req.ActorTokenType == "":
		return invalidRequest("actor_token_type is missing")
	case req.ActorToken == "" && req.ActorTokenType != "":
		return invalidRequest("actor_token is missing")
	case len(spaceless(req.Scope)) == 0:
		return invalidRequest("scope is missing")
	}
	if req.RequestedTokenType == "" {
		req.RequestedTokenType = typeAccessToken
	}
	if !slices.Contains([]string{typeAccessToken, typeIDToken, typeJWT}, req.RequestedTokenType) {
		return invalidRequest("requested_token_type is not supported")
	}
	var err error
	if x.scopes, err = readScopes(req.Scope); err != nil {
		return err
	}
	if req.ActorToken != "" {
		if req.ActorTokenType != typeAccessToken && req.ActorTokenType != typeIDToken {
			return invalidRequest("actor_token_type is not supported")
		}
		if x.actor, err = x.party(req.ActorToken, req.ActorTokenType, "actor_token"); err != nil {
			return err
		}
		if _, err := x.alive(x.actor, "actor_token"); err != nil {
			return err
		}
	}
	if (req.SubjectTokenType == typeJWT || req.SubjectTokenType == typeUserID) && x.actor == nil {
		return invalidRequest("subject_token_type needs an actor_token")
	}
	if x.subject, err = x.party(req.SubjectToken, req.SubjectTokenType, "subject_token"); err != nil {
		return err
	}
	x.state, err = x.alive(x.subject, "subject_token")
	return err
}

// party reads a token of a type.
func (x *exchange) party(text, kind, field string) (*party, error) {
	bad := invalidRequest("%s is not a good token of its type", field)
	switch kind {
	case typeAccessToken:
		t, err := x.readAccess(text)
		pat := err == nil && t == nil
		if pat {
			t, err = x.patToken(text, x.client)
		}
		if err != nil {
			return nil, err
		}
		if t == nil || !audienceHas(t, x.client) && field == "subject_token" {
			return nil, bad
		}
		return &party{AccessToken: t, scoped: true, pat: pat}, nil
	case typeIDToken:
		return x.idParty(text, field, bad)
	case typeJWT:
		return x.jwtParty(text, bad)
	case typeUserID:
		if len(text) > 200 {
			return nil, bad
		}
		return &party{AccessToken: &tokenv1.AccessToken{UserId: text}}, nil
	}
	return nil, invalidRequest("%s_type is not supported", field)
}

// idParty reads an ID token that was issued to the client, or to another one of its
// project, or that a service user got for itself.
func (x *exchange) idParty(text, field string, bad error) (*party, error) {
	found, err := x.readHint(text)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, bad
	}
	if found.id != "" {
		return x.serviceParty(found, field, bad)
	}
	issuedTo, err := x.call.client(found.clientID)
	if err != nil {
		return nil, err
	}
	if issuedTo == nil || issuedTo.ProjectID != x.client.ProjectID {
		return nil, bad
	}
	ends := found.ends.Unix() - issuedTo.skew()
	if x.now.Unix() >= ends {
		return nil, bad
	}
	return &party{AccessToken: &tokenv1.AccessToken{
		UserId: found.userID, SessionId: found.sessionID, Actor: found.actor, ExpiresAt: ends, AuthTime: found.authTime, Amr: found.amr,
		Audience: []string{issuedTo.ClientID, issuedTo.ProjectID},
	}}, nil
}

// serviceParty is a service user by its own ID token (the JWT profile grant): an actor
// anywhere, a subject for the clients of its organization.
func (x *exchange) serviceParty(found *hint, field string, bad error) (*party, error) {
	p := &party{AccessToken: &tokenv1.AccessToken{
		Id: found.id, UserId: found.userID, ExpiresAt: found.ends.Unix(), AuthTime: found.authTime, Audience: []string{x.client.ClientID, x.client.ProjectID},
	}}
	if x.now.Unix() >= p.GetExpiresAt() {
		return nil, bad
	}
	of, err := x.alive(p, field)
	if err != nil {
		return nil, err
	}
	if of.UserType == human || field == "subject_token" && of.OrgID != x.client.OrgID {
		return nil, bad
	}
	return p, nil
}

// jwtParty reads a JWT about a user that the client signed itself.
func (x *exchange) jwtParty(text string, bad error) (*party, error) {
	userID, good, err := x.subjectOf(text, x.client)
	if err != nil {
		return nil, err
	}
	if !good {
		return nil, bad
	}
	return &party{AccessToken: &tokenv1.AccessToken{UserId: userID}}, nil
}

// alive refuses a token that is about something that has ended (SEC-101).
func (x *exchange) alive(p *party, field string) (*state, error) {
	a := aboutToken(p.AccessToken, &scopes{})
	a.parts, a.projects = x.client.tokenParts(x.scopes, nil)|withClaims, []string{x.client.ProjectID}
	if p.pat {
		a.token = ""
	}
	found, err := x.stateOf(p.AccessToken, a)
	if err == nil && found == nil {
		err = invalidRequest("%s is not a good token of its type", field)
	}
	return found, err
}

// acts reports whether somebody acts in the name of the subject: somebody else, now
// or before. Who is acting already stays one who acts.
func (x *exchange) acts() bool {
	return x.actor != nil && (x.actor.GetUserId() != x.subject.GetUserId() || len(x.actor.GetActor()) > 0)
}

// permit refuses to act in the name of who the actor may not, and to go on with what
// an actor began who may not any more. A policy that says no is invalid_request (RFC
// 8693, section 2.2.2).
func (x *exchange) permit() error {
	actor := actorOf(x.subject.GetActor())
	if x.actor != nil && x.actor.GetUserId() != x.subject.GetUserId() {
		actor = x.actor.GetUserId()
	}
	if actor == "" {
		return nil
	}
	may, err := x.Roles.MayImpersonate(x.ctx(), x.DB.Pool, actor, policy.Place{
		InstanceID: x.instance.ID, OrgID: x.state.OrgID, UserID: x.state.ID,
	})
	if err == nil && !may {
		err = invalidRequest("the actor may not act in the name of the subject")
	}
	return err
}

// limit works out scopes and audience: what is asked for, when subject and actor
// have it and the client may have it.
func (x *exchange) limit() error {
	held := x.subject.GetScopes()
	if x.actor != nil {
		held = append(slices.Clone(held), x.actor.GetScopes()...)
	}
	for _, scope := range x.scopes.list {
		free := !x.subject.scoped && slices.Contains(plain[:5], scope) // who they are is known of a subject without scopes
		if !free && !slices.Contains(held, scope) {
			return invalidScope("scope goes beyond what subject and actor have")
		}
	}
	var err error
	if x.scopes, err = x.grantable(x.scopes, x.client.roles, x.client.OrgID); err != nil {
		return err
	}
	if len(x.scopes.list) == 0 {
		return invalidScope("none of the scopes is known")
	}
	if !x.scopes.belongs(x.state.OrgID, x.state.Domain) {
		return invalidScope("the subject does not belong to the organization")
	}
	if may, err := x.mayUse(x.client, x.state.ID, x.state.OrgID); err != nil || !may {
		return orElse(err, invalidRequest("the subject may not use the application"))
	}
	return x.limitAudience()
}

func (x *exchange) limitAudience() error {
	combined := slices.Clone(x.subject.GetAudience())
	if x.actor != nil {
		combined = append(combined, x.actor.GetAudience()...)
	}
	if may, err := x.keepsPlatform(); err != nil {
		return err
	} else if !may {
		combined = slices.DeleteFunc(combined, func(one string) bool { return one == Platform })
	}
	allowed, err := x.projectsOf(combined)
	if err != nil {
		return err
	}
	asked := x.req.Audience
	if len(asked) == 0 {
		for _, one := range combined {
			if slices.Contains(allowed, one) && !slices.Contains(x.audience, one) {
				x.audience = append(x.audience, one)
			}
		}
	}
	for _, one := range asked { // by name, whatever they have (document 2, "Token exchange")
		if !slices.Contains(combined, one) {
			return refuse(oauth.InvalidTarget, "audience goes beyond what subject and actor have")
		}
		if !slices.Contains(x.audience, one) {
			x.audience = append(x.audience, one)
		}
	}
	if len(x.audience) == 0 {
		return refuse(oauth.InvalidTarget, "neither subject nor actor has an audience that the client may have tokens for")
	}
	return nil
}

// keepsPlatform reports whether the new token may be for the resource API: an exchange
// must not free a token from the organization it was good in (SEC-235).
func (x *exchange) keepsPlatform() (bool, error) {
	if x.subject.GetAppId() == "" { // the subject's own
		return true, nil
	}
	of, err := x.call.client(x.subject.GetClientId())
	if err != nil || of == nil {
		return false, err
	}
	return of.Trusted || !x.client.Trusted && of.OrgID == x.client.OrgID, nil
}

// projectsOf returns which of an audience the client may have tokens for: itself, its
// project, and other projects that its organization has.
func (x *exchange) projectsOf(audience []string) ([]string, error) {
	allowed := []string{x.client.ClientID, x.client.ProjectID}
	others := slices.DeleteFunc(slices.Clone(audience), func(one string) bool { return slices.Contains(allowed, one) || one == Platform })
	if len(others) == 0 {
		return allowed, nil
	}
	s := &scopes{}
	for _, one := range others {
		s.list = append(s.list, scopeProject+one+audienceSuffix)
	}
	s, err := x.grantable(sortScopes(s.list), nil, x.client.OrgID)
	if err != nil {
		return nil, err
	}
	return append(allowed, s.projects...), nil
}

// issue makes the answer (RFC 8693, section 2.2).
func (x *exchange) issue() (*oauth.TokenReply, error) {
	origin := x.subject.AccessToken // the new token ends with what it came from
	if !x.subject.scoped && x.actor != nil && x.actor.GetUserId() == x.subject.GetUserId() {
		origin = x.actor.AccessToken // a subject that is only named proves nothing itself
	}
	t := x.newAccess(origin.GetGrantId(), x.state.ID, x.state.Generation)
	t.SessionId, t.ClientId, t.AppId = origin.GetSessionId(), x.client.ClientID, x.client.ID
	t.Audience, t.AuthTime, t.Amr, t.Actor = x.audience, x.subject.GetAuthTime(), x.subject.GetAmr(), x.subject.GetActor()
	ends := []int64{x.subject.GetExpiresAt()}
	t.Origins = originsOf(x.subject.AccessToken)
	if x.actor != nil {
		ends = append(ends, x.actor.GetExpiresAt())
		t.Origins = originsOf(x.subject.AccessToken, x.actor.AccessToken)
	}
	if len(t.Origins) > maxOrigins {
		return nil, invalidRequest("the tokens were exchanged too often")
	}
	if x.acts() {
		t.Actor = x.actClaim()
		ends = append(ends, x.now.Unix()+impersonationLife)
	}
	for _, end := range ends {
		if end != 0 {
			t.ExpiresAt = min(t.ExpiresAt, end)
		}
	}
	requested := x.req.RequestedTokenType
	i := &issuance{access: t, scopes: x.scopes, state: x.state, client: x.client, jwt: requested == typeJWT, id: x.scopes.has(scopeOpenID), idEnds: t.GetExpiresAt()}
	if requested == typeIDToken {
		return x.issueID(i)
	}
	generation, parent := int32(0), origin.GetGrantId()
	if x.scopes.has(scopeOffline) && x.client.may(grantRefresh) && len(t.GetActor()) == 0 && x.subject.scoped { // a borrowed identity is not renewed (SEC-104)
		generation, t.GrantId = 1, x.NewID()
		t.Id = t.GetGrantId() + "." + x.NewID()
		var err error
		if i.refresh, err = x.refreshToken(t, generation, i.jwt); err != nil {
			return nil, err
		}
	} else {
		i.scopes = x.scopes.without(func(scope string) bool { return scope == scopeOffline })
	}
	res, err := x.call.issue(i)
	if err != nil {
		return nil, err
	}
	res.IssuedTokenType = requested
	if generation > 0 {
		made, err := x.addGrant(i, parent, generation)
		if err == nil && !made {
			err = invalidRequest("the subject_token was revoked")
		}
		if err != nil {
			return nil, err
		}
	}
	return res, x.record(t)
}

// issueID answers with an ID token alone.
func (x *exchange) issueID(i *issuance) (*oauth.TokenReply, error) {
	if !i.id {
		return nil, invalidScope("an ID token needs the scope openid")
	}
	text, err := x.idToken(i, "")
	if err != nil {
		return nil, err
	}
	return &oauth.TokenReply{
		AccessToken: text, TokenType: oauth.TokenReplyTokenTypeNA, ExpiresIn: i.idEnds - x.now.Unix(),
		IssuedTokenType: typeIDToken, Scope: strings.Join(i.scopes.list, " "),
	}, x.record(i.access)
}

// actClaim is the claim act: the actor, and who acted before (RFC 8693, section 4.1).
func (x *exchange) actClaim() []byte {
	act := map[string]any{"sub": x.actor.GetUserId(), "iss": x.issuer}
	previous := x.actor.GetActor()
	if len(previous) == 0 {
		previous = x.subject.GetActor()
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

// record audits an exchange, durably before it is answered.
func (x *exchange) record(t *tokenv1.AccessToken) error {
	e := event.Event{InstanceID: x.instance.ID, ObjectID: t.GetId(), Creator: t.GetUserId(), Owner: ofOrg(x.state.OrgID), At: x.now}
	e.Payload = &eventv1.OIDCSessionAccessTokenAdded{UserId: t.GetUserId(), ClientId: t.GetClientId(), GrantType: typeExchange, Scopes: x.scopes.list}
	if x.acts() {
		e.ObjectID, e.Creator = t.GetUserId(), x.actor.GetUserId()
		e.Payload = &eventv1.UserImpersonated{ClientId: t.GetClientId(), ActorId: x.actor.GetUserId(), Scopes: x.scopes.list}
	}
	return x.audit.add(x.ctx(), e)
}
