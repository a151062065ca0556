package introspect

import (
	"context"
	"errors"
	"net/http"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/form"
	"github.com/writ-id/writ/impl/oidc/issue"
)

// Revoke ends a token of a client (RFC 7009; document 2, "revocation_endpoint").
func (e *Endpoint) Revoke(w http.ResponseWriter, r *http.Request) {
	at, ok := e.Begin(w, r)
	if !ok {
		return
	}
	var req oauth.RevocationRequest
	err := form.Body(w, r, &req)
	if err == nil {
		err = e.revoke(r, at, &req)
	}
	if err != nil {
		e.Fail(w, r, at, err)
		return
	}
	w.Header()["Cache-Control"] = endpoint.NoStore
	w.WriteHeader(http.StatusOK)
}

func (e *Endpoint) revoke(r *http.Request, at endpoint.Site, req *oauth.RevocationRequest) error {
	ctx := r.Context()
	shown, err := client.Shown(r, client.Form{ID: req.ClientId, Secret: req.ClientSecret, Assertion: req.ClientAssertion, AssertionType: req.ClientAssertionType})
	if err != nil {
		return err
	}
	var clientID, appID string
	of, err := e.Clients.Authenticate(ctx, at, shown, client.All)
	switch {
	case err == nil:
		clientID, appID = of.ClientID, of.ID
	case errors.Is(err, endpoint.ErrClient):
		user, serviceErr := e.Clients.ServiceOf(ctx, at, shown)
		if serviceErr != nil {
			return serviceErr
		}
		clientID = user.Username
	default:
		return err
	}
	if req.Token == "" {
		return endpoint.InvalidRequest("token is missing")
	}
	if issue.IsRefresh(req.Token) {
		return e.revokeRefresh(ctx, at, req.Token, clientID, appID)
	}
	t, err := e.Tokens.Read(ctx, at, req.Token)
	if err != nil || t == nil || t.GetClientId() != clientID || t.GetAppId() != appID {
		return err // what is not the client's is answered like what is not there
	}
	return e.Ledger.RevokeToken(ctx, at, t)
}

// revokeRefresh ends all that came with a refresh token. Service users have none.
func (e *Endpoint) revokeRefresh(ctx context.Context, at endpoint.Site, text, clientID, appID string) error {
	if appID == "" {
		return nil
	}
	t, err := e.Issuer.OpenRefresh(ctx, at, text)
	if err != nil || t == nil || t.GetClientId() != clientID {
		return err
	}
	return e.Ledger.RevokeGrant(ctx, at, t.GetGrantId(), appID, "client")
}
