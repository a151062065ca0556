package server

import (
	"context"
	"math"

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
	how.Env = resource.Env{DB: c.DB, Now: c.Now, NewID: c.NewID, Invalidate: func() {}, Local: c.Local || c.Dev != nil} // other nodes hear of it
	how.Roles = roles
	base, err := NewServices(how.Env, roles, &webhook.Caller{Out: outgoing.New(outgoing.Config{}), Now: c.Now}, c.sealer())
	if err != nil {
		return nil, err
	}
	how.Services = func(env resource.Env) seed.Services {
		services := base.over(env)
		services.Users.MaxHashCost = math.Inf(1) // the operator's own word
		return seed.Services{Call: services.Call, Users: services.Users, Apps: services.Apps}
	}
	return seed.Apply(ctx, how, file)
}
