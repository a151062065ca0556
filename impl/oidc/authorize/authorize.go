// Package authorize serves the authorization endpoint (RFC 6749, section 3.1; OpenID
// Connect Core, section 3; document 2, "authorization_endpoint").
//
// A request is read (read.go) once its client and redirect URI are known to belong
// together. It is answered at once by the session of the browser, or the browser goes to
// the pages (package login), which come back by Finish or Cancel (proceed.go). Answers are
// sent in the response mode of the request (respond.go).
package authorize

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/access"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/form"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/ledger"
	"github.com/writ-id/writ/impl/oidc/login"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// Endpoint answers authorization requests. It is safe for concurrent use; every field is
// required.
type Endpoint struct {
	*endpoint.Env
	Clients  *client.Directory
	Subjects *subject.Reader
	Tokens   *access.Reader
	Issuer   *issue.Issuer
	Ledger   *ledger.Ledger
}

// Authorize begins a login for a client.
func (e *Endpoint) Authorize(w http.ResponseWriter, r *http.Request) {
	if at, ok := e.BeginPage(w, r); ok {
		var req oauth.AuthorizationRequest
		err := form.Query(r.URL.RawQuery, &req)
		e.authorize(w, r, at, &req, err)
	}
}

// AuthorizeForm is Authorize with the parameters in a form.
func (e *Endpoint) AuthorizeForm(w http.ResponseWriter, r *http.Request) {
	if at, ok := e.BeginPage(w, r); ok {
		var req oauth.AuthorizationRequest
		err := form.Body(w, r, &req)
		e.authorize(w, r, at, &req, err)
	}
}

// authorize answers an authorization request. bad is what is wrong with its
// parameters, if something is.
func (e *Endpoint) authorize(w http.ResponseWriter, r *http.Request, at endpoint.Site, req *oauth.AuthorizationRequest, bad error) {
	a, err := e.target(r.Context(), at, req, bad)
	if err != nil {
		e.ErrorPage(w, r, err)
		return
	}
	if err = bad; err == nil {
		err = e.read(r.Context(), a)
	}
	if err == nil {
		err = e.proceed(w, r, a)
	}
	if err != nil {
		e.fail(w, r, a, err)
	}
}

// target finds the client of a request and the redirect URI it registered (SEC-001,
// SEC-004).
func (e *Endpoint) target(ctx context.Context, at endpoint.Site, req *oauth.AuthorizationRequest, bad error) (*authorization, error) {
	if bad != nil {
		wrong, ok := errors.AsType[*form.Error](bad)
		if !ok || slices.Contains([]string{"", "client_id", "redirect_uri"}, wrong.Parameter) {
			return nil, bad
		}
	}
	if req.ClientId == "" {
		return nil, endpoint.InvalidRequest("client_id is missing")
	}
	of, err := e.Clients.Find(ctx, at.ID, req.ClientId)
	if err != nil {
		return nil, err
	}
	if of == nil {
		return nil, endpoint.InvalidRequest("client_id names no application that can be used")
	}
	endpoint.From(ctx, of.ClientID)
	if req.RedirectUri == "" {
		return nil, endpoint.InvalidRequest("redirect_uri is missing")
	}
	if !of.Registered(of.RedirectUris, req.RedirectUri) {
		return nil, &endpoint.Unregistered{
			Refusal:  endpoint.InvalidRequest("redirect_uri is not registered for the application"),
			Received: req.RedirectUri, Registered: of.RedirectUris,
		}
	}
	return &authorization{at: at, req: req, client: of, mode: responseMode(req, of), maxAge: -1}, nil
}

// Finish goes on with a request when the pages have authenticated the user. It is
// the Finish of package login.
func (e *Endpoint) Finish(w http.ResponseWriter, r *http.Request, instance *policy.Instance, f *flow.Flow, session *login.Session) {
	a := e.resume(w, r, instance, f)
	if a == nil {
		return
	}
	err := e.read(r.Context(), a)
	if err == nil {
		err = e.complete(w, r, a, f, session)
	}
	if err != nil {
		e.fail(w, r, a, err)
	}
}

// Cancel answers a request whose user does not want to sign in (RFC 6749, section
// 4.1.2.1). It is the Cancel of package login.
func (e *Endpoint) Cancel(w http.ResponseWriter, r *http.Request, instance *policy.Instance, f *flow.Flow) {
	if a := e.resume(w, r, instance, f); a != nil {
		e.fail(w, r, a, endpoint.Refuse(oauth.AccessDenied, "the user canceled the login"))
	}
}

// resume returns the request that a flow holds. When it has no client to answer to
// any more, because the application has changed since, the user is told and it is nil.
func (e *Endpoint) resume(w http.ResponseWriter, r *http.Request, instance *policy.Instance, f *flow.Flow) *authorization {
	w.Header()["Cache-Control"] = endpoint.NoStore
	var req oauth.AuthorizationRequest
	err := form.Query(f.Asked().Request, &req)
	if err == nil {
		var a *authorization
		if a, err = e.target(r.Context(), e.At(r.Context(), r.Host, instance), &req, nil); err == nil {
			return a
		}
	}
	e.ErrorPage(w, r, err)
	return nil
}
