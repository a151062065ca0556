package server

import (
	"context"
	"math"

	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/dev/seed"
)

// ApplySeed applies file by the operations of the contract, on the database, the
// clock and the IDs of c, and returns what it came to. how says the rest.
func ApplySeed(ctx context.Context, c Config, file *seed.File, how seed.Config) (*seed.Applied, error) {
	roles, err := policy.NewRoles()
	if err != nil {
		return nil, err
	}
	if err := ClaimMasterKey(ctx, c.DB, c.sealer()); err != nil {
		return nil, err
	}
	how.Env = resource.Env{DB: c.DB, Now: c.Now, NewID: c.NewID, Local: c.Local || c.Dev != nil} // other nodes hear of it
	how.Roles = roles
	targets := &webhook.Caller{Out: outgoing.New(outgoing.Config{}), Now: c.Now}
	messages := courier.New(targets.Out, c.Now)
	how.Services = func(env resource.Env) (seed.Services, error) {
		services, err := NewServices(ServicesConfig{
			Env: env, Roles: roles, Targets: targets, Courier: messages, Sealer: c.sealer(),
			Hashes: c.Hashes, MaxHashCost: math.Inf(1), // the operator's own word
		})
		if err != nil {
			return seed.Services{}, err
		}
		return seed.Services{Call: services.Call, Users: services.Users, Apps: services.Apps}, nil
	}
	return seed.Apply(ctx, how, file)
}
