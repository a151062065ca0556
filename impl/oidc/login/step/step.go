// Package step asks and checks: each step of a login is one page that asks for something, and
// what is done with the answer. What is due is not decided here (package flow), nothing is
// drawn (package page), and nothing is known of HTTP: a step gets a Request and returns an
// Answer, which is a page or an event of the login.
package step

import (
	"context"
	"fmt"
	"net/url"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/federation"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/page"
	"github.com/writ-id/writ/impl/oidc/login/password"
	"github.com/writ-id/writ/impl/oidc/login/registration"
)

// Config holds what Steps need; every field is required.
type Config struct {
	resource.Env
	Users         *user.Service
	Codes         *code.Codes
	Passwords     *password.Service
	Registrations *registration.Service
	Federation    *federation.Service
}

// Steps are the steps of logins. They are safe for concurrent use.
type Steps struct {
	Config
	queries  *db.Queries
	domains  *cache.Cache[string, string] // whose a verified domain is
	handlers map[string]Handler
}

// Handler is what a page does: Show asks, Take takes the answer.
type Handler struct {
	Show, Take func(context.Context, *Request) (Answer, error)
}

// New returns Steps over c.
func New(c Config) *Steps {
	s := &Steps{Config: c, queries: db.New(), domains: cache.New[string, string](func(id string) string { return id }).By(c.Now)}
	s.handlers = map[string]Handler{
		flow.PathName:     {s.showName, s.takeName},
		flow.PathPassword: {s.showPassword, s.takePassword},
		flow.PathTOTP:     s.factor(factors[0]),
		flow.PathSMS:      s.factor(factors[1]),
		flow.PathEmail:    s.factor(factors[2]),
		flow.PathChange:   {s.showChange, s.takeChange},
		flow.PathAccounts: {s.showAccounts, s.takeAccount},
		flow.PathRegister: {s.showRegister, s.takeRegister},
		flow.PathVerify:   {s.showVerify, s.takeVerify},
		flow.PathForgot:   {s.showForgot, s.takeForgot},
		flow.PathReset:    {s.showReset, s.takeReset},
		flow.PathConsent:  {s.showConsent, s.takeConsent},
		flow.PathExternal: {Take: s.takeExternal},
		flow.PathUnlinked: {s.showUnlinked, s.takeUnlinked},
		flow.PathLink:     {Take: s.takeLink},
		flow.PathCreate:   {s.showCreate, s.takeCreate},
		flow.PathCancel:   {Take: takeCancel},
	}
	for _, one := range flow.Pages {
		if made, ok := s.handlers[one.Path]; !ok || made.Take == nil || one.Posts != (made.Show == nil) {
			panic(fmt.Sprintf("the page %s of the table has not the step that it says", one.Path)) // a defect that the first start finds
		}
	}
	return s
}

// Of returns what a page does.
func (s *Steps) Of(p *flow.Page) Handler { return s.handlers[p.Path] }

// Forget drops what is remembered of domains.
func (s *Steps) Forget() { s.domains.Drop() }

// Request is what a browser brings to a step. A step changes none of it but cookies of the
// browser.
type Request struct {
	Flow    *flow.Flow
	Browser *browser.Browser
	Session *browser.Session // that is due, on a page that opens when it is; else nil
	Form    url.Values       // of an answer
	Words   page.Words
	// Asks returns what the user of a session is asked to let the application do; nil when
	// nothing is left to be asked.
	Asks func(ctx context.Context, k *flow.Session) (*Consent, error)
}

// login is the request as package federation has it.
func (q *Request) login() *federation.Login {
	return &federation.Login{Flow: q.Flow, Browser: q.Browser, Language: q.Words.Language()}
}

// Answer is what comes of a step. The zero Answer goes on with whatever is due.
type Answer struct {
	Page     *page.Page // asks, with what is wrong with the answer before
	Mistakes []page.Mistake
	Event    flow.Event // what has happened
	To       string     // the path of a page that is not due but wished for
	Address  string     // an address elsewhere
	Cancel   bool       // goes back to the client, without a user
	Counts   bool       // the try counts: it was wrong, or had a message sent
}

// ask asks for something.
func ask(p *page.Page) (Answer, error) { return Answer{Page: p}, nil }

// again asks once more: the answer cannot be like that.
func again(p *page.Page, mistakes ...page.Mistake) (Answer, error) {
	return Answer{Page: p, Mistakes: mistakes}, nil
}

// wrong asks once more after a try that counts.
func wrong(p *page.Page, mistakes ...page.Mistake) (Answer, error) {
	return Answer{Page: p, Mistakes: mistakes, Counts: true}, nil
}

// takeCancel goes back to who began the login, without a user. It is a form, because
// browsers follow links before anybody does (prefetch), and one of its own, because
// nothing else has to be filled in. What was proven so far stays in the session,
// as when the window is closed.
func takeCancel(_ context.Context, q *Request) (Answer, error) {
	if q.Flow.Asked().Request == "" { // nobody waits
		return Answer{To: flow.PathName}, nil
	}
	return Answer{Cancel: true}, nil
}

// withProviders adds the buttons of the identity providers that count in the login.
func (s *Steps) withProviders(ctx context.Context, q *Request, p *page.Page) (*page.Page, error) {
	offered, err := s.Federation.Buttons(ctx, q.login())
	for _, one := range offered {
		p.Providers = append(p.Providers, page.Link{Text: q.Words.Get("external.continue", one.Name), Href: one.ID})
	}
	return p, err
}

// canMail refuses what would send an e-mail when nobody would carry it on: to users of an
// organization, or of any when none is named. It is asked before a user is looked for, so
// that its answer is the same for all (SEC-170).
func (s *Steps) canMail(ctx context.Context, q *Request, orgID string) error {
	return message.CanSend(ctx, s.DB.Pool, &s.Env, message.Email, q.Browser.Instance.ID, orgID)
}
