// Package membership gives users roles, on the system, an instance, an
// organization, a project or the grant of a project.
//
// Service implements contracts/proto/writ/membership. Nobody gives a role that
// holds more than they do there (policy.Call.MayGrant, SEC-235); a change is in
// force on this node before it is answered.
package membership

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the memberships API. It is safe for concurrent use.
type Service struct {
	membershipv3.UnsafeServiceMembershipsServer

	resource.Env
	roles         *policy.Roles
	memberships   *resource.Table[db.Membership, storage.Memberships]
	projects      *resource.Table[db.Project, storage.Projects]
	projectGrants *resource.Table[db.ProjectGrant, storage.ProjectGrants]
}

var _ membershipv3.ServiceMembershipsServer = (*Service)(nil)

// filters are those of a search that compare no column.
type filters struct{}

// ByRole finds what holds a role.
func (filters) ByRole(w *resource.Where, filter *membershipv3.RoleFilter) {
	w.And("t.roles @> ARRAY[" + w.Arg(filter.GetRole()) + "::text]")
}

// New returns a Service over env that knows the built-in roles.
func New(env resource.Env, roles *policy.Roles) *Service {
	return &Service{
		Env: env, roles: roles, projects: resource.New(env, storage.Projects{}), projectGrants: resource.New(env, storage.ProjectGrants{}),
		memberships: resource.New(env, storage.Memberships{}),
	}
}

// In returns the service within a transaction: what it does happens when that commits.
func (s *Service) In(tx pgx.Tx) *Service { return New(s.Env.In(tx), s.roles) }

// Own makes a user the owner of a project that they have just created, whatever they may
// give others.
func (s *Service) Own(ctx context.Context, tx pgx.Tx, userID string, of *db.Project) error {
	_, err := s.memberships.CreateIn(ctx, tx, &db.Membership{
		UserID: userID, Level: membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT, ObjectID: of.ID,
		OrgID: &of.OrgID, ProjectID: &of.ID, Roles: []string{"PROJECT_OWNER"},
	}, &eventv1.MembershipAdded{})
	return err
}

// CreateMembership gives a user roles on one object.
func (s *Service) CreateMembership(ctx context.Context, req *membershipv3.CreateMembershipRequest) (*membershipv3.CreateMembershipResponse, error) {
	row := &db.Membership{}
	storage.AssignMembership(row, req.GetMembership())
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if err := s.locate(ctx, tx, row, req.GetMembership()); err != nil {
			return err
		}
		if err := s.mayGive(ctx, row); err != nil {
			return err
		}
		made, err := s.memberships.CreateIn(ctx, tx, row, &eventv1.MembershipAdded{})
		details = made
		return err
	})
	s.Invalidate() // once more: what was remembered before the commit is old
	return &membershipv3.CreateMembershipResponse{Details: details}, err
}

// locate puts a membership on the object it is for, if the caller may give roles
// there. A project or grant is held, so that it does not go meanwhile; one that is
// out of reach does not exist.
func (s *Service) locate(ctx context.Context, tx pgx.Tx, row *db.Membership, asked *membershipv3.Membership) error {
	call := policy.CallFrom(ctx)
	switch of := asked.GetObject().(type) {
	case *membershipv3.Membership_ProjectId:
		on, err := s.projects.Hold(ctx, tx, of.ProjectId)
		if err != nil {
			return err
		}
		row.InstanceID, row.OrgID, row.ProjectID = on.InstanceID, &on.OrgID, &on.ID
		row.Level, row.ObjectID = membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT, on.ID
		return nil
	case *membershipv3.Membership_ProjectGrantId:
		on, err := s.projectGrants.Hold(ctx, tx, of.ProjectGrantId)
		if err != nil {
			return err
		}
		row.InstanceID, row.OrgID, row.ProjectID, row.ProjectGrantID = on.InstanceID, &on.OrgID, &on.ProjectID, &on.ID
		row.Level, row.ObjectID = membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_PROJECT_GRANT, on.ID
		return nil
	}
	row.InstanceID = call.Context.InstanceID
	row.Level, row.ObjectID = membershipv3.MembershipLevel(call.Context.Level), call.Context.InstanceID
	if call.Context.Level == policyv1.Level_LEVEL_ORG {
		row.ObjectID, row.OrgID = call.Context.OrgID, &call.Context.OrgID
	}
	return call.Require(s.placeOf(row))
}

func (s *Service) placeOf(row *db.Membership) policy.Place {
	text := func(id *string) string {
		if id == nil {
			return ""
		}
		return *id
	}
	return policy.Place{InstanceID: row.InstanceID, OrgID: text(row.OrgID), ProjectID: text(row.ProjectID), ProjectGrantID: text(row.ProjectGrantID)}
}

// mayGive refuses roles that are not of the level or above the caller's own.
func (s *Service) mayGive(ctx context.Context, row *db.Membership) error {
	return policy.CallFrom(ctx).MayGrant(row.Roles, policyv1.Level(row.Level), s.placeOf(row), "membership.roles")
}

// PatchMembership replaces the roles. Roles above the caller's own cannot be
// taken away either.
func (s *Service) PatchMembership(ctx context.Context, req *membershipv3.PatchMembershipRequest) (*membershipv3.PatchMembershipResponse, error) {
	details, err := s.memberships.Change(ctx, req.GetId(), &eventv1.MembershipChanged{}, func(_ pgx.Tx, row *db.Membership) error {
		if err := s.mayGive(ctx, row); err != nil {
			return err
		}
		storage.AssignPatchMembership(row, req.GetMembership())
		return s.mayGive(ctx, row)
	})
	return &membershipv3.PatchMembershipResponse{Details: details}, err
}

// DeleteMembership takes the roles away.
func (s *Service) DeleteMembership(ctx context.Context, req *membershipv3.DeleteMembershipRequest) (*membershipv3.DeleteMembershipResponse, error) {
	details, err := s.memberships.Delete(ctx, req.GetId(), &eventv1.MembershipRemoved{}, func(_ pgx.Tx, row *db.Membership) error {
		return s.mayGive(ctx, row)
	})
	return &membershipv3.DeleteMembershipResponse{Details: details}, err
}

// GetMembership reads one membership.
func (s *Service) GetMembership(ctx context.Context, req *membershipv3.GetMembershipRequest) (*membershipv3.GetMembershipResponse, error) {
	row, err := s.memberships.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &membershipv3.GetMembershipResponse{Membership: storage.NewGetMembership(row)}, nil
}

// SearchMemberships finds the memberships that meet all filters.
func (s *Service) SearchMemberships(ctx context.Context, req *membershipv3.SearchMembershipsRequest) (*membershipv3.SearchMembershipsResponse, error) {
	rows, details, err := storage.SearchMemberships(ctx, s.memberships, req, filters{})
	return &membershipv3.SearchMembershipsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, storage.NewGetMembership),
	}, err
}

// ListAvailableRoles lists the roles of a level.
func (s *Service) ListAvailableRoles(ctx context.Context, req *membershipv3.ListAvailableRolesRequest) (*membershipv3.ListAvailableRolesResponse, error) {
	call := policy.CallFrom(ctx)
	call.Scope() // the roles are the same wherever the caller may read memberships
	level := call.Context.Level
	if req.GetLevel() != membershipv3.MembershipLevel_MEMBERSHIP_LEVEL_UNSPECIFIED {
		level = policyv1.Level(req.GetLevel())
	}
	return &membershipv3.ListAvailableRolesResponse{Roles: s.roles.Names(level)}, nil
}
