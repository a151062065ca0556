// Package introspect tells clients whether access tokens are active (RFC 7662), and ends
// tokens (RFC 7009).
package introspect

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/access"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/form"
	"github.com/writ-id/writ/impl/oidc/function"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/ledger"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// Endpoint introspects and revokes. It is safe for concurrent use; every field is
// required.
type Endpoint struct {
	*endpoint.Env
	Clients   *client.Directory
	Subjects  *subject.Reader
	Tokens    *access.Reader
	Issuer    *issue.Issuer
	Ledger    *ledger.Ledger
	Functions *function.Functions
}

// Introspect tells a client whether an access token is active (RFC 7662; document
// 2, "introspection_endpoint"). Whatever is wrong with the token, the answer is the
// same (SEC-116).
func (e *Endpoint) Introspect(w http.ResponseWriter, r *http.Request) {
	at, ok := e.Begin(w, r)
	if !ok {
		return
	}
	var req oauth.IntrospectionRequest
	err := form.Body(w, r, &req)
	var text []byte
	if err == nil {
		text, err = e.answer(r, at, &req)
	}
	if err != nil {
		e.Fail(w, r, at, err)
		return
	}
	endpoint.AnswerText(w, http.StatusOK, text)
}

// errClient has the status that RFC 7662, section 2.3, wants.
var errClient = &endpoint.Refusal{Code: endpoint.ErrClient.Code, Description: endpoint.ErrClient.Description, Status: http.StatusUnauthorized}

func (e *Endpoint) answer(r *http.Request, at endpoint.Site, req *oauth.IntrospectionRequest) ([]byte, error) {
	shown, err := client.Shown(r, client.Form{ID: req.ClientId, Secret: req.ClientSecret, Assertion: req.ClientAssertion, AssertionType: req.ClientAssertionType})
	var of *client.Client
	if err == nil {
		of, err = e.Clients.Authenticate(r.Context(), at, shown, client.Introspecting)
	}
	switch {
	case errors.Is(err, endpoint.ErrClient):
		return nil, errClient
	case err != nil:
		return nil, err
	case req.Token == "":
		return nil, endpoint.InvalidRequest("token is missing")
	}
	return e.introspect(r.Context(), at, req.Token, of)
}

var inactive = []byte(`{"active":false}`)

func (e *Endpoint) introspect(ctx context.Context, at endpoint.Site, text string, of *client.Client) ([]byte, error) {
	var sc *scope.Set
	roles := false
	t, found, err := e.read(ctx, at, text, of, func(t *tokenv1.AccessToken, what *subject.About) {
		sc = scope.Of(t.GetScopes())
		roles = of.AssertRoles || sc.Has(scope.Roles) || len(sc.Roles) > 0
		what.Metadata = sc.Has(scope.Metadata)
		if roles {
			what.Projects = []string{of.ProjectID}
		}
	})
	if err != nil || found == nil {
		return inactive, err
	}
	o := claims.NewSet()
	o.Bool("active", true)
	o.String("iss", at.Issuer)
	o.String("sub", found.ID)
	o.Strings("aud", t.GetAudience())
	o.String("client_id", t.GetClientId())
	if t.GetExpiresAt() != 0 {
		o.Number("exp", t.GetExpiresAt())
	}
	o.Number("iat", t.GetIssuedAt())
	o.Number("nbf", t.GetIssuedAt())
	o.String("jti", t.GetId())
	o.String("scope", strings.Join(t.GetScopes(), " "))
	o.String("token_type", "Bearer")
	o.String("username", found.LoginName())
	o.Raw("act", t.GetActor())
	claims.All(o, found, sc, claims.At(append(t.GetClaims(), found.Claims...), claims.AtUserInfo), of.OrgID)
	if roles {
		only := sc.Roles
		if of.AssertRoles || sc.Has(scope.Roles) {
			only = nil
		}
		claims.Roles(o, found, sc, of.ProjectID, []string{of.ProjectID}, only)
	}
	asked, err := e.Functions.Add(ctx, at, function.Userinfo, function.About{UserID: found.ID, Subject: found, Client: of, Actor: t.GetActor()}, o)
	if err != nil {
		return nil, err
	}
	if asked { // it may have ended meanwhile
		at.Now = e.Now()
		if _, found, err = e.read(ctx, at, text, of, nil); err != nil || found == nil {
			return inactive, err
		}
	}
	return o.End(), nil
}

// read reads an access token that is for a client, and whom it is about; nobody when it is
// not good. tell says what is to be read of them, nil nothing.
func (e *Endpoint) read(
	ctx context.Context, at endpoint.Site, text string, of *client.Client, tell func(*tokenv1.AccessToken, *subject.About),
) (*tokenv1.AccessToken, *subject.Subject, error) {
	t, err := e.Tokens.Read(ctx, at, text)
	personal := err == nil && t == nil
	if personal {
		t, err = e.Tokens.ReadPersonal(ctx, at, text, of)
	}
	if err != nil {
		return nil, nil, err
	}
	if t == nil {
		endpoint.Note(ctx, "inactive: this is no access token of the instance, or it has expired")
		return nil, nil, nil
	}
	if !access.IsFor(t, of) {
		endpoint.Note(ctx, "inactive: the audience of the token names neither the application nor its project; it does with the scope %sPROJECT_ID:aud", scope.Project)
		return nil, nil, nil
	}
	what := subject.AboutToken(t)
	if personal { // which was looked up already
		what = subject.About{User: t.GetUserId()}
	}
	if tell != nil {
		tell(t, &what)
	}
	found, err := e.Subjects.OfToken(ctx, at, t, what)
	if err == nil && found == nil {
		endpoint.Note(ctx, "inactive: the token was revoked, or its user, session or application is gone")
	}
	return t, found, err
}
