// Package oauth serves the OpenID Connect and OAuth 2.0 endpoints of document 2:
// contracts/openapi/oauth.yaml says which.
//
// A request is read into its type of the contract (package form), the client is
// authenticated (client.go), and one file for each grant issues tokens (grant_*.go,
// issue.go). What a token is about is always read anew, in one statement, with all
// that can end it (state.go): nothing that was revoked or deactivated is good
// anywhere for longer than it takes to ask.
package oauth

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/oauth"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/cache"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/login"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/signing"
	"github.com/writ-id/writ/impl/token"
)

// Config holds what a Server needs; every field is required.
type Config struct {
	resource.Env
	// Instance finds the tenant of a Host header (policy.Chain).
	Instance func(ctx context.Context, host string) (*policy.Instance, error)
	// Enabled refuses when a feature is off for an instance (policy.Chain).
	Enabled func(ctx context.Context, feature policyv1.Feature, instance *policy.Instance) error
	// Issuer returns the issuer of a request: scheme, host and port (OpenID Connect
	// Discovery, section 3).
	Issuer func(host string, instance *policy.Instance) string
	// Refuse answers a request that has no tenant, as the resource API does.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	Roles  *policy.Roles
	Keys   *signing.Set
	Box    *token.Box
	Pages  *login.Pages
	Logger *slog.Logger
	// TokenEndpointAudience accepts assertions of clients that name the token
	// endpoint instead of the issuer, as RFC 7523 had it (SEC-054).
	TokenEndpointAudience bool
	// Dev shows developers what anybody else is not told.
	Dev bool
}

// Server implements the endpoints. It is safe for concurrent use.
type Server struct {
	Config
	queries  *db.Queries
	clients  *cache.Cache[clientKey, *client]
	services *cache.Cache[clientKey, []db.ServiceClientsRow]
	userKeys *cache.Cache[clientKey, *serviceKey]
	origins  *cache.Cache[clientKey, bool]
	orgs     *cache.Cache[clientKey, *db.OAuthOrgRow]

	// What many requests write goes together.
	audit     *batcher[event.Event]
	revoked   *batcher[revocation]
	grants    *batcher[*grantRow]
	rotations *batcher[*rotation]
	// overdue is what has to be done once the database can write again.
	overdue *overdue

	mu        sync.RWMutex
	documents map[documentKey]*document
}

var _ oauth.ServerInterface = (*Server)(nil)

// New returns a Server over c. Run has to run for it to issue tokens to services.
func New(c Config) *Server {
	s := &Server{
		Config: c, queries: db.New(),
		clients:  cache.New[clientKey, *client](clientKey.String),
		services: cache.New[clientKey, []db.ServiceClientsRow](clientKey.String),
		userKeys: cache.New[clientKey, *serviceKey](clientKey.String),
		origins:  cache.New[clientKey, bool](clientKey.String),
		orgs:     cache.New[clientKey, *db.OAuthOrgRow](clientKey.String),
	}
	s.overdue = newOverdue(s.Logger)
	s.audit, s.revoked = newBatcher(s.writeEvents), newBatcher(s.writeRevocations)
	s.grants, s.rotations = newBatcher(s.writeGrants), newBatcher(s.writeRotations)
	return s
}

// Run writes what many requests write in batches, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	go s.revoked.run(ctx)
	go s.grants.run(ctx)
	go s.rotations.run(ctx)
	go s.overdue.run(ctx)
	s.audit.run(ctx)
}

// Forget drops what this node remembers of clients.
func (s *Server) Forget() {
	s.clients.Drop()
	s.services.Drop()
	s.userKeys.Drop()
	s.origins.Drop()
	s.orgs.Drop()
}

// clientKey is a client ID, a key ID or an origin, of an instance.
type clientKey struct{ instanceID, id string }

// String is the key as a text.
func (k clientKey) String() string { return k.instanceID + "\x00" + k.id }

// call is one request of a client.
type call struct {
	*Server
	w        http.ResponseWriter
	r        *http.Request
	context  context.Context
	instance *policy.Instance
	issuer   string
	now      time.Time
	basic    bool // the client authenticated by the Authorization header
}

// begin returns the call of a request; it is nil when there is no tenant, which is
// then answered.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) *call {
	instance, err := s.Instance(r.Context(), r.Host)
	if err != nil {
		s.Refuse(w, r, err)
		return nil
	}
	return s.callOf(w, r, instance)
}

func (s *Server) callOf(w http.ResponseWriter, r *http.Request, instance *policy.Instance) *call {
	policy.RequestFrom(r.Context()).Instance = instance.ID
	return &call{Server: s, w: w, r: r, context: r.Context(), instance: instance, issuer: s.Issuer(r.Host, instance), now: s.Now()}
}

func (c *call) ctx() context.Context { return c.context }

// CORS lets browsers on the origins of clients read answers, never with cookies
// (SEC-150). It answers preflights and reports whether it did.
func (s *Server) CORS(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if origin == "" || r.URL.Path == authorizePath || r.URL.Path == endSessionPath { // these are gone to, not read (RFC 9700, section 2.6; SEC-015)
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin")
	if IsDocument(r) { // anybody's, see servePublic
		if preflight {
			header["Access-Control-Allow-Origin"] = anyOrigin
			allow(header, "GET", "If-None-Match, Cache-Control")
			w.WriteHeader(http.StatusNoContent)
		}
		return preflight
	}
	if s.mayRead(r, origin) {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", "WWW-Authenticate, X-Request-Id")
	}
	if !preflight {
		return false
	}
	if header.Get("Access-Control-Allow-Origin") != "" {
		allow(header, "GET, POST, PUT, PATCH, DELETE", "Authorization, Content-Type, X-Request-Id, X-Grpc-Web, X-User-Agent, Grpc-Timeout, Connect-Protocol-Version, Connect-Timeout-Ms")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allow says in answer to a preflight what a browser may send.
func allow(header http.Header, methods, headers string) {
	header.Set("Access-Control-Allow-Methods", methods)
	header.Set("Access-Control-Allow-Headers", headers)
	header.Set("Access-Control-Max-Age", "600")
}

func (s *Server) mayRead(r *http.Request, origin string) bool {
	if len(origin) > 300 || !strings.HasPrefix(origin, "http") {
		return false
	}
	instance, err := s.Instance(r.Context(), r.Host)
	if err != nil {
		return false
	}
	allowed, err := s.origins.Get(r.Context(), clientKey{instance.ID, origin}, func(ctx context.Context) (bool, error) {
		return s.queries.OriginAllowed(ctx, s.DB.Pool, db.OriginAllowedParams{InstanceID: instance.ID, Origin: origin})
	})
	return err == nil && allowed
}

// spaceless splits a list as OAuth writes it.
func spaceless(list string) []string { return strings.Fields(list) }
