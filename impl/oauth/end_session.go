package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/form"
	"github.com/writ-id/writ/impl/signing"
	"github.com/writ-id/writ/impl/token"
)

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// hint is an ID token that was issued here, however long ago.
type hint struct {
	userID, clientID, sessionID string
	id                          string // of the token of a service user

	ends     time.Time
	authTime int64
	amr      []string
	actor    []byte
}

// readHint reads an ID token hint: signed by a key that the instance has or had, for
// this issuer; nil when it is not (SEC-013, SEC-133).
func (c *call) readHint(text string) (*hint, error) {
	jwt, err := token.ParseJWT(text)
	if errors.Is(err, token.ErrInvalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys, err := c.Keys.Get(c.ctx(), c.instance.ID)
	if err != nil {
		return nil, err
	}
	issuer, _ := jwt.Claims.Text("iss")
	if !jwt.IsType(signing.IDToken) || jwt.Claims.Has("client_id") || !jwt.HintVerifiedBy(keys) || issuer != c.issuer { // with it, it is an access token
		return nil, nil
	}
	found := &hint{}
	found.userID, _ = jwt.Claims.Text("sub")
	found.sessionID, _ = jwt.Claims.Text("sid")
	found.clientID, _ = jwt.Claims.Text("azp")
	found.ends, _ = jwt.Claims.Time("exp")
	found.id, _ = jwt.Claims.Text("jti")
	if at, ok := jwt.Claims.Time("auth_time"); ok {
		found.authTime = at.Unix()
	}
	found.amr, found.actor = jwt.Claims.Texts("amr"), jwt.Claims["act"]
	if found.userID == "" || !slices.Contains(jwt.Claims.Texts("aud"), found.clientID) {
		return nil, nil
	}
	return found, nil
}

// hinted returns the user that a hint names, if it was issued to the client. What is
// no good hint names nobody; then nobody can be meant silently either.
func (a *authorization) hinted(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	found, err := a.readHint(text)
	if err != nil {
		return "", err
	}
	if found != nil && found.clientID == a.client.ClientID {
		return found.userID, nil
	}
	if a.asks(promptNone) {
		return "", refuse("login_required", "id_token_hint is not an ID token of this issuer for the client")
	}
	return "", nil
}

// Logout signs the user of the browser out (OpenID Connect RP-Initiated Logout;
// document 2, "end_session_endpoint").
func (s *Server) Logout(w http.ResponseWriter, r *http.Request) {
	if c := s.beginPage(w, r); c != nil {
		var req oauth.LogoutRequest
		err := form.Query(r.URL.RawQuery, &req)
		c.logout(&req, err)
	}
}

// LogoutForm is Logout with the parameters in a form.
func (s *Server) LogoutForm(w http.ResponseWriter, r *http.Request) {
	c := s.beginPage(w, r)
	if c == nil {
		return
	}
	var req oauth.LogoutRequest
	var err error
	if r.Header.Get("Content-Type") != "" || r.ContentLength > 0 {
		err = form.Body(w, r, &req)
	}
	c.logout(&req, err)
}

func (c *call) logout(req *oauth.LogoutRequest, err error) {
	var to string
	var known *hint
	if err == nil {
		to, known, err = c.afterLogout(req)
	}
	if err != nil {
		c.errorPage(err)
		return
	}
	params := url.Values{}
	for name, value := range map[string]string{
		"id_token_hint": req.IdTokenHint, "client_id": req.ClientId, "post_logout_redirect_uri": req.PostLogoutRedirectUri, "state": req.State, "ui_locales": req.UiLocales,
	} {
		if value != "" {
			params.Set(name, value)
		}
	}
	// Nobody but the user may end a session: a page of another site can send the browser
	// here, but who has no hint of the user has to ask them (SEC-131).
	confirmed := req.Confirm != "" && c.Pages.SignOutConfirmed(c.r, c.instance, url.Values{"form": {req.Form}, "confirm": {req.Confirm}})
	asks := known == nil || !navigates(c.r)
	if asks && !confirmed {
		c.Pages.ConfirmSignOut(c.w, c.r, c.instance, params)
		return
	}
	if err := c.signOut(known); err != nil {
		c.errorPage(err)
		return
	}
	if to == "" {
		c.Pages.SignedOut(c.w, c.r, c.instance)
		return
	}
	if req.State != "" {
		separator := "?"
		if strings.Contains(to, "?") {
			separator = "&"
		}
		to += separator + url.Values{"state": {req.State}}.Encode()
	}
	c.redirect(to)
}

// signOut ends the sessions of the browser: with a hint, those of its user.
func (c *call) signOut(known *hint) error {
	if known == nil {
		return c.Pages.SignOut(c.w, c.r, c.instance, "")
	}
	sessions, err := c.Pages.Browser(c.r, c.instance)
	if err != nil {
		return err
	}
	for _, session := range sessions {
		if session.UserID == known.userID {
			err = errors.Join(err, c.Pages.SignOut(c.w, c.r, c.instance, session.ID))
		}
	}
	return err
}

// navigates reports whether the user is looking at what is asked for: not a request
// that a page makes in passing, nor a frame. Browsers that do not say are believed.
func navigates(r *http.Request) bool {
	mode, dest, site := r.Header.Get("Sec-Fetch-Mode"), r.Header.Get("Sec-Fetch-Dest"), r.Header.Get("Sec-Fetch-Site")
	if mode != "" && mode != "navigate" || dest != "" && dest != "document" {
		return false
	}
	return r.Method == http.MethodGet || site == "" || site == "same-origin" || site == "none"
}

// afterLogout returns where the browser goes after a logout, "" when it stays, and
// the hint, if it is good. A hint that is not, and an address that is not
// registered, end nothing.
func (c *call) afterLogout(req *oauth.LogoutRequest) (string, *hint, error) {
	clientID := req.ClientId
	var known *hint
	if req.IdTokenHint != "" {
		var err error
		if known, err = c.readHint(req.IdTokenHint); err != nil {
			return "", nil, err
		}
		switch {
		case known == nil:
			return "", nil, invalidRequest("id_token_hint is not an ID token of this issuer")
		case clientID != "" && clientID != known.clientID:
			return "", nil, invalidRequest("client_id is not the client of id_token_hint")
		}
		clientID = known.clientID
	}
	if req.PostLogoutRedirectUri == "" {
		return "", known, nil
	}
	if clientID == "" {
		return "", nil, invalidRequest("post_logout_redirect_uri needs id_token_hint or client_id")
	}
	of, err := c.client(clientID)
	if err != nil {
		return "", nil, err
	}
	if of == nil || !of.registered(of.PostLogoutRedirectUris, req.PostLogoutRedirectUri) {
		return "", nil, invalidRequest("post_logout_redirect_uri is not registered for the application")
	}
	return req.PostLogoutRedirectUri, known, nil
}
