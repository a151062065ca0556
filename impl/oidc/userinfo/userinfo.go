// Package userinfo tells the claims of the user of an access token (OpenID Connect
// Core, section 5.3; document 2, "userinfo_endpoint").
package userinfo

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
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// Endpoint tells claims. It is safe for concurrent use; every field is required.
type Endpoint struct {
	*endpoint.Env
	Clients   *client.Directory
	Subjects  *subject.Reader
	Tokens    *access.Reader
	Functions *function.Functions
}

// GetUserInfo returns the claims of the user of an access token.
func (e *Endpoint) GetUserInfo(w http.ResponseWriter, r *http.Request) {
	if at, ok := e.Begin(w, r); ok {
		e.serve(w, r, at, "")
	}
}

// PostUserInfo is GetUserInfo with the token in the header or the form.
func (e *Endpoint) PostUserInfo(w http.ResponseWriter, r *http.Request) {
	at, ok := e.Begin(w, r)
	if !ok {
		return
	}
	var req oauth.UserInfoRequest
	if r.Header.Get("Content-Type") != "" { // no body is no form
		if err := form.Body(w, r, &req); err != nil {
			e.Fail(w, r, at, err)
			return
		}
	}
	e.serve(w, r, at, req.AccessToken)
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request, at endpoint.Site, formToken string) {
	text, refusal := bearer(r, formToken)
	if refusal != nil {
		e.refuse(w, r, at, refusal)
		return
	}
	body, err := e.claims(r.Context(), at, text)
	switch {
	case errors.Is(err, errNoOpenID):
		e.refuse(w, r, at, errNoOpenID)
	case err != nil:
		e.Fail(w, r, at, err)
	case body == nil:
		e.refuse(w, r, at, &endpoint.Refusal{Code: oauth.InvalidToken, Description: "the access token is not good", Status: http.StatusUnauthorized})
	default:
		endpoint.AnswerText(w, http.StatusOK, body)
	}
}

// bearer returns the access token of a request, from the header or the form, never
// from the query (RFC 6750, section 2; SEC-121).
func bearer(r *http.Request, formToken string) (string, *endpoint.Refusal) {
	headers := r.Header["Authorization"]
	switch {
	case len(headers) > 1 || len(headers) == 1 && formToken != "":
		return "", endpoint.InvalidRequest("the access token is there more than once")
	case len(headers) == 0 && formToken == "":
		return "", &endpoint.Refusal{Code: oauth.InvalidRequest, Description: "the access token is missing", Status: http.StatusUnauthorized}
	case len(headers) == 0:
		return formToken, nil
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "bearer") || text == "" {
		return "", &endpoint.Refusal{Code: oauth.InvalidToken, Description: "the Authorization header holds no bearer token", Status: http.StatusUnauthorized}
	}
	return strings.Trim(text, " "), nil
}

// refuse refuses an access token (RFC 6750, section 3). A request that shows
// none learns no more than how to authenticate.
func (e *Endpoint) refuse(w http.ResponseWriter, r *http.Request, at endpoint.Site, refusal *endpoint.Refusal) {
	_ = e.RefusalOf(r, refusal)
	challenge := `Bearer realm="` + at.Issuer + `"`
	if refusal.Code != oauth.InvalidRequest {
		challenge += `, error="` + string(refusal.Code) + `", error_description="` + refusal.Description + `"`
	}
	if refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	endpoint.Answer(w, refusal.Status, &oauth.OAuthError{Error: refusal.Code, ErrorDescription: refusal.Description})
}

// errNoOpenID is the answer to tokens of requests that were none of OpenID Connect (RFC
// 6750, section 3.1).
var errNoOpenID = &endpoint.Refusal{Code: oauth.InsufficientScope, Description: "the access token lacks the scope openid", Status: http.StatusForbidden}

// claims returns the claims as JSON; nil when the token is not good.
func (e *Endpoint) claims(ctx context.Context, at endpoint.Site, text string) ([]byte, error) {
	t, of, err := e.token(ctx, at, text)
	if err != nil || t == nil {
		return nil, err
	}
	asserted, project, reader := false, "", ""
	if of != nil {
		asserted, project, reader = of.AssertRoles, of.ProjectID, of.OrgID
	}
	sc := scope.Of(t.GetScopes())
	projects, only := claims.RoleProjects(sc, project, asserted, t.GetAudience())
	what := subject.AboutToken(t)
	what.Projects, what.Metadata = projects, sc.Has(scope.Metadata)
	found, err := e.Subjects.OfToken(ctx, at, t, what)
	if err != nil || found == nil {
		return nil, err
	}
	if !sc.Has(scope.OpenID) {
		return nil, errNoOpenID
	}
	o := claims.NewSet()
	o.String("sub", found.ID)
	claims.All(o, found, sc, claims.At(append(t.GetClaims(), found.Claims...), claims.AtUserInfo), reader)
	claims.Roles(o, found, sc, project, projects, only)
	asked, err := e.Functions.Add(ctx, at, function.Userinfo, function.About{UserID: found.ID, Subject: found, Client: of, Actor: t.GetActor()}, o)
	if err != nil {
		return nil, err
	}
	if asked { // it may have ended meanwhile
		at.Now = e.Now()
		if t, _, err = e.token(ctx, at, text); err != nil || t == nil {
			return nil, err
		}
		if found, err = e.Subjects.OfToken(ctx, at, t, subject.AboutToken(t)); err != nil || found == nil {
			return nil, err
		}
	}
	return o.End(), nil
}

// token reads an access token and its application, if it was issued to one; no token when
// it is none, or the application none any more.
func (e *Endpoint) token(ctx context.Context, at endpoint.Site, text string) (*tokenv1.AccessToken, *client.Client, error) {
	t, err := e.Tokens.Read(ctx, at, text)
	if err == nil && t == nil {
		t, err = e.Tokens.ReadPersonal(ctx, at, text, nil)
	}
	if err != nil || t == nil || t.GetAppId() == "" {
		return t, nil, err
	}
	of, err := e.Clients.Find(ctx, at.ID, t.GetClientId())
	if err != nil || of == nil {
		return nil, nil, err
	}
	return t, of, nil
}
