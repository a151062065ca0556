// Package endpoint holds what the endpoints of the provider share: to which tenant a
// request came, what is wrong with one that is refused, and how that is answered.
package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/oidc/login"
)

// The paths of the endpoints (contracts/openapi/oauth.yaml).
const (
	PathConfiguration = "/.well-known/openid-configuration"
	PathAuthorize     = "/oauth/v2/authorize"
	PathToken         = "/oauth/v2/token"
	PathIntrospect    = "/oauth/v2/introspect"
	PathRevoke        = "/oauth/v2/revoke"
	PathKeys          = "/oauth/v2/keys"
	PathUserInfo      = "/oidc/v1/userinfo"
	PathEndSession    = "/oidc/v1/end_session"
)

// Env is what every endpoint needs; every field is required.
type Env struct {
	resource.Env
	// Instance finds the tenant of a Host header (policy.Chain).
	Instance func(ctx context.Context, host string) (*policy.Instance, error)
	// Issuer returns the issuer of a request: scheme, host and port (OpenID Connect
	// Discovery, section 3).
	Issuer func(host string, instance *policy.Instance) string
	// Refuse answers a request that has no tenant, as the resource API does.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	Pages  *login.Pages
	Logger *slog.Logger
	// Dev shows developers what anybody else is not told.
	Dev bool
}

// Site is where and when a request came: the tenant, under which issuer, and the time
// that all of the request goes by.
type Site struct {
	*policy.Instance
	Issuer string
	Now    time.Time
}

// At returns the site of a request to a host of an instance.
func (e *Env) At(ctx context.Context, host string, instance *policy.Instance) Site {
	policy.RequestFrom(ctx).Instance = instance.ID
	return Site{instance, e.Issuer(host, instance), e.Now()}
}

// Begin returns the site of a request; it is false when there is no tenant, which is
// then answered.
func (e *Env) Begin(w http.ResponseWriter, r *http.Request) (Site, bool) {
	instance, err := e.Instance(r.Context(), r.Host)
	if err != nil {
		e.Refuse(w, r, err)
		return Site{}, false
	}
	return e.At(r.Context(), r.Host, instance), true
}

// BeginPage is Begin for endpoints that people look at.
func (e *Env) BeginPage(w http.ResponseWriter, r *http.Request) (Site, bool) {
	if r.Method == http.MethodHead { // it has to change nothing, and these pages do nothing else
		e.RefuseMethod(w, r, "GET, POST")
		return Site{}, false
	}
	at, ok := e.Begin(w, r)
	if ok {
		w.Header()["Cache-Control"] = NoStore
	}
	return at, ok
}

// Note adds to the access line of a request what the client is not told. It quotes
// nothing of the request, which may hold a secret where none belongs.
func Note(ctx context.Context, format string, args ...any) {
	request := policy.RequestFrom(ctx)
	if request.Reason != "" {
		request.Reason += "; "
	}
	request.Reason += fmt.Sprintf(format, args...)
}

// From notes the client that a request comes from: then what was wrong with it as
// another kind of client is no matter.
func From(ctx context.Context, client string) {
	request := policy.RequestFrom(ctx)
	request.Client, request.Reason = client, ""
}
