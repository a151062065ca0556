// Package login is what people see of the OpenID provider: the pages on which they
// sign in, register, choose an account, reset a password and sign out, and the
// sessions of their browsers.
//
// Package authorize decides what an authorization request needs and calls Begin; the
// pages authenticate the user, step by step, and call Finish. A login that is
// under way is nowhere stored: it travels sealed through the browser that began it and is
// bound to that browser's cookie (SEC-142). What the user has proven is in the session
// (package session), never in the flow.
//
// This package is the adapter to HTTP: a visit reads the request, has a step taken and writes
// what comes of it. The rooms below know nothing of HTTP:
//
//	flow          the state machine: what was asked, states, events, what is due; the table of pages
//	step          what each page asks, and what it does with the answer
//	federation    identity providers: the round trip, and the verdict on who comes back
//	browser       cookies, sessions, what is proven in them, known browsers
//	page          what pages look like
//	code, password, registration, rule
//
// A GET changes nothing; a POST checks and answers with 303, or with its page and what is
// wrong. From every page that a client waits behind there is a way back to it without a
// user: /login/cancel -> Cancel. Checks, counters and events are those of the services that
// the API has.
package login

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/api/idplink"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/throttle"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/federation"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/password"
	"github.com/writ-id/writ/impl/oidc/login/registration"
	"github.com/writ-id/writ/impl/oidc/login/rule"
	"github.com/writ-id/writ/impl/oidc/login/step"
)

// Config holds what Pages need; every field is required.
type Config struct {
	resource.Env
	Roles    *policy.Roles
	Sessions *session.Service
	Users    *user.Service
	Links    *idplink.Service
	Box      *token.Box
	Logger   *slog.Logger
	// Upstreams are the identity providers, Upstream speaks to them.
	Upstreams federation.Upstreams
	Upstream  *upstream.Client
	// Tries are those of strangers, by the address that they come from; nil: any number.
	Tries *throttle.Throttle
	// Instance finds the tenant of a request.
	Instance func(r *http.Request) (*policy.Instance, error)
	// Issuer is the origin that a request was made to: scheme, host and port.
	Issuer func(r *http.Request) string
}

// Provider is what people sign in for: the authorization requests that led to the pages.
type Provider interface {
	// Finish goes on with an authorization request when the session meets what the
	// flow asks for. It writes the answer.
	Finish(w http.ResponseWriter, r *http.Request, instance *policy.Instance, f *flow.Flow, session *Session)
	// Cancel answers an authorization request whose user does not want to sign in. It
	// writes the answer.
	Cancel(w http.ResponseWriter, r *http.Request, instance *policy.Instance, f *flow.Flow)
	// Asks returns what the user of a session is asked to let the application of a flow do; nil
	// when nothing is left to be asked. host is the one that the request was made to.
	Asks(ctx context.Context, host string, instance *policy.Instance, f *flow.Flow, session *Session) (*step.Consent, error)
}

// Session is an authenticated session of a browser: of a user who can sign in now,
// with every factor that the user has to prove.
type Session struct {
	ID          string
	UserID      string
	OrgID       string
	Generation  int32 // of the user: what was ended since does not count any more
	LoginName   string
	DisplayName string
	AuthTime    time.Time // when the user last authenticated actively
	AMR         []string  // how (RFC 8176): pwd, fed, otp, sms, mfa
	IDPID       string    // with which identity provider, if with one
}

// sessionOf returns a complete session as the endpoints see it.
func sessionOf(k *flow.Session, now time.Time) *Session {
	return &Session{
		ID: k.ID, UserID: k.UserID, OrgID: k.OrgID, Generation: k.Generation, LoginName: k.LoginName, DisplayName: k.DisplayName,
		AuthTime: k.AuthTime(now), AMR: k.AMR(now), IDPID: k.Provider(now),
	}
}

// Pages serves the pages. It is safe for concurrent use.
type Pages struct {
	Config
	queries       *db.Queries
	browsers      *browser.Browsers
	renderer      *page.Renderer
	registrations *registration.Service
	federation    *federation.Service
	steps         *step.Steps
	lives         *lifetime.Reader
}

// New returns Pages over c.
func New(c Config) *Pages {
	rule.Prepare()
	p := &Pages{Config: c, queries: db.New(), renderer: page.NewRenderer(c.DB, c.Now), lives: lifetime.NewReader(c.DB)}
	codes := code.New(c.Env)
	p.browsers = browser.New(browser.Config{Env: c.Env, Roles: c.Roles, Sessions: c.Sessions, Box: c.Box, Lives: p.lives})
	p.registrations = registration.New(registration.Config{Env: c.Env, Roles: c.Roles, Sessions: c.Sessions, Users: c.Users, Links: c.Links, Codes: codes})
	p.federation = federation.New(federation.Config{
		Env: c.Env, Users: c.Users, Links: c.Links, Registrations: p.registrations, Box: c.Box, Logger: c.Logger,
		Upstreams: c.Upstreams, Upstream: c.Upstream,
	})
	p.steps = step.New(step.Config{
		Env: c.Env, Users: c.Users, Codes: codes, Registrations: p.registrations, Federation: p.federation,
		Passwords: &password.Service{DB: c.DB, Roles: c.Roles, Users: c.Users, Codes: codes},
	})
	c.Memory.Holds(p.Forget)
	return p
}

// Forget drops what is remembered of settings and domains.
func (p *Pages) Forget() {
	p.renderer.Forget()
	p.steps.Forget()
	p.lives.Drop()
}

// Languages returns the languages that the pages of an instance are shown in, the
// default one first; during an outage what was known last.
func (p *Pages) Languages(r *http.Request, instance *policy.Instance) []string {
	return p.renderer.Languages(r.Context(), instance.ID)
}

// Sweep deletes those who registered and never verified their address, and tries of
// browsers that do not count any more. It returns how many registrations that were, at
// most batch.
func (p *Pages) Sweep(ctx context.Context, before time.Time, batch int32) (int64, error) {
	if _, err := p.queries.SweepBrowserTries(ctx, p.DB.Pool, db.SweepBrowserTriesParams{Before: before, Batch: batch}); err != nil {
		return 0, err
	}
	return p.registrations.Sweep(ctx, before, batch)
}

// Handler serves what is below /login, for a provider that is made of these pages.
func (p *Pages) Handler(provider Provider) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == flow.PathStyle {
			serveStyle(w, r)
			return
		}
		if err := p.serve(w, r, provider); err != nil {
			p.fail(w, r, err)
		}
	})
}

// serve serves a page: one that belongs to no login, or a step of one.
func (p *Pages) serve(w http.ResponseWriter, r *http.Request, provider Provider) error {
	path := r.URL.Path
	if strings.HasPrefix(path, flow.PathCallback+"/") { // of one provider
		path = flow.PathCallback
	}
	apart := map[string]func(http.ResponseWriter, *http.Request, *policy.Instance, Provider) error{
		flow.PathBegin: p.takeUp, flow.PathDoor: p.door, flow.PathCallback: p.callback, flow.PathSignedOut: p.signedOut,
	}[path]
	shown := flow.PageAt(path)
	if apart == nil && shown == nil {
		return refuse(http.StatusNotFound, "not_found")
	}
	policy.RequestFrom(r.Context()).Route = path
	instance, err := p.Instance(r)
	if err != nil {
		return err
	}
	policy.RequestFrom(r.Context()).Instance = instance.ID
	if apart != nil {
		return apart(w, r, instance, provider)
	}
	if r.Method != http.MethodPost && (shown.Posts || r.Method != http.MethodGet && r.Method != http.MethodHead) {
		w.Header().Set("Allow", "GET, HEAD, POST")
		return refuse(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	return p.visit(w, r, instance, provider).serve(shown)
}
