package authorize

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/login"
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
		return e.complete(w, r, a, &fits[0])
	case a.asks(PromptNone) && len(fits) > 1:
		return endpoint.Refuse(oauth.InteractionRequired, "the user has to choose an account")
	case a.asks(PromptNone):
		return errSignIn
	}
	flow := &tokenv1.Flow{
		StartedAt: a.at.Now.Unix(), Request: encode(a.req), AppName: a.client.Name, LoginHint: a.req.LoginHint, Language: a.req.UiLocales,
		Fresh: a.asks(PromptLogin), OrgId: a.scopes.Org, Choose: a.asks(PromptSelect) || len(sessions) > 1, Create: a.asks(PromptCreate), UserId: expected, IdpId: a.scopes.IDP,
	}
	if !since.IsZero() {
		flow.NotBefore = since.Unix()
	}
	// Nobody else can sign in, so their name is there already; but whoever asks for a user
	// by a claim has only guessed an ID, which is to tell nothing (SEC-170).
	if hinted != "" && flow.LoginHint == "" {
		found, err := e.Subjects.Read(r.Context(), a.at, subject.About{User: hinted})
		if err != nil {
			return err
		}
		if found != nil {
			flow.LoginHint = found.LoginName()
		}
	}
	e.Pages.Begin(w, r, a.at.Instance, flow)
	return nil
}

// complete answers with what the client asked for, about the user of a session.
func (e *Endpoint) complete(w http.ResponseWriter, r *http.Request, a *authorization, session *login.Session) error {
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
	if a.req.ResponseType == responseCode {
		return e.sendCode(w, r, a, session)
	}
	return e.sendTokens(w, r, a, session)
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
