package oauth

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/login"
	"github.com/writ-id/writ/impl/redirect"
	"github.com/writ-id/writ/impl/token"
)

// The response types and modes (document 2, "Response modes").
const (
	responseCode    = "code"
	responseIDToken = "id_token"
	responseBoth    = "id_token token"

	modeQuery    = "query"
	modeFragment = "fragment"
	modeForm     = "form_post"
)

var responseTypes = map[string]int16{
	responseCode:     int16(appv3.ResponseType_RESPONSE_TYPE_CODE),
	responseIDToken:  int16(appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN),
	responseBoth:     int16(appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN_TOKEN),
	"token id_token": int16(appv3.ResponseType_RESPONSE_TYPE_ID_TOKEN_TOKEN),
}

// responseMode returns how the answer to a request is sent: as it asks for, if that
// is known and leaks no token into a query (SEC-006), else as its response type has
// it. A response type that is missing, or that the application does not have, says
// nothing: then those that it has decide.
func responseMode(req *oauth.AuthorizationRequest, configured []int16) string {
	asked := req.ResponseMode
	if asked == "" && req.Request != "" {
		asked = modeInside(req.Request)
	}
	code := req.ResponseType == responseCode
	if !slices.Contains(configured, responseTypes[req.ResponseType]) {
		code = slices.Contains(configured, responseTypes[responseCode])
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

// registered reports whether a client registered an address (package redirect).
func (c *client) registered(addresses []string, asked string) bool {
	for _, address := range addresses {
		if c.DevelopmentMode && redirect.MatchDevelopment(address, asked, c.isNative()) || redirect.Match(address, asked, c.isNative()) {
			return true
		}
	}
	return false
}

// fail sends an error to the client.
func (a *authorization) fail(err error) {
	refusal := a.refusalOf(a.r, err)
	params := url.Values{"error": {refusal.Code}, "error_description": {refusal.Description}}
	if refusal.Status == http.StatusServiceUnavailable { // the code of document 2
		params.Set("error", string(oauth.ServerError))
	}
	a.send(params)
}

// send sends parameters to the client, with state and issuer (RFC 9207).
func (a *authorization) send(params url.Values) {
	if a.req.State != "" {
		params.Set("state", a.req.State)
	}
	params.Set("iss", a.issuer)
	address := a.req.RedirectUri
	switch a.mode {
	case modeForm:
		a.Pages.Post(a.w, a.r, address, params)
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
	a.redirect(address)
}

// redirect sends the browser away. After a form it is told to use GET (RFC 9700,
// section 4.12).
func (c *call) redirect(address string) {
	header := c.w.Header()
	header["Cache-Control"] = noStore
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Location", address)
	if c.r.Method == http.MethodGet {
		c.w.WriteHeader(http.StatusFound)
	} else {
		c.w.WriteHeader(http.StatusSeeOther)
	}
}

// sendCode answers with an authorization code. It is sealed, holds all that it was
// issued for (SEC-008) and is stored nowhere.
func (a *authorization) sendCode(session *login.Session) error {
	code, err := a.Box.Seal(a.ctx(), a.instance.ID, token.Code, &tokenv1.Code{
		Id: a.NewID(), ClientId: a.client.ClientID, RedirectUri: a.req.RedirectUri, Challenge: a.req.CodeChallenge, Nonce: a.req.Nonce,
		Scopes: a.scopes.list, Audience: a.scopes.audience(a.client.ClientID, a.client.ProjectID), Claims: a.claims.names,
		UserId: session.UserID, UserGeneration: session.Generation, SessionId: session.ID, AuthTime: session.AuthTime.Unix(), Amr: session.AMR,
		ExpiresAt: a.now.Add(codeLife).Unix(),
	})
	if err != nil {
		return err
	}
	a.send(url.Values{"code": {code}})
	return nil
}

// sendTokens answers with tokens (OpenID Connect Core, section 3.2).
func (a *authorization) sendTokens(session *login.Session) error {
	t := a.newAccess("", session.UserID, session.Generation)
	t.SessionId, t.ClientId, t.AppId = session.ID, a.client.ClientID, a.client.ID
	t.Audience, t.AuthTime, t.Amr, t.Claims = a.scopes.audience(a.client.ClientID, a.client.ProjectID), session.AuthTime.Unix(), session.AMR, a.claims.names
	parts := a.client.tokenParts(a.scopes, t.Claims)
	if a.req.ResponseType == responseIDToken {
		parts |= a.scopes.parts()
	}
	found, err := a.state(about{user: t.UserId, generation: &session.Generation, session: t.SessionId, projects: t.Audience, parts: parts})
	if err != nil {
		return err
	}
	if found == nil {
		return refuse("login_required", "the user has to sign in")
	}
	i := &issuance{access: t, scopes: a.scopes, state: found, client: a.client, jwt: a.client.AccessTokenType == jwtAccessTokens, id: true, nonce: a.req.Nonce}
	params := url.Values{"token_type": {"Bearer"}, "scope": {strings.Join(a.scopes.list, " ")}}
	access := ""
	if a.req.ResponseType != responseIDToken {
		if access, err = a.accessToken(i); err != nil {
			return err
		}
		params.Set("access_token", access)
		params.Set("expires_in", seconds(accessLife))
	}
	idToken, err := a.idToken(i, access)
	if err != nil {
		return err
	}
	params.Set("id_token", idToken)
	if access == "" {
		params.Set("expires_in", seconds(idLife))
	}
	if err := a.audit.add(a.ctx(), event.Event{
		InstanceID: a.instance.ID, ObjectID: t.GetId(), Creator: t.GetUserId(), Owner: ofOrg(found.OrgID), At: a.now,
		Payload: &eventv1.OIDCSessionAccessTokenAdded{UserId: t.GetUserId(), ClientId: t.GetClientId(), GrantType: "implicit", Scopes: a.scopes.list},
	}); err != nil {
		return err
	}
	a.send(params)
	return nil
}
