package oauth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/form"
	"github.com/writ-id/writ/impl/token"
)

// Introspect tells a client whether an access token is active (RFC 7662; document
// 2, "introspection_endpoint"). Whatever is wrong with the token, the answer is the
// same (SEC-116).
func (s *Server) Introspect(w http.ResponseWriter, r *http.Request) {
	c := s.begin(w, r)
	if c == nil {
		return
	}
	var req oauth.IntrospectionRequest
	if err := form.Body(w, r, &req); err != nil {
		c.fail(err)
		return
	}
	shown, err := c.shown(req.ClientId, req.ClientSecret, req.ClientAssertion, req.ClientAssertionType)
	var of *client
	if err == nil {
		of, err = c.authenticate(shown, methodBasic, methodJWT)
	}
	if errors.Is(err, errClient) {
		err = &Refusal{errClient.Code, errClient.Description, http.StatusUnauthorized}
	}
	if err == nil && req.Token == "" {
		err = invalidRequest("token is missing")
	}
	if err != nil {
		c.fail(err)
		return
	}
	text, err := c.introspect(req.Token, of)
	if err != nil {
		c.fail(err)
		return
	}
	c.answerText(http.StatusOK, text)
}

var inactive = []byte(`{"active":false}`)

func (c *call) introspect(text string, of *client) ([]byte, error) {
	t, err := c.readAccess(text)
	var what about
	var sc *scopes
	if err == nil && t == nil {
		if t, err = c.patToken(text, of); t != nil {
			sc = sortScopes(t.GetScopes())
			what = about{user: t.GetUserId(), parts: sc.parts()}
		}
	} else if t != nil {
		sc = sortScopes(t.GetScopes())
		what = aboutToken(t, sc)
	}
	if err != nil {
		return nil, err
	}
	if t == nil {
		c.note("inactive: this is no access token of the instance, or it has expired")
		return inactive, nil
	}
	if !audienceHas(t, of) {
		c.note("inactive: the audience of the token names neither the application nor its project; it does with the scope %sPROJECT_ID:aud", scopeProject)
		return inactive, nil
	}
	what.projects = []string{of.ProjectID}
	roles := of.assertRoles || sc.has(scopeRoles) || len(sc.roles) > 0
	if roles {
		what.parts |= withRoles
	}
	found, err := c.stateOf(t, what)
	if err != nil {
		return nil, err
	}
	if found == nil {
		c.note("inactive: the token was revoked, or its user, session or application is gone")
		return inactive, nil
	}
	o := newClaimSet()
	o.bool("active", true)
	o.string("iss", c.issuer)
	o.string("sub", found.ID)
	o.strings("aud", t.GetAudience())
	o.string("client_id", t.GetClientId())
	if t.GetExpiresAt() != 0 {
		o.number("exp", t.GetExpiresAt())
	}
	o.number("iat", t.GetIssuedAt())
	o.number("nbf", t.GetIssuedAt())
	o.string("jti", t.GetId())
	o.string("scope", strings.Join(t.GetScopes(), " "))
	o.string("token_type", "Bearer")
	o.string("username", found.loginName())
	o.raw("act", t.GetActor())
	found.reader = of.OrgID
	found.appendClaims(o, sc, claimsAt(append(t.GetClaims(), found.Claims...), placeUserinfo))
	if roles {
		only := sc.roles
		if of.assertRoles || sc.has(scopeRoles) {
			only = nil
		}
		found.appendRoles(o, sc, of.ProjectID, []string{of.ProjectID}, only)
	}
	return o.end(), nil
}

// Revoke ends a token of a client (RFC 7009; document 2, "revocation_endpoint").
func (s *Server) Revoke(w http.ResponseWriter, r *http.Request) {
	c := s.begin(w, r)
	if c == nil {
		return
	}
	var req oauth.RevocationRequest
	err := form.Body(w, r, &req)
	if err == nil {
		err = c.revoke(&req)
	}
	if err != nil {
		c.fail(err)
		return
	}
	w.Header()["Cache-Control"] = noStore
	w.WriteHeader(http.StatusOK)
}

func (c *call) revoke(req *oauth.RevocationRequest) error {
	shown, err := c.shown(req.ClientId, req.ClientSecret, req.ClientAssertion, req.ClientAssertionType)
	if err != nil {
		return err
	}
	var clientID, appID string
	of, err := c.authenticate(shown, methodBasic, methodPost, methodNone, methodJWT)
	switch {
	case err == nil:
		clientID, appID = of.ClientID, of.ID
	case errors.Is(err, errClient):
		user, serviceErr := c.serviceOf(shown)
		if serviceErr != nil {
			return serviceErr
		}
		clientID = user.username
	default:
		return err
	}
	if req.Token == "" {
		return invalidRequest("token is missing")
	}
	if strings.HasPrefix(req.Token, string(token.Refresh)) {
		if appID == "" { // they have none
			return nil
		}
		return c.revokeRefresh(req.Token, clientID, appID)
	}
	t, err := c.readAccess(req.Token)
	if err != nil || t == nil || t.GetClientId() != clientID || t.GetAppId() != appID {
		return err // what is not the client's is answered like what is not there
	}
	return c.revokeAccess(t)
}

func (c *call) revokeRefresh(text, clientID, appID string) error {
	t := &tokenv1.RefreshToken{}
	err := c.Box.Open(c.ctx(), c.instance.ID, token.Refresh, text, t)
	if errors.Is(err, token.ErrInvalid) || err == nil && t.GetClientId() != clientID {
		return nil
	}
	if err != nil {
		return err
	}
	return c.revokeGrant(c.ctx(), t.GetGrantId(), appID, "client")
}

func (c *call) revokeAccess(t *tokenv1.AccessToken) error {
	err := c.revoked.add(c.ctx(), revocation{c.instance.ID, t})
	if err == nil && slices.Contains(t.GetAudience(), Platform) {
		err = c.forgetCallers(c.ctx())
	}
	return err
}

// forgetCallers makes every node ask again whose tokens are good for the resource
// API.
func (c *call) forgetCallers(ctx context.Context) error {
	c.Invalidate()
	return c.queries.NotifyChange(ctx, c.DB.Pool)
}
