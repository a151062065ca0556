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
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/gen/db"
	grantv3 "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/project"
	"github.com/writ-id/writ/impl/resource"
)

// Service implements the grants API. It is safe for concurrent use.
type Service struct {
	grantv3.UnsafeServiceGrantsServer

	resource.Env
	queries       *db.Queries
	projects      *resource.Table[db.Project]
	roles         *resource.Table[db.ProjectRole]
	projectGrants *resource.Table[db.ProjectGrant]
	userGrants    *resource.Table[db.UserGrant]
}

var _ grantv3.ServiceGrantsServer = (*Service)(nil)

// byRole is the filter of what holds a role.
var byRole = map[string]resource.FilterFunc{"role_key": func(w *resource.Where, value protoreflect.Value) {
	filter := value.Message().Interface().(*grantv3.RoleKeyFilter)
	w.And("t.role_keys @> ARRAY[" + w.Arg(filter.GetKey()) + "::text]")
}}

// ProjectGrants returns the table of project grants, for what is created on them.
func ProjectGrants(env resource.Env) *resource.Table[db.ProjectGrant] {
	return resource.NewTable[db.ProjectGrant](env, resource.Spec{
		Table: "project_grants", Kind: "project grant", ProjectGrant: "id", Reader: "granted_org_id", Filters: byRole,
		Refusals: map[string]func() *fault.Error{
			"project_grants_granted_org_key": func() *fault.Error {
				return fault.New(fault.AlreadyExists, "PROJECT_GRANT_EXISTS", "the project is granted to this organization already").On("projectGrant.grantedOrgId")
			},
		},
	})
}

// New returns a Service over env.
func New(env resource.Env) *Service {
	return &Service{
		Env: env, queries: db.New(), projects: project.Table(env),
		roles:         resource.NewTable[db.ProjectRole](env, resource.Spec{Table: "project_roles", Kind: "role", Remembered: true, RememberedNew: true}),
		projectGrants: ProjectGrants(env),
		userGrants: resource.NewTable[db.UserGrant](env, resource.Spec{
			Table: "user_grants", Kind: "user grant", Filters: byRole,
			Refusals: map[string]func() *fault.Error{
				"user_grants_user_key": func() *fault.Error {
					return fault.New(fault.AlreadyExists, "USER_GRANT_EXISTS", "the user has a grant of this project already").On("userGrant.userId")
				},
			},
		}),
	}
}

const (
	active   = int16(object.EffectiveState_EFFECTIVE_STATE_ACTIVE)
	inactive = int16(object.EffectiveState_EFFECTIVE_STATE_INACTIVE)
)
