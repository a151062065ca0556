// Package server composes the product: one chain, every service on every
// transport, the published contract, health; listeners and their drain.
//
// One port serves all. A connection that opens with the HTTP/2 preface goes to
// grpc-go; HTTP/1.1 carries REST, gRPC-web and the pages.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/reflection"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	"github.com/writ-id/writ/contracts/generate/wire"
	"github.com/writ-id/writ/impl/clock"
	"github.com/writ-id/writ/impl/instance"
	"github.com/writ-id/writ/impl/message"
	"github.com/writ-id/writ/impl/outgoing"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/reference"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/store"
)

// Config holds what a Server needs; every field of the first group is required.
type Config struct {
	DB     *store.DB
	Now    func() time.Time // UTC, in microseconds, as the database keeps it
	NewID  func() string
	Logger *slog.Logger

	// Sealer keeps secrets that have to be readable again; without one, what needs
	// it is refused.
	Sealer secret.Sealer
	// Sender delivers messages; without one it is only logged that there are some.
	Sender message.Sender
	// Dev, when not nil, is for development only.
	Dev *Dev
	// Outgoing says where calls to addresses of tenants may go.
	Outgoing outgoing.Config
	// SharedHTTP2 leaves HTTP/2 to net/http, for reverse proxies that speak h2c
	// to their backend; gRPC then costs more CPU.
	SharedHTTP2 bool
	// DrainDelay is how long requests are still accepted after readiness went
	// false, so that load balancers notice.
	DrainDelay time.Duration
}

// Dev is what a node has in development: messages stay with their codes, and
// anybody sees them at GET /_dev/messages and moves the clock at /_dev/clock.
type Dev struct {
	Clock *clock.Clock // what Config.Now reads
}

// Server serves until it is told to drain.
type Server struct {
	Config
	env      resource.Env
	chain    *policy.Chain
	grpc     *grpc.Server
	health   *health.Server
	services []string
	messages *message.Worker
	http     *http.Server
	draining atomic.Bool
}

// drainLimit is how long running requests get to finish (REL-070).
const drainLimit = 30 * time.Second

// New composes a server over c.
func New(c Config) (*Server, error) {
	if c.Sealer == nil {
		c.Sealer = secret.NoKey{}
	}
	if c.Sender == nil {
		c.Sender = message.LogSender{Logger: c.Logger}
	}
	s := &Server{Config: c, health: health.NewServer()}
	s.messages = &message.Worker{DB: c.DB, Now: c.Now, Logger: c.Logger, Sender: c.Sender, Keep: c.Dev != nil}
	roles, err := policy.NewRoles()
	if err != nil {
		return nil, err
	}
	s.env = resource.Env{DB: c.DB, Now: c.Now, NewID: c.NewID, Invalidate: func() { s.chain.Invalidate() }}
	services, err := NewServices(s.env, roles, c.Outgoing, c.Sealer)
	if err != nil {
		return nil, err
	}
	s.services = services.operations.Services()
	s.chain, err = policy.New(policy.Config{
		Roles: roles, DB: c.DB, Operations: services.operations, Now: c.Now, Logger: c.Logger, MaxRunning: int(c.DB.Pool.Config().MaxConns),
	})
	if err != nil {
		return nil, err
	}
	s.grpc = newGRPC(s.health)
	rest, err := newREST(services.operations)
	if err != nil {
		return nil, err
	}
	procedures := map[string]http.Handler{}
	to := &wire.Transports{
		GRPC:       s.grpc,
		REST:       func(service string) *runtime.ServeMux { return rest.muxes[service] },
		Web:        func(procedure string, handler http.Handler) { procedures[procedure] = serveRPC(handler) },
		WebOptions: webOptions(),
	}
	if err := services.mount(to, s.chain.Intercept); err != nil {
		return nil, err
	}
	reflection.Register(s.grpc)
	contract, err := reference.New()
	if err != nil {
		return nil, err
	}
	s.http = newHTTP(s.handler(rest, procedures, contract), c)
	return s, nil
}

func newHTTP(handler http.Handler, c Config) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(c.SharedHTTP2)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
}

// Serve serves on listener until ctx ends, then drains: readiness goes false,
// requests are still served for DrainDelay, the listener closes, running calls
// get drainLimit to finish. It returns nil after an orderly drain.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go s.DB.Listen(background, s.Logger, func(what string) {
		if what != store.Messages {
			s.chain.Invalidate()
		}
		s.messages.Wake()
	})
	sweeper := &instance.Sweeper{Env: s.env, Logger: s.Logger}
	if s.Dev != nil {
		sweeper.Moved = s.Dev.Clock.Changed
	}
	go sweeper.Run(background)
	go s.messages.Run(background)
	go watchHealth(background, s.health, s.services, s.Ready)

	failed := make(chan error, 2)
	if s.SharedHTTP2 {
		go func() { failed <- s.http.Serve(listener) }()
	} else {
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
	return err
}
