// Package logout serves the end session endpoint (OpenID Connect RP-Initiated Logout
// 1.0; document 2, "end_session_endpoint").
package logout

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/oidc/access"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/form"
	"github.com/writ-id/writ/impl/oidc/login"
)

// Endpoint signs browsers out. It is safe for concurrent use; every field is required.
type Endpoint struct {
	*endpoint.Env
	Clients *client.Directory
	Tokens  *access.Reader
}

// Logout signs the user of the browser out (OpenID Connect RP-Initiated Logout;
// document 2, "end_session_endpoint").
func (e *Endpoint) Logout(w http.ResponseWriter, r *http.Request) {
	if at, ok := e.BeginPage(w, r); ok {
		var req oauth.LogoutRequest
		err := form.Query(r.URL.RawQuery, &req)
		e.logout(w, r, at, &req, err)
	}
}

// LogoutForm is Logout with the parameters in a form.
func (e *Endpoint) LogoutForm(w http.ResponseWriter, r *http.Request) {
	at, ok := e.BeginPage(w, r)
	if !ok {
		return
	}
	var req oauth.LogoutRequest
	var err error
	if r.Header.Get("Content-Type") != "" || r.ContentLength > 0 {
		err = form.Body(w, r, &req)
	}
	e.logout(w, r, at, &req, err)
}

func (e *Endpoint) logout(w http.ResponseWriter, r *http.Request, at endpoint.Site, req *oauth.LogoutRequest, err error) {
	var to string
	var known *access.Hint
	if err == nil {
		to, known, err = e.after(r.Context(), at, req)
	}
	if err != nil {
		e.ErrorPage(w, r, err)
		return
	}
	params := url.Values{}
	for name, value := range map[string]string{
		"id_token_hint": req.IdTokenHint, "client_id": req.ClientId, "post_logout_redirect_uri": req.PostLogoutRedirectUri, "state": req.State, "ui_locales": req.UiLocales, "idp_logout": req.IdpLogout,
	} {
		if value != "" {
			params.Set(name, value)
		}
	}
	// Nobody but the user may end a session: a page of another site can send the browser
	// here, but who has no hint of the user has to ask them (SEC-131).
	confirmed := req.Confirm != "" && e.Pages.SignOutConfirmed(r, at.Instance, url.Values{"form": {req.Form}, "confirm": {req.Confirm}})
	asks := known == nil || !navigates(r)
	if asks && !confirmed {
		ending, err := e.ending(r, at, known)
		if err != nil {
			e.ErrorPage(w, r, err)
			return
		}
		e.Pages.ConfirmSignOut(w, r, at.Instance, params, ending)
		return
	}
	ended, err := e.signOut(w, r, at, known)
	if err != nil {
		e.ErrorPage(w, r, err)
		return
	}
	if to != "" && req.State != "" {
		separator := "?"
		if strings.Contains(to, "?") {
			separator = "&"
		}
		to += separator + url.Values{"state": {req.State}}.Encode()
	}
	if req.IdpLogout == "true" {
		if i := slices.IndexFunc(ended, func(session login.Session) bool { return session.IDPID != "" }); i >= 0 {
			to = cmp.Or(e.Pages.Onward(r, at.Instance, &ended[i], to), to)
		}
	}
	if to == "" {
		e.Pages.SignedOut(w, r, at.Instance)
		return
	}
	endpoint.Redirect(w, r, to)
}

// signOut ends the sessions of the browser: with a hint, those of its user. It returns
// which of them somebody was signed in with.
func (e *Endpoint) signOut(w http.ResponseWriter, r *http.Request, at endpoint.Site, known *access.Hint) ([]login.Session, error) {
	sessions, err := e.ending(r, at, known)
	if err != nil {
		return nil, err
	}
	if known == nil {
		return sessions, e.Pages.SignOut(w, r, at.Instance, "")
	}
	for _, session := range sessions {
		err = errors.Join(err, e.Pages.SignOut(w, r, at.Instance, session.ID))
	}
	return sessions, err
}

// ending returns with which sessions somebody is signed in in the browser that end: with a hint,
// those of its user.
func (e *Endpoint) ending(r *http.Request, at endpoint.Site, known *access.Hint) ([]login.Session, error) {
	sessions, err := e.Pages.Browser(r, at.Instance)
	if err != nil || known == nil {
		return sessions, err
	}
	return slices.DeleteFunc(sessions, func(session login.Session) bool { return session.UserID != known.UserID }), nil
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

// after returns where the browser goes after a logout, "" when it stays, and
// the hint, if it is good. A hint that is not, and an address that is not
// registered, end nothing.
func (e *Endpoint) after(ctx context.Context, at endpoint.Site, req *oauth.LogoutRequest) (string, *access.Hint, error) {
	clientID := req.ClientId
	var known *access.Hint
	if req.IdTokenHint != "" {
		var err error
		if known, err = e.Tokens.ReadHint(ctx, at, req.IdTokenHint); err != nil {
			return "", nil, err
		}
		switch {
		case known == nil:
			return "", nil, endpoint.InvalidRequest("id_token_hint is not an ID token of this issuer")
		case clientID != "" && clientID != known.ClientID:
			return "", nil, endpoint.InvalidRequest("client_id is not the client of id_token_hint")
		}
		clientID = known.ClientID
	}
	if req.PostLogoutRedirectUri == "" {
		return "", known, nil
	}
	if clientID == "" {
		return "", nil, endpoint.InvalidRequest("post_logout_redirect_uri needs id_token_hint or client_id")
	}
	of, err := e.Clients.Find(ctx, at.ID, clientID)
	if err != nil {
		return "", nil, err
	}
	if of == nil || !of.Registered(of.PostLogoutRedirectUris, req.PostLogoutRedirectUri) {
		return "", nil, endpoint.InvalidRequest("post_logout_redirect_uri is not registered for the application")
	}
	return req.PostLogoutRedirectUri, known, nil
}
