// Package oidc serves the OpenID Connect and OAuth 2.0 endpoints of document 2:
// contracts/openapi/oauth.yaml says which. Each has a room of its own, and imports lead
// downward only:
//
//	metadata                                discovery document, keys
//	authorize  token  introspect  userinfo  logout     the endpoints
//	issue  access  ledger                   makes tokens, reads them, writes what becomes of them
//	function                                what targets of the tenant add to it
//	claims                                  what is told of a user
//	subject                                 what a token is about, as it is now
//	client                                  who uses the endpoints, and how they prove it
//	scope                                   what is asked for
//	endpoint                                tenant, refusals, answers
//
// This package composes them, and asks them what the resource API and the pages need.
package oidc

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/writ-id/writ/gen/oauth"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/signing"
	sealed "github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/oidc/access"
	"github.com/writ-id/writ/impl/oidc/authorize"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/function"
	"github.com/writ-id/writ/impl/oidc/introspect"
	"github.com/writ-id/writ/impl/oidc/issue"
	"github.com/writ-id/writ/impl/oidc/ledger"
	"github.com/writ-id/writ/impl/oidc/logout"
	"github.com/writ-id/writ/impl/oidc/metadata"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
	"github.com/writ-id/writ/impl/oidc/token"
	"github.com/writ-id/writ/impl/oidc/userinfo"
)

// Config holds what a Server needs; every field is required.
type Config struct {
	endpoint.Env
	// IsOn reports whether a feature is on for an instance (policy.Chain).
	IsOn  func(ctx context.Context, feature policyv1.Feature, instance *policy.Instance) (bool, error)
	Roles *policy.Roles
	Keys  *signing.Set
	Box   *sealed.Box
	// Executions are what tenants have called.
	Executions *execution.Engine
	// Rules are those of the contract.
	Rules *policy.Validator
	// SetMetadata sets entries of the metadata of a user, in one transaction.
	SetMetadata func(ctx context.Context, instanceID, orgID, userID string, entries []*eventv1.FunctionMetadata) error
	// Clients are the applications and service users, Proves what authenticates applications at
	// the token endpoint: Clients, but in development.
	Clients *client.Directory
	Proves  token.Authenticator
}

// Server implements the endpoints: it is made of them. It is safe for concurrent use.
type Server struct {
	*metadataEndpoint
	*authorizeEndpoint
	*tokenEndpoint
	*introspectEndpoint
	*userinfoEndpoint
	*logoutEndpoint

	config    Config
	env       *endpoint.Env
	subjects  *subject.Reader
	tokens    *access.Reader
	ledger    *ledger.Ledger
	functions *function.Functions
	origins   *cache.Cache[origin, bool]
}

// Names under which the endpoints can be embedded together.
type (
	metadataEndpoint   = metadata.Endpoint
	authorizeEndpoint  = authorize.Endpoint
	tokenEndpoint      = token.Endpoint
	introspectEndpoint = introspect.Endpoint
	userinfoEndpoint   = userinfo.Endpoint
	logoutEndpoint     = logout.Endpoint
)

var _ oauth.ServerInterface = (*Server)(nil)

// New returns a Server over c. Run has to run for it to issue tokens to services.
func New(c Config) *Server {
	env, subjects := &c.Env, subject.NewReader(c.DB, c.Clients, c.Roles)
	tokens := &access.Reader{DB: c.DB, Box: c.Box, Keys: c.Keys, Clients: c.Clients}
	functions := &function.Functions{DB: c.DB, Engine: c.Executions, Rules: c.Rules, Subjects: subjects, SetMetadata: c.SetMetadata}
	s := &Server{
		metadataEndpoint: &metadata.Endpoint{Env: env, IsOn: c.IsOn, Keys: c.Keys},
		userinfoEndpoint: &userinfo.Endpoint{Env: env, Clients: c.Clients, Subjects: subjects, Tokens: tokens, Functions: functions},
		logoutEndpoint:   &logout.Endpoint{Env: env, Clients: c.Clients, Tokens: tokens},

		config: c, env: env, subjects: subjects, tokens: tokens, ledger: ledger.New(c.Env.Env, c.Logger), functions: functions,
		origins: cache.New[origin, bool](origin.String),
	}
	c.Memory.Holds(s.forget)
	return s.SignedBy(c.Keys)
}

// SignedBy returns a Server that is s but for the keys that it signs with.
func (s *Server) SignedBy(keys issue.Keys) *Server {
	c, other := &s.config, *s
	issuer := &issue.Issuer{Box: c.Box, Keys: keys, NewID: c.NewID, Functions: s.functions}
	other.authorizeEndpoint = &authorize.Endpoint{Env: s.env, Clients: c.Clients, Subjects: s.subjects, Tokens: s.tokens, Issuer: issuer, Ledger: s.ledger}
	other.tokenEndpoint = &token.Endpoint{
		Env: s.env, IsOn: c.IsOn, Roles: c.Roles, Clients: c.Clients, Proves: c.Proves, Subjects: s.subjects, Tokens: s.tokens, Issuer: issuer, Ledger: s.ledger,
	}
	other.introspectEndpoint = &introspect.Endpoint{Env: s.env, Clients: c.Clients, Subjects: s.subjects, Tokens: s.tokens, Issuer: issuer, Ledger: s.ledger, Functions: s.functions}
	return &other
}

// Run writes what many requests write in batches, until ctx ends.
func (s *Server) Run(ctx context.Context) { s.ledger.Run(ctx) }

// Sweep deletes what ended before a time and is of no use any more (ledger.Sweep).
func (s *Server) Sweep(ctx context.Context, before time.Time, batch int32) (int64, error) {
	return s.ledger.Sweep(ctx, before, batch)
}

// forget drops what this node remembers of clients.
func (s *Server) forget() {
	s.config.Clients.Forget()
	s.subjects.Forget()
	s.origins.Drop()
}

// RefuseRequest answers a request that is not looked at.
func (s *Server) RefuseRequest(w http.ResponseWriter, r *http.Request, err error) {
	s.env.RefuseRequest(w, r, err)
}

// RefuseMethod answers a request whose method an endpoint does not have.
func (s *Server) RefuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	s.env.RefuseMethod(w, r, allowed)
}

// Documents are the routes of the prepared documents.
var Documents = []string{"GET " + endpoint.PathConfiguration, "GET " + endpoint.PathKeys}

// IsDocument reports whether a request is for a prepared document.
func IsDocument(r *http.Request) bool { return metadata.IsDocument(r) }

// Caller returns the user of an access token that is for the resource API: one whose
// audience names it (SEC-122), or one that a system user signed. It is nil when the token is
// not good.
func (s *Server) Caller(ctx context.Context, instance *policy.Instance, host, text string) (*policy.Identity, error) {
	at := endpoint.Site{Instance: instance, Issuer: s.env.Issuer(host, instance), Now: s.env.Now()}
	if name, user, until := s.config.Clients.SystemUser(at, text); user != nil {
		return &policy.Identity{UserID: client.SystemUserPrefix + name, System: user.Roles, Expires: until}, nil
	}
	t, err := s.tokens.Read(ctx, at, text)
	if err != nil || t == nil || !slices.Contains(t.GetAudience(), scope.Platform) {
		return nil, err
	}
	found, err := s.subjects.OfToken(ctx, at, t, subject.AboutToken(t))
	if err != nil || found == nil {
		return nil, err
	}
	who := &policy.Identity{UserID: found.ID, OrgID: found.OrgID, Expires: time.Unix(t.GetExpiresAt(), 0).UTC(), Acting: len(t.GetActor()) > 0}
	if found.Consent != nil {
		found.Consent.Bound(who)
	}
	return who, nil
}
