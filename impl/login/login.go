// Package login is what people see of the OpenID provider: the pages on which they
// sign in, register, choose an account, reset a password and sign out, and the
// sessions of their browsers.
//
// Package oauth decides what an authorization request needs and calls Begin; the
// pages authenticate the user, step by step, and call Finish. A login that is
// under way (Flow) is nowhere stored: it travels sealed through the browser that
// began it, is bound to that browser's cookie and to nothing else good (SEC-142).
// What the user has proven is in the session (package session), never in the flow.
package login

import (
	"net/http"
	"net/url"
	"time"

	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/session"
	"github.com/writ-id/writ/impl/token"
	"github.com/writ-id/writ/impl/user"
)

// Config holds what Pages need; every field is required.
type Config struct {
	resource.Env
	Roles    *policy.Roles
	Sessions *session.Service
	Users    *user.Service
	Box      *token.Box
	Sealer   secret.Sealer
	// Instance finds the tenant of a request.
	Instance func(r *http.Request) (*policy.Instance, error)
	// Issuer is the origin that a request was made to: scheme, host and port.
	Issuer func(r *http.Request) string
	// Finish goes on with an authorization request when the session meets what the
	// flow asks for. It writes the answer.
	Finish func(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow, session *Session)
}

// Session is an authenticated session of a browser: of a user who can sign in now,
// with every factor that the user has to prove.
type Session struct {
	ID          string
	UserID      string
	OrgID       string
	LoginName   string
	DisplayName string
	AuthTime    time.Time // when the user last authenticated actively
	AMR         []string  // how (RFC 8176): pwd, otp, sms, mfa
}

// Problem is what an error page tells: a stable code, such as an OAuth error, and
// words that name the problem.
type Problem struct {
	Status      int
	Code        string
	Description string
}

// Pages serves the pages. It is safe for concurrent use.
type Pages struct{ Config }

// New returns Pages over c.
func New(c Config) *Pages { return &Pages{c} }

// Browser returns the authenticated sessions of the browser, the newest first. It
// is one statement, or none without a cookie.
func (p *Pages) Browser(r *http.Request, instance *policy.Instance) ([]Session, error) {
	return nil, nil
}

// Begin sends the browser to the first page of a login: flow holds what the
// request asks for.
func (p *Pages) Begin(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow) {
}

// SignOut ends sessions of the browser, all of them when session is "", and takes
// their cookies away.
func (p *Pages) SignOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance, session string) error {
	return nil
}

// ConfirmSignOut shows the page that asks whether to sign out; its form posts the
// parameters to the same address again, with confirm=yes and a token that
// SignOutConfirmed checks.
func (p *Pages) ConfirmSignOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance, params url.Values) {
}

// SignOutConfirmed reports whether a request is the form of ConfirmSignOut, sent by
// the same browser.
func (p *Pages) SignOutConfirmed(r *http.Request, instance *policy.Instance, form url.Values) bool {
	return false
}

// SignedOut shows that the user is signed out.
func (p *Pages) SignedOut(w http.ResponseWriter, r *http.Request, instance *policy.Instance) {}

// Error shows an error page.
func (p *Pages) Error(w http.ResponseWriter, r *http.Request, problem Problem) {}

// Post shows the page that posts an authorization response to the client
// (OAuth 2.0 Form Post Response Mode): by itself, and by a button without scripts.
func (p *Pages) Post(w http.ResponseWriter, r *http.Request, action string, params url.Values) {}

// Handler serves what is below /login.
func (p *Pages) Handler() http.Handler { return http.NotFoundHandler() }
