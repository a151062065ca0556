package server

import (
	"context"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/reflection"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/api/transfer"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/objectstore"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/signing"
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

// New composes a server over c, from what knows nobody to what knows all.
func New(c Config) (*Server, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, bodies: &bodies{most: bodyMemory}}
	if s.core, err = c.newCore(); err != nil {
		return nil, err
	}
	s.services, err = NewServices(ServicesConfig{
		Env: s.env, Roles: s.roles, Targets: s.targets, Courier: s.courier, Sealer: c.Sealer, MaxHashCost: c.MaxHashCost, Hashes: c.Hashes,
	})
	if err != nil {
		return nil, err
	}
	s.workers = s.newWorkers()
	s.identity = s.newIdentity()
	moving, err := transfer.New(transfer.Config{
		Env: s.env, Sealer: c.Sealer, Roles: s.roles, Logger: c.Logger, MaxHashCost: c.MaxHashCost, Space: c.Space,
	})
	if err != nil {
		return nil, err
	}
	s.transfers = &transfer.Endpoint{Service: moving, Chain: s.chain, Buckets: &objectstore.Store{Out: s.targets.Out}, Answer: writeAnswer, Refuse: s.refuse}
	if err := s.listen(); err != nil {
		return nil, err
	}
	c.Telemetry.Watch(s.readings)
	return s, nil
}

func (c *Config) newCore() (made core, err error) {
	made.env = resource.Env{
		DB: c.DB, Now: c.Now, NewID: c.NewID, Telemetry: c.Telemetry, Memory: &cache.Memory{}, Origin: c.origin, Inbox: c.Inbox, Local: c.Local,
	}
	made.roles, err = policy.NewRoles()
	made.instances, made.features = policy.NewInstances(c.DB, made.env.Memory, c.Now, c.Logger), policy.NewFeatures(c.DB, made.env.Memory)
	made.targets = &webhook.Caller{Out: outgoing.New(c.Outgoing), Now: c.Now}
	made.courier = courier.New(made.targets.Out, c.Now)
	return made, err
}

func (s *Server) newWorkers() (made workers) {
	c := &s.Config
	made.executions = execution.New(execution.Config{
		DB: c.DB, Memory: s.env.Memory, Operations: s.services.operations, Sealer: c.Sealer, Caller: s.targets, Now: c.Now, NewID: c.NewID, Logger: c.Logger,
	})
	made.fanout = &delivery.Fanout{DB: c.DB, Now: c.Now, NewID: c.NewID, Logger: c.Logger, Fresh: made.executions.Fresh, Wake: background.NewWake()}
	made.deliveries = delivery.NewWorker(delivery.Config{
		DB: c.DB, Now: c.Now, NewID: c.NewID, Logger: c.Logger, Limits: c.Deliveries, Call: s.targets.Call, Telemetry: c.Telemetry, Wake: background.NewWake(),
		Target: func(row *db.Target) *webhook.Target {
			target := execution.Target(c.Sealer, row)
			target.Answers = false // of an event there is nothing to answer
			return target
		},
	})
	made.messages = &message.Worker{
		DB: c.DB, Now: c.Now, Logger: c.Logger, Keep: c.Dev != nil, Wake: background.NewWake(),
		Sender: &message.Carrier{DB: c.DB, SMTP: s.services.SMTP, SMS: s.services.SMS, Inbox: c.Inbox},
	}
	return made
}

func (s *Server) newIdentity() (made identity) {
	c, box := &s.Config, &sealed.Box{DB: s.DB, Sealer: s.Sealer, Now: s.Now}
	made.keeper = &signing.Keeper{Env: s.env, Sealer: c.Sealer}
	made.keys = signing.NewSet(made.keeper)
	made.clients = client.NewDirectory(client.Config{DB: c.DB, TokenEndpointAudience: c.TokenEndpointAudience, System: c.SystemUsers})
	made.pages = login.New(login.Config{
		Env: s.env, Roles: s.roles, Sessions: s.services.Sessions, Users: s.services.Users, Links: s.services.Links, Box: box, Logger: c.Logger,
		Tries: throttle.New(c.Tries, c.Now), Upstreams: s.services.IDPs, Upstream: upstream.New(s.targets.Out, c.Now), Instance: s.instanceOf, Issuer: s.issuerOf,
	})
	made.public = oidc.New(oidc.Config{
		Env:  endpoint.Env{Env: s.env, Instance: s.instances.Public, Issuer: c.issuer, Refuse: s.refuse, Pages: made.pages, Logger: c.Logger, Dev: c.Dev != nil},
		IsOn: s.features.IsOn, Roles: s.roles, Keys: made.keys, Box: box, Clients: made.clients, Proves: c.authenticator(made.clients),
		Executions: s.executions, Rules: s.services.rules,
		SetMetadata: func(ctx context.Context, instanceID, orgID, userID string, entries []*eventv1.FunctionMetadata) error {
			return s.services.Users.SetMetadata(policy.As(ctx, policy.In(instanceID, orgID), "", s.roles), userID, entries)
		},
	})
	made.chain = policy.New(policy.Config{
		DB: c.DB, Memory: s.env.Memory, Instances: s.instances, Features: s.features, Operations: s.services.operations, Rules: s.services.rules, Roles: s.roles,
		Now: c.Now, Logger: c.Logger, Limits: c.SearchLimits, MaxRunning: int(c.DB.Pool.Config().MaxConns), AccessToken: made.public.Caller, Executions: s.executions,
	})
	return made
}

// authenticator returns what authenticates applications at the token endpoint.
func (c *Config) authenticator(clients *client.Directory) token.Authenticator {
	if c.Dev != nil {
		return ticketed{clients, &c.Dev.tickets}
	}
	return clients
}

func (s *Server) listen() error {
	contract, err := published(s.SearchLimits.OrDefault(), s.Dev != nil)
	if err != nil {
		return err
	}
	s.health = health.NewServer()
	s.grpc = s.newGRPC()
	handler, err := s.routes(contract)
	if err != nil {
		return err
	}
	if s.Reference == ReferencePublic { // it asks for no token
		reflection.Register(s.grpc)
	}
	s.http = newHTTP(handler, s.Config)
	return nil
}
