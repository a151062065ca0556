// Package action lets an instance call out: a target is an HTTP endpoint, an
// execution says on which request, response, function or event it is called
// (document 1, "Actions").
//
// Service implements contracts/proto/writ/action. Input has passed the rules of
// the contract and the caller its permission when a method runs (package
// policy). Each command changes state and appends its events in one
// transaction, so a caller reads its own write on every node. Only TestTarget connects
// to a target; what runs executions is package execution.
//
// Lock order, everywhere: targets, then the include graph, then executions by
// ID.
package action

import (
	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/webhook"
)

// Service implements the actions API. It is safe for concurrent use.
type Service struct {
	actionv3.UnsafeServiceActionsServer // a new RPC must fail to compile here

	resource.Env
	operations *policy.Operations // what request and response conditions can name
	queries    *db.Queries
	targets    *resource.Table[db.Target, storage.Targets]
	caller     *webhook.Caller
	sealer     secret.Sealer
}

var _ actionv3.ServiceActionsServer = (*Service)(nil)

// New returns a Service over env. caller calls targets, sealer seals their keys.
func New(env resource.Env, operations *policy.Operations, caller *webhook.Caller, sealer secret.Sealer) *Service {
	return &Service{Env: env, operations: operations, queries: db.New(), targets: resource.New(env, storage.Targets{}), caller: caller, sealer: sealer}
}
