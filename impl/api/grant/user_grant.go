package grant

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	grantv3 "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// CreateUserGrant gives a user roles, where the caller may give them: in the
// project, or under the grant of the project.
func (s *Service) CreateUserGrant(ctx context.Context, req *grantv3.CreateUserGrantRequest) (*grantv3.CreateUserGrantResponse, error) {
	row := &db.UserGrant{State: active}
	storage.AssignUserGrant(row, req.GetUserGrant())
	var details *object.Details
	err := s.holding(ctx, row.ProjectID, func(tx pgx.Tx) error {
		under, err := s.locate(ctx, tx, row)
		if err != nil {
			return err
		}
		if err := s.checkRoles(ctx, tx, row.ProjectID, row.RoleKeys, under, "userGrant.roleKeys"); err != nil {
			return err
		}
		details, err = s.userGrants.CreateIn(ctx, tx, row, &eventv1.UserGrantAdded{})
		return err
	})
	return &grantv3.CreateUserGrantResponse{Details: details}, err
}

// locate puts a user grant into the organization in which it is made, and returns
// the project grant it is under, if any.
func (s *Service) locate(ctx context.Context, tx pgx.Tx, row *db.UserGrant) (*db.ProjectGrant, error) {
	if row.ProjectGrantID == nil {
		project, err := s.projects.In(tx).Get(ctx, row.ProjectID)
		if err == nil {
			row.OrgID = project.OrgID
		}
		return nil, err
	}
	under, err := s.projectGrants.In(tx).Get(ctx, *row.ProjectGrantID, func(grant *db.ProjectGrant) bool { return grant.ProjectID == row.ProjectID })
	if err != nil {
		// Whether the project exists is nothing to those who do not reach it.
		if _, hidden := s.projects.In(tx).Get(ctx, row.ProjectID); hidden != nil {
			return nil, hidden
		}
		return nil, err
	}
	row.OrgID = under.GrantedOrgID
	// The owner of the project may see its grants, but gives no roles in the name
	// of another organization.
	row.InstanceID = under.InstanceID
	at := policy.Place{InstanceID: under.InstanceID, OrgID: under.GrantedOrgID, ProjectGrantID: under.ID}
	if !policy.CallFrom(ctx).Reaches(at) {
		return nil, s.projectGrants.Missing(under.ID)
	}
	return under, s.ownWord(ctx, tx, row, "userGrant.userId")
}

// ownWord refuses to give a service user roles under a project grant, unless it is
// the word of the organization that has the grant: by that the applications of the project know
// the user, and their tokens are shown to those (TokenOwner). Owners of a project grant are
// appointed by the owner of the project, who would else speak for the other organization.
func (s *Service) ownWord(ctx context.Context, tx db.DBTX, row *db.UserGrant, field string) error {
	if row.ProjectGrantID == nil || policy.CallFrom(ctx).Reaches(policy.Place{InstanceID: row.InstanceID, OrgID: row.OrgID}) {
		return nil
	}
	service, err := s.queries.IsServiceUser(ctx, tx, db.IsServiceUserParams{InstanceID: row.InstanceID, ID: row.UserID})
	if err == nil && service {
		err = fault.New(fault.PermissionDenied, "SERVICE_USER_OF_ORG", "only administrators of the granted organization give roles to its service users").On(field)
	}
	return err
}

// PatchUserGrant changes the roles.
func (s *Service) PatchUserGrant(ctx context.Context, req *grantv3.PatchUserGrantRequest) (*grantv3.PatchUserGrantResponse, error) {
	grant, err := s.userGrants.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	var details *object.Details
	err = s.holding(ctx, grant.ProjectID, func(tx pgx.Tx) error {
		details, err = s.userGrants.In(tx).Change(ctx, req.GetId(), &eventv1.UserGrantChanged{}, func(tx pgx.Tx, row *db.UserGrant) error {
			if err := s.ownWord(ctx, tx, row, "id"); err != nil {
				return err
			}
			storage.AssignPatchUserGrant(row, req.GetUserGrant())
			var under *db.ProjectGrant
			if row.ProjectGrantID != nil {
				if under, err = s.projectGrants.In(tx).Get(ctx, *row.ProjectGrantID); err != nil {
					return err
				}
			}
			return s.checkRoles(ctx, tx, row.ProjectID, row.RoleKeys, under, "userGrant.roleKeys.keys")
		})
		return err
	})
	return &grantv3.PatchUserGrantResponse{Details: details}, err
}

// DeleteUserGrant takes the roles away.
func (s *Service) DeleteUserGrant(ctx context.Context, req *grantv3.DeleteUserGrantRequest) (*grantv3.DeleteUserGrantResponse, error) {
	details, err := s.userGrants.Delete(ctx, req.GetId(), &eventv1.UserGrantRemoved{}, nil)
	return &grantv3.DeleteUserGrantResponse{Details: details}, err
}

// GetUserGrant reads one user grant; users may read their own.
func (s *Service) GetUserGrant(ctx context.Context, req *grantv3.GetUserGrantRequest) (*grantv3.GetUserGrantResponse, error) {
	row, err := s.userGrants.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &grantv3.GetUserGrantResponse{UserGrant: storage.NewGetUserGrant(row)}, nil
}

// SearchUserGrants finds the user grants that meet all filters.
func (s *Service) SearchUserGrants(ctx context.Context, req *grantv3.SearchUserGrantsRequest) (*grantv3.SearchUserGrantsResponse, error) {
	rows, details, err := storage.SearchUserGrants(ctx, s.userGrants, req, filters{})
	return &grantv3.SearchUserGrantsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetUserGrant),
	}, err
}

// ActivateUserGrant makes a user grant active.
func (s *Service) ActivateUserGrant(ctx context.Context, req *grantv3.ActivateUserGrantRequest) (*grantv3.ActivateUserGrantResponse, error) {
	row, err := s.userGrants.Get(ctx, req.GetId())
	if err == nil {
		err = s.ownWord(ctx, s.DB.Conn(), row, "id")
	}
	if err != nil {
		return nil, err
	}
	details, err := resource.SetState(ctx, s.userGrants, storage.UserGrants{}.State, req.GetId(), active, &eventv1.UserGrantReactivated{})
	return &grantv3.ActivateUserGrantResponse{Details: details}, err
}

// DeactivateUserGrant makes a user grant inactive.
func (s *Service) DeactivateUserGrant(ctx context.Context, req *grantv3.DeactivateUserGrantRequest) (*grantv3.DeactivateUserGrantResponse, error) {
	details, err := resource.SetState(ctx, s.userGrants, storage.UserGrants{}.State, req.GetId(), inactive, &eventv1.UserGrantDeactivated{})
	return &grantv3.DeactivateUserGrantResponse{Details: details}, err
}
