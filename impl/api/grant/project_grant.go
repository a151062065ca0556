package grant

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	grantv3 "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
)

// CreateProjectGrant grants a project that the caller may change.
func (s *Service) CreateProjectGrant(ctx context.Context, req *grantv3.CreateProjectGrantRequest) (*grantv3.CreateProjectGrantResponse, error) {
	row := &db.ProjectGrant{State: active}
	storage.AssignProjectGrant(row, req.GetProjectGrant())
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		project, err := s.projects.Hold(ctx, tx, row.ProjectID)
		if err != nil {
			return err
		}
		if row.OrgID = project.OrgID; row.OrgID == row.GrantedOrgID {
			return fault.New(fault.FailedPrecondition, "OWN_PROJECT", "the organization owns the project").On("projectGrant.grantedOrgId")
		}
		if err := s.checkRoles(ctx, tx, row.ProjectID, row.RoleKeys, nil, "projectGrant.roleKeys"); err != nil {
			return err
		}
		details, err = s.projectGrants.CreateIn(ctx, tx, row, &eventv1.ProjectGrantAdded{})
		return err
	})
	return &grantv3.CreateProjectGrantResponse{Details: details}, err
}

// PatchProjectGrant changes the roles. Those taken away are taken from the users
// too.
func (s *Service) PatchProjectGrant(ctx context.Context, req *grantv3.PatchProjectGrantRequest) (*grantv3.PatchProjectGrantResponse, error) {
	grant, err := s.projectGrants.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	var details *object.Details
	err = s.locking(ctx, grant.ProjectID, func(tx pgx.Tx) error {
		details, err = s.projectGrants.In(tx).Change(ctx, req.GetId(), &eventv1.ProjectGrantChanged{}, func(tx pgx.Tx, row *db.ProjectGrant) error {
			before := row.RoleKeys
			storage.AssignPatchProjectGrant(row, req.GetProjectGrant())
			if err := s.checkRoles(ctx, tx, row.ProjectID, row.RoleKeys, nil, "projectGrant.roleKeys.keys"); err != nil {
				return err
			}
			taken := without(before, row.RoleKeys)
			if len(taken) == 0 {
				return nil
			}
			return s.takeFromUsers(ctx, tx, row.ProjectID, &row.ID, taken, s.Now())
		})
		return err
	})
	return &grantv3.PatchProjectGrantResponse{Details: details}, err
}

// without returns what is in all but not in some.
func without(all, some []string) []string {
	var rest []string
	for _, one := range all {
		if !slices.Contains(some, one) {
			rest = append(rest, one)
		}
	}
	return rest
}

// DeleteProjectGrant deletes a project grant with the user grants under it.
func (s *Service) DeleteProjectGrant(ctx context.Context, req *grantv3.DeleteProjectGrantRequest) (*grantv3.DeleteProjectGrantResponse, error) {
	details, err := s.projectGrants.Delete(ctx, req.GetId(), &eventv1.ProjectGrantRemoved{}, nil)
	return &grantv3.DeleteProjectGrantResponse{Details: details}, err
}

// GetProjectGrant reads one project grant; the organization it is made to may
// read it too.
func (s *Service) GetProjectGrant(ctx context.Context, req *grantv3.GetProjectGrantRequest) (*grantv3.GetProjectGrantResponse, error) {
	row, err := s.projectGrants.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &grantv3.GetProjectGrantResponse{ProjectGrant: storage.NewGetProjectGrant(row)}, nil
}

// SearchProjectGrants finds the project grants that meet all filters.
func (s *Service) SearchProjectGrants(ctx context.Context, req *grantv3.SearchProjectGrantsRequest) (*grantv3.SearchProjectGrantsResponse, error) {
	rows, details, err := storage.SearchProjectGrants(ctx, s.projectGrants, req, filters{})
	return &grantv3.SearchProjectGrantsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetProjectGrant),
	}, err
}

// ActivateProjectGrant makes a project grant active.
func (s *Service) ActivateProjectGrant(ctx context.Context, req *grantv3.ActivateProjectGrantRequest) (*grantv3.ActivateProjectGrantResponse, error) {
	details, err := resource.SetState(ctx, s.projectGrants, storage.ProjectGrants{}.State, req.GetId(), active, &eventv1.ProjectGrantReactivated{})
	return &grantv3.ActivateProjectGrantResponse{Details: details}, err
}

// DeactivateProjectGrant makes a project grant inactive.
func (s *Service) DeactivateProjectGrant(ctx context.Context, req *grantv3.DeactivateProjectGrantRequest) (*grantv3.DeactivateProjectGrantResponse, error) {
	details, err := resource.SetState(ctx, s.projectGrants, storage.ProjectGrants{}.State, req.GetId(), inactive, &eventv1.ProjectGrantDeactivated{})
	return &grantv3.DeactivateProjectGrantResponse{Details: details}, err
}
