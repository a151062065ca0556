// Package browser knows the browsers of people: their cookies, the sessions in them, what is
// proven in those, to whom they are known and which tries they have had.
package browser

import (
	"context"
	"time"

	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/api/lifetime"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// Config holds what Browsers need; every field is required.
type Config struct {
	resource.Env
	Roles    *policy.Roles
	Sessions *session.Service
	Box      *token.Box
	// Lives says how long sessions last.
	Lives *lifetime.Reader
}

// Browsers finds and changes what is known of browsers. It is safe for concurrent use.
type Browsers struct {
	Config
	queries *db.Queries
}

// New returns Browsers over c.
func New(c Config) *Browsers { return &Browsers{c, db.New()} }

// Request is what is known of the request of a browser.
type Request struct {
	Instance *policy.Instance
	Jar      *Jar
	Host     string                   // that it was made to
	Origin   func(host string) string // of the pages on a host
	Agent    *sessionv3.UserAgent     // as sessions have it
}

// Browser is the browser of one request.
type Browser struct {
	*Browsers
	Request
	Began    time.Time // before anything is proven
	sessions []Session // once they were read
}

// Of returns the browser of a request.
func (b *Browsers) Of(r Request) *Browser { return &Browser{Browsers: b, Request: r, Began: b.Now()} }

// Session is a session of a browser.
type Session struct {
	flow.Session
	FailedFactors      int32 // tries of second factors
	FailedFactorsUntil time.Time
	expires            *time.Time
	token              string
}

// As returns a context in which the product acts in the name of a user.
func (b *Browser) As(ctx context.Context, orgID, userID string) context.Context {
	return policy.As(ctx, policy.In(b.Instance.ID, orgID), userID, b.Roles)
}
