// Package federation signs people in by identity providers. A round trip (trip.go) ends with
// what the provider says; a verdict (verdict.go) says what becomes of that: a linked user is
// signed in, an account that nobody is linked to is offered to be linked (link.go) or becomes
// a new user (create.go), and all else is refused with a reason. A verdict is an event of the
// login; nothing here writes pages.
package federation

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/api/idplink"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/browser"
	"github.com/writ-id/writ/impl/oidc/login/flow"
	"github.com/writ-id/writ/impl/oidc/login/registration"
)

// Config holds what a Service needs; every field is required.
type Config struct {
	resource.Env
	Users         *user.Service
	Links         *idplink.Service
	Registrations *registration.Service
	Box           *token.Box
	Logger        *slog.Logger
	// Upstreams are the identity providers, Upstream speaks to them.
	Upstreams Upstreams
	Upstream  *upstream.Client
}

// Upstreams finds the identity providers that are active in a context: an organization, or
// with an empty orgID the instance.
type Upstreams interface {
	Active(ctx context.Context, instanceID, orgID string) ([]*upstream.Provider, error)
	// Provider returns one of them; nil when it is none of them.
	Provider(ctx context.Context, instanceID, orgID, id string) (*upstream.Provider, error)
}

// Service signs people in by identity providers. It is safe for concurrent use.
type Service struct {
	Config
	queries *db.Queries
	buttons *cache.Cache[string, []Button]
}

// New returns a Service over c.
func New(c Config) *Service {
	return &Service{c, db.New(), cache.New[string, []Button](func(id string) string { return id }).By(c.Now)}
}

// Login is a login, in the browser that it goes on in.
type Login struct {
	Flow     *flow.Flow
	Browser  *browser.Browser
	Language string // of the pages
}

func (l *Login) instance() string { return l.Browser.Instance.ID }

// Button is an identity provider on a page.
type Button struct{ ID, Name string }

// Buttons returns the identity providers that count in a login, remembered as the providers
// are; during an outage what was known last. A login that links an account has come from one.
func (s *Service) Buttons(ctx context.Context, l *Login) ([]Button, error) {
	if l.Flow.Link() != nil {
		return nil, nil
	}
	home := l.Flow.Home()
	return s.buttons.GetOrLast(ctx, l.instance()+"\x00"+home, nil, func(ctx context.Context) (all []Button, err error) {
		active, err := s.Upstreams.Active(ctx, l.instance(), home)
		for _, one := range active {
			all = append(all, Button{one.ID, one.Name})
		}
		return all, err
	})
}

// provider returns a provider that is active in an organization, or nil.
func (s *Service) provider(ctx context.Context, l *Login, orgID, id string) (*upstream.Provider, error) {
	if id == "" {
		return nil, nil
	}
	return s.Upstreams.Provider(ctx, l.instance(), orgID, id)
}

// Found is an account that no user is linked to, with its provider as that is now.
type Found struct {
	*tokenv1.External
	Provider *upstream.Provider
	// MayCreate says whether the login can end with a new user.
	MayCreate bool
}

// Find returns the account that a login goes on with. It is refused when it is too old, and
// when its provider is not what it was.
func (s *Service) Find(ctx context.Context, l *Login, account *tokenv1.External) (*Found, flow.Event, error) {
	if account == nil || s.Now().Sub(time.Unix(account.GetEndedAt(), 0)) >= upstream.Lifetime {
		return nil, flow.Refused{Reason: "idp_expired"}, nil
	}
	p, err := s.provider(ctx, l, l.Flow.Home(), account.GetProviderId())
	if err != nil {
		return nil, nil, err
	}
	if p == nil || p.Realm() != account.GetRealm() {
		return nil, errGone, nil
	}
	return &Found{account, p, mayCreate(l, p)}, nil, nil
}

// errGone refuses a provider that is none here any more.
var errGone = flow.Refused{Reason: "idp_gone"}

// mayCreate reports whether a login by a provider can end with a new user.
func mayCreate(l *Login, p *upstream.Provider) bool {
	return (p.Creation || p.AutoCreation) && l.Flow.Asked().UserID == "" && cmp.Or(l.Flow.Home(), l.Browser.Instance.DefaultOrg) != ""
}
