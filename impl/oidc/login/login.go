// Package login is what people see of the OpenID provider: the pages on which they
// sign in, register, choose an account, reset a password and sign out, and the
// sessions of their browsers.
//
// Package oauth decides what an authorization request needs and calls Begin; the
// pages authenticate the user, step by step, and call Finish. A login that is
// under way (Flow) is nowhere stored: it travels sealed through the browser that
// began it, is bound to that browser's cookie and to nothing else good (SEC-142).
// What the user has proven is in the session (package session), never in the flow.
//
//	Begin -> /login -> /login/password -> /login/totp, /sms or /email -> /login/change-password -> Finish
//	      -> /login/accounts --------------^ (what the session of the account lacks)
//	      -> /login/register -> /login/verify -------------------------------------------------^
//	         /login/forgot -> /login/reset -> /login/password
//	      -> /login/idp -> the provider -> /login/idp/callback -> Finish, or the second factor
//	         (external.go)                       '-> /login/idp/account -> /login/idp/register, or
//	                                                 /login/password to link
//
// Before Finish an application that nobody trusts asks, at /login/consent, for what it wants
// to do at the resource API (consent.go).
//
// From every page that a client waits behind there is a way back to it without a
// user: /login/cancel -> Cancel.
//
// Which page is next is decided in one place, visit.next, from what is stored. A GET
// changes nothing; a POST checks and answers with 303, or with its page and what is
// wrong. Checks, counters and events are those of the services that the API has.
package login

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/idplink"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/throttle"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/password"
	"github.com/writ-id/writ/impl/oidc/login/registration"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// Config holds what Pages need; every field is required.
type Config struct {
	resource.Env
	Roles    *policy.Roles
	Sessions *session.Service
	Users    *user.Service
	Links    *idplink.Service
	Box      *token.Box
	Sealer   secret.Sealer
	Logger   *slog.Logger
	// Upstreams are the identity providers, Upstream speaks to them.
	Upstreams Upstreams
	Upstream  *upstream.Client
	// Tries are those of strangers, by the address that they come from; nil: any number.
	Tries *throttle.Throttle
	// Instance finds the tenant of a request.
	Instance func(r *http.Request) (*policy.Instance, error)
	// Issuer is the origin that a request was made to: scheme, host and port.
	Issuer func(r *http.Request) string
}

// Upstreams finds the identity providers that are active in a context: an organization, or
// with an empty orgID the instance.
type Upstreams interface {
	Active(ctx context.Context, instanceID, orgID string) ([]*upstream.Provider, error)
	// Provider returns one of them; nil when it is none of them.
	Provider(ctx context.Context, instanceID, orgID, id string) (*upstream.Provider, error)
}

// Provider is what people sign in for: the authorization requests that led to the pages.
type Provider interface {
	// Finish goes on with an authorization request when the session meets what the
	// flow asks for. It writes the answer.
	Finish(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow, session *Session)
	// Cancel answers an authorization request whose user does not want to sign in. It
	// writes the answer.
	Cancel(w http.ResponseWriter, r *http.Request, instance *policy.Instance, flow *tokenv1.Flow)
	// Asks returns what the user of a session is asked to let the application of a flow do; nil
	// when nothing is left to be asked.
	Asks(r *http.Request, instance *policy.Instance, flow *tokenv1.Flow, session *Session) (*Consent, error)
}

// Session is an authenticated session of a browser: of a user who can sign in now,
// with every factor that the user has to prove.
type Session struct {
	ID          string
	UserID      string
	OrgID       string
	Generation  int32 // of the user: what was ended since is good no more
	LoginName   string
	DisplayName string
	AuthTime    time.Time // when the user last authenticated actively
	AMR         []string  // how (RFC 8176): pwd, fed, otp, sms, mfa
	IDPID       string    // with which identity provider, if with one
}

// Problem is what an error page tells: a stable code, such as an OAuth error, and
// words that name the problem.
type Problem struct {
	Status      int
	Code        string
	Description string

	// An address that is none of those registered, shown in development.
	Received   string
	Registered []string
}

// Pages serves the pages. It is safe for concurrent use.
type Pages struct {
	Config
	queries       *db.Queries
	codes         *code.Codes
	passwords     *password.Service
	registrations *registration.Service
	buttons       *cache.Cache[string, []button] // of the same
	scenes        *cache.Cache[string, *scene]   // of instances and organizations
	domains       *cache.Cache[string, string]   // whose a verified domain is
	lives         *lifetime.Reader
	sheets        sheets
}

// New returns Pages over c.
func New(c Config) *Pages {
	rule.Prepare()
	codes := code.New(c.Env)
	pages := &Pages{
		Config: c, queries: db.New(), codes: codes,
		passwords:     &password.Service{DB: c.DB, Roles: c.Roles, Users: c.Users, Codes: codes},
		registrations: registration.New(registration.Config{Env: c.Env, Roles: c.Roles, Sessions: c.Sessions, Users: c.Users, Links: c.Links, Codes: codes}),
		buttons:       cache.New[string, []button](func(id string) string { return id }).By(c.Now),
		scenes:        cache.New[string, *scene](func(id string) string { return id }).By(c.Now),
		domains:       cache.New[string, string](func(id string) string { return id }).By(c.Now),
		lives:         lifetime.NewReader(c.DB),
	}
	c.Memory.Holds(pages.Forget)
	return pages
}

// A step is a page: how it is shown and, when it has a form, how that is taken.
// The tries of a tried one count for the address that they come from, unless they are right.
type step struct {
	show, take func(*visit) error
	tried      bool
}

// The paths of the pages.
const (
	pathBegin    = "/login/begin"
	pathName     = "/login"
	pathPassword = "/login/password"
	pathTOTP     = "/login/totp"
	pathSMS      = "/login/sms"
	pathEmail    = "/login/email"
	pathChange   = "/login/change-password"
	pathAccounts = "/login/accounts"
	pathRegister = "/login/register"
	pathVerify   = "/login/verify"
	pathForgot   = "/login/forgot"
	pathReset    = "/login/reset"
	pathConsent  = "/login/consent"
	pathCancel   = "/login/cancel"
	pathDoor     = "/login/door"
	pathStyle    = "/login/style.css"

	pathExternal    = "/login/idp" // the first of those of identity providers
	pathCallback    = "/login/idp/callback"
	pathUnknown     = "/login/idp/account"
	pathLink        = "/login/idp/link"
	pathNewExternal = "/login/idp/register"
	pathSignedOut   = "/login/idp/signedout"
)

// Handler serves what is below /login, for a provider that is made of these pages.
func (p *Pages) Handler(provider Provider) http.Handler {
	steps := map[string]step{
		pathBegin:    {}, // which only sends the browser on
		pathName:     {showName, takeName, false},
		pathPassword: {showPassword, takePassword, true},
		pathAccounts: {showAccounts, takeAccount, false},
		pathChange:   {showChange, takeChange, true},
		pathRegister: {showRegister, takeRegister, true},
		pathVerify:   {showVerify, takeVerify, true},
		pathForgot:   {showForgot, takeForgot, true},
		pathReset:    {showReset, takeReset, true},
		pathConsent:  {showConsent, takeConsent, false},
		pathCancel:   {take: takeCancel}, // no page: a form on all the others
		pathDoor:     {},                 // which belongs to no login

		pathExternal:    {take: takeExternal},
		pathCallback:    {}, // which brings its login along
		pathSignedOut:   {}, // which belongs to none
		pathUnknown:     {showUnknown, takeUnknown, false},
		pathLink:        {take: takeLink},
		pathNewExternal: {showNewExternal, takeNewExternal, true},
	}
	for _, one := range factorPages {
		steps[one.path] = one.step()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathStyle {
			serveStyle(w, r)
			return
		}
		path := r.URL.Path
		if strings.HasPrefix(path, pathCallback+"/") { // of one provider
			path = pathCallback
		}
		s, ok := steps[path]
		if !ok {
			p.Error(w, r, Problem{Status: http.StatusNotFound, Code: "not_found"})
			return
		}
		policy.RequestFrom(r.Context()).Route = path
		if err := p.serve(w, r, s, provider); err != nil {
			p.fail(w, r, err)
		}
	})
}
