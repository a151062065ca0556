// Package server composes the product: one chain, every service on every
// transport, the published contract, health; listeners and their drain.
//
// One port serves all. A connection that opens with the HTTP/2 preface goes to
// grpc-go; HTTP/1.1 carries REST, gRPC-web and the pages.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/reflection"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/api/transfer"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/bucket"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/spool"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/telemetry"
	"github.com/writ-id/writ/impl/core/throttle"
	sealed "github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/oidc"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/login"
	"github.com/writ-id/writ/impl/oidc/token"
)

// Config holds what a Server needs; every field of the first group is required.
type Config struct {
	DB     *store.DB
	Now    func() time.Time // UTC, in microseconds, as the database keeps it
	NewID  func() string
	Logger *slog.Logger
	// AccessLevel is the level of the line that each request leaves in the log.
	AccessLevel slog.Level
	// LogPersonalData has that line say whole addresses of clients, not only the network.
	LogPersonalData bool

	// Sealer keeps secrets that have to be readable again; without one, what needs
	// it is refused.
	Sealer secret.Sealer
	// Inbox is set where messages need no provider because somebody reads them in the
	// database, as tests do. Dev does.
	Inbox bool
	// Dev, when not nil, is for development only.
	Dev *Dev
	// Local allows applications addresses of this machine without https, as Dev does.
	Local bool
	// External is how browsers and clients reach the node; Dev takes what they ask for.
	External External
	// TokenEndpointAudience accepts assertions of clients whose audience is the token
	// endpoint (SEC-054).
	TokenEndpointAudience bool
	// SystemUsers are the users of the installation, who sign their tokens themselves.
	SystemUsers client.SystemUsers
	// Deliveries limits how often and how long events are delivered; those that are 0 have
	// their defaults.
	Deliveries delivery.Limits
	// Tries are how many wrong passwords and codes, and requests for messages, an address of
	// strangers has; the zero Limit is any number.
	Tries throttle.Limit
	// Proxies are those that requests may come through.
	Proxies Proxies
	// Telemetry measures and traces; nil does not.
	Telemetry *telemetry.Telemetry
	// Outgoing says where calls to addresses of tenants may go.
	Outgoing outgoing.Config
	// TLS is what to serve TLS with; nil when it ends elsewhere. With it net/http
	// serves HTTP/2, gRPC included.
	TLS *tls.Config
	// Reference says who may read the contract.
	Reference Reference
	// SharedHTTP2 leaves HTTP/2 to net/http, for reverse proxies that speak h2c
	// to their backend; gRPC then costs more CPU.
	SharedHTTP2 bool
	// SearchLimits are how many matches a search returns when it does not say, and at
	// most; those of the contract where 0.
	SearchLimits policy.SearchLimits
	// MaxHashCost is how much work password hashes of other systems may be, as a multiple
	// of one of ours; 0 is secret.DefaultMaxCost. What a seed holds may be any.
	MaxHashCost float64
	// Space is where exports and imports have their bytes; nil is the folder for temporary
	// files, with the room that is usual there.
	Space *spool.Space
	// MaxClients is how many connections of clients are open at most; those that were
	// idle longest make room. 0 is DefaultMaxClients.
	MaxClients int
	// DrainDelay is how long requests are still accepted after readiness went
	// false, so that load balancers notice.
	DrainDelay time.Duration
}

// External is the origin that is the same for all domains of all instances.
type External struct {
	Scheme string // http or https; https when empty
	Port   string // "" for the one of the scheme
}

// sealer returns what seals secrets: without a key nothing does.
func (c *Config) sealer() secret.Sealer {
	if c.Sealer == nil {
		return secret.NoKey{}
	}
	return c.Sealer
}

// Server serves until it is told to drain.
type Server struct {
	Config
	env        resource.Env
	chain      *policy.Chain
	executions *execution.Engine
	fanout     *delivery.Fanout
	deliveries *delivery.Worker
	keeper     *signing.Keeper
	keys       *signing.Set
	clients    *client.Directory
	memory     memory
	public     *oidc.Server
	pages      *login.Pages
	grpc       *grpc.Server
	health     *health.Server
	services   []string
	transfers  *transfer.Endpoint
	messages   *message.Worker
	courier    *courier.Courier
	http       *http.Server
	bodies     *bodies
	draining   atomic.Bool
}

// DefaultMaxClients is what some hundred MiB have room for.
const DefaultMaxClients = 10_000

// requestTimeout is how long a request may take, from its head to the end of its answer.
const requestTimeout = 60 * time.Second

// drainLimit is how long running requests get to finish (REL-070).
const drainLimit = 30 * time.Second

// New composes a server over c.
func New(c Config) (*Server, error) {
	c.Sealer = c.sealer()
	c.SharedHTTP2 = c.SharedHTTP2 || c.TLS != nil
	c.Inbox = c.Inbox || c.Dev != nil
	if c.Telemetry != nil {
		c.Outgoing.Observe = c.Telemetry.Call
	}
	if err := c.Proxies.check(); err != nil {
		return nil, err
	}
	s := &Server{Config: c, health: health.NewServer(), bodies: &bodies{most: bodyMemory}}
	// From what knows nobody to what knows all: each is made of those before it, and what
	// remembers something of the database says so.
	s.env = resource.Env{DB: c.DB, Now: c.Now, NewID: c.NewID, Telemetry: c.Telemetry, Invalidate: s.memory.forget, Origin: s.origin, Inbox: c.Inbox, Local: c.Local || c.Dev != nil}
	roles, err := policy.NewRoles()
	if err != nil {
		return nil, err
	}
	instances, features := policy.NewInstances(c.DB, c.Now, c.Logger), policy.NewFeatures(c.DB)
	s.memory.of(instances.Drop, features.Drop)
	targets := &webhook.Caller{Out: outgoing.New(c.Outgoing), Now: c.Now}
	services, err := NewServices(s.env, roles, targets, c.Sealer)
	if err != nil {
		return nil, err
	}
	services.Users.MaxHashCost = c.MaxHashCost
	s.courier = services.courier
	s.messages = &message.Worker{
		DB: c.DB, Now: c.Now, Logger: c.Logger, Keep: c.Dev != nil, Wake: background.NewWake(),
		Sender: &message.Carrier{DB: c.DB, SMTP: services.SMTP, SMS: services.SMS, Inbox: c.Inbox},
	}
	s.services = services.operations.Services()

	s.executions = execution.New(execution.Config{
		DB: c.DB, Operations: services.operations, Sealer: c.Sealer, Caller: targets, Now: c.Now, NewID: c.NewID, Logger: c.Logger,
	})
	s.memory.of(s.executions.Drop)
	s.fanout = &delivery.Fanout{DB: c.DB, Now: c.Now, NewID: c.NewID, Logger: c.Logger, Fresh: s.executions.Fresh, Wake: background.NewWake()}
	s.deliveries = delivery.NewWorker(delivery.Config{
		DB: c.DB, Now: c.Now, NewID: c.NewID, Logger: c.Logger, Limits: c.Deliveries, Call: targets.Call, Telemetry: c.Telemetry, Wake: background.NewWake(),
		Target: func(row *db.Target) *webhook.Target {
			target := execution.Target(c.Sealer, row)
			target.Answers = false // of an event there is nothing to answer
			return target
		},
	})
	s.keeper = &signing.Keeper{Env: s.env, Sealer: c.Sealer}
	box := &sealed.Box{DB: c.DB, Sealer: c.Sealer, Now: c.Now}
	s.pages = login.New(login.Config{
		Env: s.env, Roles: roles, Sessions: services.Sessions, Users: services.Users, Links: services.Links, Box: box, Sealer: c.Sealer, Logger: c.Logger,
		Tries: throttle.New(c.Tries, c.Now), Upstreams: services.IDPs, Upstream: upstream.New(targets.Out, c.Now),
		Instance: func(r *http.Request) (*policy.Instance, error) { return instances.Public(r.Context(), r.Host) },
		Issuer: func(r *http.Request) string {
			instance, err := instances.Public(r.Context(), r.Host)
			if err != nil {
				return ""
			}
			return s.issuer(r.Host, instance)
		},
	})
	s.memory.of(s.pages.Forget)
	s.clients = client.NewDirectory(client.Config{DB: c.DB, TokenEndpointAudience: c.TokenEndpointAudience, System: c.SystemUsers})
	var proves token.Authenticator = s.clients
	if c.Dev != nil {
		proves = ticketed{s.clients, &c.Dev.tickets}
	}
	s.keys = signing.NewSet(s.keeper)
	s.memory.of(s.keys.Drop)
	s.public = oidc.New(oidc.Config{
		Env: endpoint.Env{
			Env: s.env, Instance: instances.Public, Issuer: s.issuer, Refuse: s.refuse, Pages: s.pages, Logger: c.Logger, Dev: c.Dev != nil,
		},
		IsOn: features.IsOn, Roles: roles, Keys: s.keys, Box: box, Clients: s.clients, Proves: proves,
		Executions: s.executions, Rules: services.rules,
		SetMetadata: func(ctx context.Context, instanceID, orgID, userID string, entries []*eventv1.FunctionMetadata) error {
			return services.Users.SetMetadata(policy.As(ctx, policy.In(instanceID, orgID), "", roles), userID, entries)
		},
	})
	s.memory.of(s.public.Forget)

	s.chain = policy.New(policy.Config{
		DB: c.DB, Instances: instances, Features: features, Operations: services.operations, Rules: services.rules, Roles: roles, Now: c.Now, Logger: c.Logger,
		Limits: c.SearchLimits, MaxRunning: int(c.DB.Pool.Config().MaxConns), AccessToken: s.public.Caller, Executions: s.executions,
	})
	s.memory.of(s.chain.Drop)
	moving, err := transfer.New(s.env, c.Sealer, roles, c.Logger)
	if err != nil {
		return nil, err
	}
	moving.MaxHashCost = c.MaxHashCost
	if moving.Space = c.Space; moving.Space == nil {
		if moving.Space, err = spool.Open("", 0); err != nil {
			return nil, err
		}
	}
	s.transfers = &transfer.Endpoint{Service: moving, Chain: s.chain, Buckets: &bucket.Store{Out: targets.Out}, Answer: writeAnswer, Refuse: s.refuse}
	contract, err := published(c.SearchLimits.OrDefault(), c.Dev != nil)
	if err != nil {
		return nil, err
	}
	s.grpc = s.newGRPC()
	handler, err := s.routes(services, contract)
	if err != nil {
		return nil, err
	}
	if s.Reference == ReferencePublic { // it asks for no token
		reflection.Register(s.grpc)
	}
	s.http = newHTTP(handler, c)
	c.Telemetry.Watch(s.readings)
	return s, nil
}

// memory is what this node remembers of the database. A change through this node drops
// it before it is answered; other nodes hear of it by notification, at the latest after
// cache.MaxAge.
type memory struct{ drops []func() }

func (m *memory) of(drops ...func()) { m.drops = append(m.drops, drops...) }

func (m *memory) forget() {
	for _, drop := range m.drops {
		drop()
	}
}

// https reports whether browsers and clients reach the node by https.
func (s *Server) https() bool { return s.External.Scheme != "http" }

// issuer returns the issuer that a request to a host is made to: each registered
// domain of an instance is one, at the scheme and port of the installation. Nothing
// else of the request decides (SEC-215, SEC-220), but in development, where it is
// what was asked for.
func (s *Server) issuer(host string, instance *policy.Instance) string {
	if s.Dev != nil {
		return s.scheme() + "://" + strings.ToLower(host)
	}
	return s.origin(instance.Host)
}

func (s *Server) scheme() string {
	if s.https() {
		return "https"
	}
	return "http"
}

// origin returns the origin at a domain, for what knows no request.
func (s *Server) origin(domain string) string {
	if s.External.Port != "" {
		domain += ":" + s.External.Port
	}
	return s.scheme() + "://" + domain
}

func newHTTP(handler http.Handler, c Config) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(c.TLS != nil)
	protocols.SetUnencryptedHTTP2(c.SharedHTTP2 && c.TLS == nil)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		TLSConfig:         c.TLS,
		ConnContext:       withConn,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
}

// Serve serves on listener until ctx ends, then drains: readiness goes false,
// requests are still served for DrainDelay, the listener closes, running calls
// get drainLimit to finish. It returns nil after an orderly drain.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer s.background(work, stop)()
	go watchHealth(work, s.health, s.services, s.Ready, s.Logger)

	listener = limit(s.Proxies.accept(listener), cmp.Or(s.MaxClients, DefaultMaxClients))
	failed := make(chan error, 2)
	switch {
	case s.TLS != nil:
		go func() { failed <- s.http.ServeTLS(listener, "", "") }()
	case s.SharedHTTP2:
		go func() { failed <- s.http.Serve(listener) }()
	default:
		grpcConns, webConns := split(listener)
		go func() { failed <- s.grpc.Serve(grpcConns) }()
		go func() { failed <- s.http.Serve(webConns) }()
	}
	select {
	case err := <-failed:
		s.grpc.Stop()
		return errors.Join(err, s.http.Close())
	case <-ctx.Done():
		return s.drain()
	}
}

func (s *Server) drain() error {
	s.draining.Store(true)
	s.health.Shutdown()
	s.Logger.Info("draining")
	time.Sleep(s.DrainDelay)
	limit, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	err := s.http.Shutdown(limit)
	select {
	case <-stopped:
	case <-limit.Done():
		s.grpc.Stop()
	}
	s.executions.Drain(limit)
	s.transfers.Stop()
	return err
}
