package oauth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/form"
)

// GetUserInfo returns the claims of the user of an access token (OpenID Connect
// Core, section 5.3; document 2, "userinfo_endpoint").
func (s *Server) GetUserInfo(w http.ResponseWriter, r *http.Request) {
	if c := s.begin(w, r); c != nil {
		c.userinfo("")
	}
}

// PostUserInfo is GetUserInfo with the token in the header or the form.
func (s *Server) PostUserInfo(w http.ResponseWriter, r *http.Request) {
	c := s.begin(w, r)
	if c == nil {
		return
	}
	var req oauth.UserInfoRequest
	if r.Header.Get("Content-Type") != "" { // no body is no form
		if err := form.Body(w, r, &req); err != nil {
			c.fail(err)
			return
		}
	}
	c.userinfo(req.AccessToken)
}

func (c *call) userinfo(formToken string) {
	text, refusal := c.bearer(formToken)
	if refusal != nil {
		c.failBearer(refusal)
		return
	}
	body, err := c.userClaims(text)
	switch {
	case errors.Is(err, errNoOpenID):
		c.failBearer(errNoOpenID)
	case err != nil:
		c.fail(err)
	case body == nil:
		c.failBearer(&Refusal{string(oauth.InvalidToken), "the access token is not good", http.StatusUnauthorized})
	default:
		c.answerText(http.StatusOK, body)
	}
}

// bearer returns the access token of a request, from the header or the form, never
// from the query (RFC 6750, section 2; SEC-121).
func (c *call) bearer(formToken string) (string, *Refusal) {
	headers := c.r.Header["Authorization"]
	switch {
	case len(headers) > 1 || len(headers) == 1 && formToken != "":
		return "", invalidRequest("the access token is there more than once")
	case len(headers) == 0 && formToken == "":
		return "", &Refusal{string(oauth.InvalidRequest), "the access token is missing", http.StatusUnauthorized}
	case len(headers) == 0:
		return formToken, nil
	}
	scheme, text, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "bearer") || text == "" {
		return "", &Refusal{string(oauth.InvalidToken), "the Authorization header holds no bearer token", http.StatusUnauthorized}
	}
	return strings.Trim(text, " "), nil
}

// failBearer refuses an access token (RFC 6750, section 3). A request that shows
// none learns no more than how to authenticate.
func (c *call) failBearer(refusal *Refusal) {
	_ = c.refusalOf(c.r, refusal)
	challenge := `Bearer realm="` + c.issuer + `"`
	if refusal.Code != string(oauth.InvalidRequest) {
		challenge += `, error="` + refusal.Code + `", error_description="` + refusal.Description + `"`
	}
	if refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden {
		c.w.Header().Set("WWW-Authenticate", challenge)
	}
	c.answer(refusal.Status, &oauth.OAuthError{Error: oauth.OAuthErrorError(refusal.Code), ErrorDescription: refusal.Description})
}

// errNoOpenID is the answer to tokens of requests that were none of OpenID Connect (RFC
// 6750, section 3.1).
var errNoOpenID = &Refusal{string(oauth.InsufficientScope), "the access token lacks the scope openid", http.StatusForbidden}

// userClaims returns the claims as JSON; nil when the token is not good.
func (c *call) userClaims(text string) ([]byte, error) {
	t, err := c.readAccess(text)
	if err == nil && t == nil {
		t, err = c.patToken(text, nil)
	}
	if err != nil || t == nil {
		return nil, err
	}
	sc := sortScopes(t.GetScopes())
	what, asserted, project, reader := aboutToken(t, sc), false, "", ""
	if t.GetAppId() != "" {
		of, err := c.client(t.GetClientId())
		if err != nil || of == nil {
			return nil, err
		}
		asserted, project, reader = of.assertRoles, of.ProjectID, of.OrgID
	}
	projects, only := roleProjects(sc, project, asserted, t.GetAudience())
	if what.projects = projects; len(projects) > 0 {
		what.parts |= withRoles
	}
	found, err := c.stateOf(t, what)
	if err != nil || found == nil {
		return nil, err
	}
	if !sc.has(scopeOpenID) {
		return nil, errNoOpenID
	}
	o := newClaimSet()
	o.string("sub", found.ID)
	found.reader = reader
	found.appendClaims(o, sc, claimsAt(append(t.GetClaims(), found.Claims...), placeUserinfo))
	found.appendRoles(o, sc, project, projects, only)
	return o.end(), nil
}
