package oauth

import (
	"errors"

	"github.com/writ-id/writ/gen/oauth"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/token"
)

// clientCredentials issues a token to a service user that shows its secret (RFC
// 6749, section 4.4). Applications have no such grant.
func (c *call) clientCredentials(req *oauth.TokenRequest, shown credentials) (*oauth.TokenReply, error) {
	of, err := c.authenticateService(shown)
	if errors.Is(err, errClient) {
		if _, appErr := c.authenticate(shown, methodBasic, methodPost); appErr == nil {
			err = unauthorizedClient("applications have no tokens of their own; a service user does")
		}
	}
	if err != nil {
		return nil, err
	}
	return c.issueService(of, req, typeCredentials, false)
}

// jwtProfile issues a token to a service user that signs an assertion (RFC 7523,
// section 2.1).
func (c *call) jwtProfile(req *oauth.TokenRequest, shown credentials) (*oauth.TokenReply, error) {
	if req.Assertion == "" {
		return nil, invalidRequest("assertion is missing")
	}
	if shown.method != methodNone { // nobody has to, but what is shown has to be right (RFC 7521, section 4.1)
		_, err := c.authenticateService(shown)
		if errors.Is(err, errClient) {
			_, err = c.authenticate(shown, methodBasic, methodPost, methodJWT)
		}
		if err != nil {
			return nil, err
		}
	}
	of, err := c.serviceByAssertion(req.Assertion)
	if err == nil && of == nil {
		err = invalidGrant("the assertion is not good")
	}
	if err != nil {
		return nil, err
	}
	return c.issueService(of, req, typeAssertion, true)
}

// serviceByAssertion returns the service user that signed an assertion; nil when it is
// not good.
func (c *call) serviceByAssertion(text string) (*service, error) {
	jwt, err := token.ParseJWT(text)
	if err != nil {
		return nil, nil //nolint:nilerr // it is no JWT
	}
	key, err := c.serviceKey(jwt.KeyID)
	if err != nil {
		return nil, err
	}
	issuer, _ := jwt.Claims.Text("iss")
	if key == nil || key.UserID != issuer || key.ExpirationDate != nil && !c.now.Before(*key.ExpirationDate) {
		return nil, nil
	}
	if good, err := c.checkAssertion(jwt, key.public, issuer, issuer); err != nil || !good {
		return nil, err
	}
	c.from(key.Username)
	return &service{key.UserID, key.OrgID, key.Username, key.Generation, key.AccessTokenType == jwtAccessTokens}, nil
}

// audienceUser begins the audience that every token of a service user has: no ID of
// a client or project does, so nobody can name a user like somebody's API.
const audienceUser = urn + "user:id:"

// issueService issues a token to a service user. Nothing is stored of it but the
// audit event, which goes with those of others in one commit; that it is still good
// is asked where it is used.
func (c *call) issueService(of *service, req *oauth.TokenRequest, grant string, id bool) (*oauth.TokenReply, error) {
	if len(spaceless(req.Scope)) == 0 {
		return nil, invalidRequest("scope is missing")
	}
	sc, err := readScopes(req.Scope)
	if err != nil {
		return nil, err
	}
	sc = sc.without(func(scope string) bool { return scope == scopeOffline })
	if len(sc.projects) > 0 || len(sc.roles) > 0 { // a service user is in no project, so it has no roles of one
		if sc, err = c.grantable(sc, nil, of.orgID); err != nil {
			return nil, err
		}
	}
	if len(sc.list) == 0 {
		return nil, invalidScope("none of the scopes is known, and one that a service user can have")
	}
	if sc.org != "" && sc.org != of.orgID {
		return nil, invalidScope("the user does not belong to the organization")
	}
	t := c.newAccess("", of.userID, of.generation)
	t.ClientId, t.Audience = of.username, sc.audience(audienceUser+of.userID)
	if sc.orgDomain != "" || id && sc.has(scopeOpenID) {
		t.AuthTime = c.now.Unix()
	}
	i := &issuance{access: t, scopes: sc, jwt: of.jwt}
	if i.id = id && sc.has(scopeOpenID); i.id || sc.orgDomain != "" {
		if i.state, err = c.state(about{user: of.userID, parts: sc.parts() & withMetadata}); err != nil {
			return nil, err
		}
		if i.state == nil {
			return nil, invalidGrant("the user is not active")
		}
		if !sc.belongs(of.orgID, i.state.Domain) {
			return nil, invalidScope("the user does not belong to the organization")
		}
	}
	res, err := c.issue(i)
	if err != nil {
		return nil, err
	}
	return res, c.audit.add(c.ctx(), event.Event{
		InstanceID: c.instance.ID, ObjectID: t.GetId(), Creator: of.userID, Owner: ofOrg(of.orgID), At: c.now,
		Payload: &eventv1.OIDCSessionAccessTokenAdded{UserId: of.userID, ClientId: of.username, GrantType: grant, Scopes: sc.list},
	})
}
