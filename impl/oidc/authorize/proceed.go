package authorize

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/form"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/login"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/step"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// proceed answers with the session of the browser, when one fits and nothing has to
// be asked; else it sends the browser to the pages.
func (e *Endpoint) proceed(w http.ResponseWriter, r *http.Request, a *authorization) error {
	hinted, err := e.hinted(r.Context(), a)
	if err != nil {
		return err
	}
	expected := hinted
	if wanted := a.claims.User; wanted != "" {
		if expected != "" && expected != wanted {
			return endpoint.Refuse(oauth.LoginRequired, "claims and id_token_hint are about different users")
		}
		expected = wanted
	}
	sessions, err := e.Pages.Browser(r, a.at.Instance)
	if err != nil {
		return err
	}
	since := a.notBefore()
	fits := slices.DeleteFunc(slices.Clone(sessions), func(session login.Session) bool {
		return expected != "" && session.UserID != expected || session.AuthTime.Before(since) || a.scopes.Org != "" && session.OrgID != a.scopes.Org
	})
	if len(fits) > 1 && a.req.LoginHint != "" {
		if i := slices.IndexFunc(fits, func(s login.Session) bool { return strings.EqualFold(s.LoginName, a.req.LoginHint) }); i >= 0 {
			fits = fits[i : i+1]
		}
	}
	ask := a.asks(PromptLogin) || a.asks(PromptSelect) || a.asks(PromptCreate)
	switch {
	case len(fits) == 1 && !ask:
		return e.complete(w, r, a, nil, &fits[0])
	case a.asks(PromptNone) && len(fits) > 1:
		return endpoint.Refuse(oauth.InteractionRequired, "the user has to choose an account")
	case a.asks(PromptNone):
		return errSignIn
	}
	asked, proof, hint := e.asked(a), flow.Proof{Fresh: a.asks(PromptLogin)}, a.req.LoginHint
	asked.Choose, asked.Create = a.asks(PromptSelect) || len(sessions) > 1, a.asks(PromptCreate)
	asked.UserID, asked.IDPID = expected, a.scopes.IDP
	if !since.IsZero() {
		proof.Since = since.Unix()
	}
	// Nobody else can sign in, so their name is there already; but whoever asks for a user
	// by a claim has only guessed an ID, which is to tell nothing (SEC-170).
	if hinted != "" && hint == "" {
		found, err := e.Subjects.Read(r.Context(), a.at, subject.About{User: hinted})
		if err != nil {
			return err
		}
		if found != nil {
			hint = found.LoginName()
		}
	}
	e.Pages.Begin(w, r, a.at.Instance, flow.New(asked, proof, hint, a.at.Now))
	return nil
}

// asked is what the pages get of a request.
func (e *Endpoint) asked(a *authorization) flow.Asked {
	return flow.Asked{Request: encode(a.req), AppName: a.client.Name, Language: a.req.UiLocales, OrgID: a.scopes.Org}
}

// complete answers with what the client asked for, about the user of a session, or asks the
// user for what the application wants first; f is nil before there were pages.
func (e *Endpoint) complete(w http.ResponseWriter, r *http.Request, a *authorization, f *flow.Flow, session *login.Session) error {
	ctx := r.Context()
	if may, err := e.Clients.Admits(ctx, a.client, session.UserID, session.OrgID); err != nil || !may {
		return endpoint.OrElse(err, endpoint.Refuse(oauth.AccessDenied, "the user may not use the application"))
	}
	if a.scopes.OrgDomain != "" {
		found, err := e.Subjects.Read(ctx, a.at, subject.About{User: session.UserID})
		if err != nil {
			return err
		}
		if found == nil || !a.scopes.Belongs(found.OrgID, found.Domain) {
			return endpoint.Refuse(oauth.AccessDenied, "the user does not belong to the organization")
		}
	}
	if !a.scopes.Belongs(session.OrgID, a.scopes.OrgDomain) {
		return endpoint.Refuse(oauth.AccessDenied, "the user does not belong to the organization")
	}
	if a.claims.User != "" && session.UserID != a.claims.User {
		return endpoint.Refuse(oauth.LoginRequired, "the user is not the one that claims asks for")
	}
	if len(a.claims.ACRs) > 0 && !slices.Contains(a.claims.ACRs, issue.ACR(session.AMR)) {
		return endpoint.Refuse(oauth.AccessDenied, "the user did not authenticate in the way that claims asks for")
	}
	asked, err := e.asks(ctx, a, session)
	if err != nil {
		return err
	}
	if asked != nil {
		if a.asks(PromptNone) { // Core, section 3.1.2.6
			return endpoint.Refuse(oauth.ConsentRequired, "the user has not let the application act for them at the resource API")
		}
		if f == nil {
			f = flow.New(e.asked(a), flow.Proof{}, a.req.LoginHint, a.at.Now)
		}
		e.Pages.AskConsent(w, r, a.at.Instance, f, session, asked)
		return nil
	}
	if a.req.ResponseType == responseCode {
		return e.sendCode(w, r, a, session)
	}
	return e.sendTokens(w, r, a, session)
}

// asks returns what the user has to be asked before tokens are for the resource API: whether
// the application, which nobody trusts, may act for them, with which roles. Nobody gets the
// rights of others by making a client.
func (e *Endpoint) asks(ctx context.Context, a *authorization, session *login.Session) (*step.Consent, error) {
	if !slices.Contains(a.audience(), scope.Platform) {
		return nil, nil
	}
	consent, err := e.Subjects.Consent(ctx, a.at, a.client, session.UserID)
	if err != nil || consent.Trusted {
		return nil, err
	}
	roles, err := e.Subjects.Handed(ctx, a.at, a.client, session.UserID, consent)
	if err != nil || consent.Given && !consent.Lacks(roles) && !a.asks(promptConsent) {
		return nil, err
	}
	asked := &step.Consent{AppID: a.client.ID, AppName: a.client.Name}
	for _, one := range roles {
		asked.Roles = append(asked.Roles, step.Handed{Name: one.Name, ID: one.String(), Place: one.Place})
	}
	return asked, nil
}

// Asks returns what the user of a flow is asked. It is the Asks of package login.
func (e *Endpoint) Asks(ctx context.Context, host string, instance *policy.Instance, f *flow.Flow, session *login.Session) (*step.Consent, error) {
	var req oauth.AuthorizationRequest
	if err := form.Query(f.Asked().Request, &req); err != nil {
		return nil, err
	}
	a, err := e.target(ctx, e.At(ctx, host, instance), &req, nil)
	if err == nil {
		err = e.read(ctx, a)
	}
	if err != nil { // the application has changed: Finish tells
		return nil, nil //nolint:nilerr // see above
	}
	a.prompt = []string{promptConsent} // once begun the page is shown
	return e.asks(ctx, a, session)
}

// hinted returns the user that a hint names, if it was issued to the client. What is
// no good hint names nobody; then nobody can be meant silently either.
func (e *Endpoint) hinted(ctx context.Context, a *authorization) (string, error) {
	if a.req.IdTokenHint == "" {
		return "", nil
	}
	found, err := e.Tokens.ReadHint(ctx, a.at, a.req.IdTokenHint)
	if err != nil {
		return "", err
	}
	if found != nil && found.ClientID == a.client.ClientID {
		return found.UserID, nil
	}
	if a.asks(PromptNone) {
		return "", endpoint.Refuse(oauth.LoginRequired, "id_token_hint is not an ID token of this issuer for the client")
	}
	return "", nil
}
