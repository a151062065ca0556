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

	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/api/transfer"
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
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/oidc"
	"github.com/writ-id/writ/impl/oidc/client"
	"github.com/writ-id/writ/impl/oidc/login"
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
	// Hashes makes those of passwords.
	Hashes secret.Hasher
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

// complete returns c with what follows from the rest of it.
func (c Config) complete() (Config, error) {
	c.Sealer = c.sealer()
	c.SharedHTTP2 = c.SharedHTTP2 || c.TLS != nil
	c.Inbox, c.Local = c.Inbox || c.Dev != nil, c.Local || c.Dev != nil
	if c.Telemetry != nil {
		c.Outgoing.Observe = c.Telemetry.Call
	}
	return c, c.Proxies.check()
}

// Server serves until it is told to drain. It is made of parts that know one another in the
// order in which New makes them.
type Server struct {
	Config
	core
	services *Services
	workers
	identity
	transfers *transfer.Endpoint
	listeners

	bodies   *bodies
	draining atomic.Bool
}

// core is what all others are made of. What remembers something of the database says so to
// env.Memory when it is made.
type core struct {
	env       resource.Env
	roles     *policy.Roles
	instances *policy.Instances
	features  *policy.Features
	targets   *webhook.Caller
	courier   *courier.Courier
}

// workers are what the node does unasked, or when an event or an operation is told of.
type workers struct {
	executions *execution.Engine
	fanout     *delivery.Fanout
	deliveries *delivery.Worker
	messages   *message.Worker
}

// identity is the OpenID provider, and the chain of calls, which reads its tokens.
type identity struct {
	keeper  *signing.Keeper
	keys    *signing.Set
	clients *client.Directory
	pages   *login.Pages
	public  *oidc.Server
	chain   *policy.Chain
}

// listeners are what requests come in by.
type listeners struct {
	grpc   *grpc.Server
	health *health.Server
	http   *http.Server
}

// DefaultMaxClients is what some hundred MiB have room for.
const DefaultMaxClients = 10_000

// requestTimeout is how long a request may take, from its head to the end of its answer.
const requestTimeout = 60 * time.Second

// drainLimit is how long running requests get to finish (REL-070).
const drainLimit = 30 * time.Second

// instanceOf returns the instance that a request of a browser is made to.
func (s *Server) instanceOf(r *http.Request) (*policy.Instance, error) {
	return s.instances.Public(r.Context(), r.Host)
}

// issuerOf returns the issuer that it is made to, "" when there is none.
func (s *Server) issuerOf(r *http.Request) string {
	instance, err := s.instanceOf(r)
	if err != nil {
		return ""
	}
	return s.issuer(r.Host, instance)
}

// https reports whether browsers and clients reach the node by https.
func (c *Config) https() bool { return c.External.Scheme != "http" }

// issuer returns the issuer that a request to a host is made to: each registered
// domain of an instance is one, at the scheme and port of the installation. Nothing
// else of the request decides (SEC-215, SEC-220), but in development, where it is
// what was asked for.
func (c *Config) issuer(host string, instance *policy.Instance) string {
	if c.Dev != nil {
		return c.scheme() + "://" + strings.ToLower(host)
	}
	return c.origin(instance.Host)
}

func (c *Config) scheme() string {
	if c.https() {
		return "https"
	}
	return "http"
}

// origin returns the origin at a domain, for what knows no request.
func (c *Config) origin(domain string) string {
	if c.External.Port != "" {
		domain += ":" + c.External.Port
	}
	return c.scheme() + "://" + domain
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
	go watchHealth(work, s.health, s.services.operations.Services(), s.Ready, s.Logger)

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
