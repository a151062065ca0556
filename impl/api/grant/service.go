// Package grant manages the roles of projects and who holds them: other
// organizations by project grants, users by user grants.
//
// Service implements contracts/proto/writ/grant. No grant names a role that does
// not exist, and none under a project grant one that the project grant lacks
// (REL-025): whoever writes role keys holds the project's row, whoever takes
// roles away locks it (cascade.go). What goes because something else goes is the
// business of foreign keys.
package grant

import (
	"github.com/writ-id/writ/gen/db"
	grantv3 "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the grants API. It is safe for concurrent use.
type Service struct {
	grantv3.UnsafeServiceGrantsServer

	resource.Env
	queries       *db.Queries
	projects      *resource.Table[db.Project, storage.Projects]
	roles         *resource.Table[db.ProjectRole, storage.ProjectRoles]
	projectGrants *resource.Table[db.ProjectGrant, storage.ProjectGrants]
	userGrants    *resource.Table[db.UserGrant, storage.UserGrants]
}

var _ grantv3.ServiceGrantsServer = (*Service)(nil)

// filters are those of searches that compare no column.
type filters struct{}

// ByRoleKey finds what holds a role.
func (filters) ByRoleKey(w *resource.Where, filter *grantv3.RoleKeyFilter) {
	w.And("t.role_keys @> ARRAY[" + w.Arg(filter.GetKey()) + "::text]")
}

// New returns a Service over env.
func New(env resource.Env) *Service {
	return &Service{
		Env: env, queries: db.New(), projects: resource.New(env, storage.Projects{}),
		roles:         resource.New(env, storage.ProjectRoles{}),
		projectGrants: resource.New(env, storage.ProjectGrants{}),
		userGrants:    resource.New(env, storage.UserGrants{}),
	}
}

const (
	active   = object.EffectiveState_EFFECTIVE_STATE_ACTIVE
	inactive = object.EffectiveState_EFFECTIVE_STATE_INACTIVE
)
