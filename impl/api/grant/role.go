package grant

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	grantv3 "github.com/writ-id/writ/gen/proto/writ/grant/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/resource"
)

// CreateRole creates a role of a project that the caller may change.
func (s *Service) CreateRole(ctx context.Context, req *grantv3.CreateRoleRequest) (*grantv3.CreateRoleResponse, error) {
	row := &db.ProjectRole{}
	storage.AssignRole(row, req.GetRole())
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		project, err := s.projects.Hold(ctx, tx, row.ProjectID)
		if err != nil {
			return err
		}
		row.OrgID = project.OrgID
		details, err = s.roles.CreateIn(ctx, tx, row, &eventv1.ProjectRoleAdded{})
		return err
	})
	s.Invalidate() // so that clients can ask for it at once
	return &grantv3.CreateRoleResponse{Details: details}, err
}

// PatchRole changes the fields that are present.
func (s *Service) PatchRole(ctx context.Context, req *grantv3.PatchRoleRequest) (*grantv3.PatchRoleResponse, error) {
	details, err := s.roles.Change(ctx, req.GetId(), &eventv1.ProjectRoleChanged{}, func(_ pgx.Tx, row *db.ProjectRole) error {
		storage.AssignPatchRole(row, req.GetRole())
		return nil
	})
	return &grantv3.PatchRoleResponse{Details: details}, err
}

// DeleteRole deletes a role and takes it out of all grants.
func (s *Service) DeleteRole(ctx context.Context, req *grantv3.DeleteRoleRequest) (*grantv3.DeleteRoleResponse, error) {
	role, err := s.roles.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	var details *object.Details
	err = s.locking(ctx, role.ProjectID, func(tx pgx.Tx) error {
		details, err = s.roles.In(tx).Delete(ctx, req.GetId(), &eventv1.ProjectRoleRemoved{}, func(tx pgx.Tx, row *db.ProjectRole) error {
			return s.takeRole(ctx, tx, row.ProjectID, row.Key)
		})
		return err
	})
	return &grantv3.DeleteRoleResponse{Details: details}, err
}

// GetRole reads one role.
func (s *Service) GetRole(ctx context.Context, req *grantv3.GetRoleRequest) (*grantv3.GetRoleResponse, error) {
	row, err := s.roles.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &grantv3.GetRoleResponse{Role: storage.NewGetRole(row)}, nil
}

// SearchRoles finds the roles that meet all filters.
func (s *Service) SearchRoles(ctx context.Context, req *grantv3.SearchRolesRequest) (*grantv3.SearchRolesResponse, error) {
	rows, details, err := storage.SearchRoles(ctx, s.roles, req)
	return &grantv3.SearchRolesResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetRole),
	}, err
}
