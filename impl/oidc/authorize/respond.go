package authorize

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/login"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// GrantImplicit is the grant type of this endpoint (OpenID Connect Core, section 3.2).
const GrantImplicit = "implicit"

// The response types and modes (document 2, "Response modes").
const (
	responseCode    = "code"
	responseIDToken = "id_token"
	responseBoth    = "id_token token"

	modeQuery    = "query"
	modeFragment = "fragment"
	modeForm     = "form_post"
)

// ResponseTypes and ResponseModes are what there is of them.
var (
	ResponseTypes = []string{responseCode, responseIDToken, responseBoth}
	ResponseModes = []string{modeQuery, modeFragment, modeForm}
)

var responseTypes = map[string]appv3.ResponseType{
	responseCode:     appv3.ResponseType_RESPONSE_TYPE_CODE,
	responseIDToken:  appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN,
	responseBoth:     appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN_TOKEN,
	"token id_token": appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN_TOKEN,
}

// responseMode returns how the answer to a request is sent: as it asks for, if that
// is known and leaks no token into a query (SEC-006), else as its response type has
// it. Without a response type the answer, an error, goes into the query, whatever types
// the application has (RFC 6749, section 4.1.2.1); of one that it does not have, those that
// it has decide.
func responseMode(req *oauth.AuthorizationRequest, of *client.Client) string {
	asked := req.ResponseMode
	if asked == "" && req.Request != "" {
		asked = modeInside(req.Request)
	}
	code := req.ResponseType == responseCode || req.ResponseType == ""
	if req.ResponseType != "" && !of.MayAsk(responseTypes[req.ResponseType]) {
		code = of.MayAsk(responseTypes[responseCode])
	}
	switch {
	case asked == modeForm || asked == modeFragment, asked == modeQuery && code:
		return asked
	case code:
		return modeQuery
	}
	return modeFragment
}

// modeInside returns the response mode that a request object asks for, so that its
// refusal arrives where the client expects it. Nothing else is read of it.
func modeInside(object string) string {
	parts := strings.Split(object, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var inside struct {
		ResponseMode string `json:"response_mode"`
	}
	_ = json.Unmarshal(text, &inside)
	return inside.ResponseMode
}

// fail sends an error to the client.
func (e *Endpoint) fail(w http.ResponseWriter, r *http.Request, a *authorization, err error) {
	refusal := e.RefusalOf(r, err)
	params := url.Values{"error": {string(refusal.Code)}, "error_description": {refusal.Description}}
	if refusal.Status == http.StatusServiceUnavailable { // the code of document 2
		params.Set("error", string(oauth.ServerError))
	}
	e.send(w, r, a, params)
}

// send sends parameters to the client, with state and issuer (RFC 9207).
func (e *Endpoint) send(w http.ResponseWriter, r *http.Request, a *authorization, params url.Values) {
	if a.req.State != "" {
		params.Set("state", a.req.State)
	}
	params.Set("iss", a.at.Issuer)
	address := a.req.RedirectUri
	switch a.mode {
	case modeForm:
		e.Pages.Post(w, r, address, params)
		return
	case modeFragment:
		address += "#" + params.Encode()
	default:
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + params.Encode()
	}
	endpoint.Redirect(w, r, address)
}

// sendCode answers with an authorization code (RFC 6749, section 4.1.2).
func (e *Endpoint) sendCode(w http.ResponseWriter, r *http.Request, a *authorization, session *login.Session) error {
	code, err := e.Issuer.Code(r.Context(), a.at, &tokenv1.Code{
		ClientId: a.client.ClientID, RedirectUri: a.req.RedirectUri, Challenge: a.req.CodeChallenge, Nonce: a.req.Nonce,
		Scopes: a.scopes.List, Audience: a.audience(), Claims: a.claims.Names,
		UserId: session.UserID, UserGeneration: session.Generation, SessionId: session.ID, AuthTime: session.AuthTime.Unix(), Amr: session.AMR,
	})
	if err != nil {
		return err
	}
	e.send(w, r, a, url.Values{"code": {code}})
	return nil
}

// audience is whom the tokens of a request are for.
func (a *authorization) audience() []string {
	return a.scopes.Audience(a.client.ClientID, a.client.ProjectID)
}

var errSignIn = endpoint.Refuse(oauth.LoginRequired, "the user has to sign in")

// sendTokens answers with tokens (OpenID Connect Core, section 3.2).
func (e *Endpoint) sendTokens(w http.ResponseWriter, r *http.Request, a *authorization, session *login.Session) error {
	ctx := r.Context()
	t := e.Issuer.Begin(a.at, a.client.Lives, "", session.UserID, session.Generation)
	t.SessionId, t.ClientId, t.AppId = session.ID, a.client.ClientID, a.client.ID
	t.Audience, t.AuthTime, t.Amr, t.Claims = a.audience(), session.AuthTime.Unix(), session.AMR, a.claims.Names
	found, err := e.Subjects.Read(ctx, a.at, subject.About{
		User: t.UserId, Generation: &session.Generation, Session: t.SessionId, Projects: issue.Roles(a.client, t.Audience), Metadata: a.scopes.Has(scope.Metadata),
	})
	if err != nil {
		return err
	}
	if found == nil {
		return errSignIn
	}
	i := &issue.Issuance{Access: t, Scopes: a.scopes, Subject: found, Client: a.client, JWT: a.client.HasJWT(), Lives: a.client.Lives, ID: true, Nonce: a.req.Nonce}
	params := url.Values{"token_type": {"Bearer"}, "scope": {a.scopes.String()}}
	access, life := "", a.client.Lives.ID
	if a.req.ResponseType != responseIDToken {
		if access, err = e.Issuer.Access(ctx, a.at, i); err != nil {
			return err
		}
		params.Set("access_token", access)
		life = a.client.Lives.Access
	}
	params.Set("expires_in", strconv.Itoa(int(life.Seconds())))
	id, err := e.Issuer.ID(ctx, a.at, i, access)
	if err != nil {
		return err
	}
	params.Set("id_token", id)
	if i.Asked { // it may have ended meanwhile
		at := a.at
		at.Now = e.Now()
		if found, err := e.Subjects.OfToken(ctx, at, t, subject.AboutToken(t)); err != nil || found == nil {
			return endpoint.OrElse(err, errSignIn)
		}
	}
	if err := e.Ledger.Audit(ctx, a.at, found.OrgID, t.GetId(), t.GetUserId(), &eventv1.OIDCSessionAccessTokenAdded{
		UserId: t.GetUserId(), ClientId: t.GetClientId(), GrantType: GrantImplicit, Scopes: a.scopes.List,
	}); err != nil {
		return err
	}
	e.send(w, r, a, params)
	return nil
}
