// Package project manages projects, which hold roles and applications.
//
// Service implements contracts/proto/writ/project. What is the same for all
// resources is package resource; what is peculiar to projects is who owns a new
// one.
package project

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/membership"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the projects API. It is safe for concurrent use.
type Service struct {
	projectv3.UnsafeServiceProjectsServer

	resource.Env
	projects    *resource.Table[db.Project, storage.Projects]
	memberships *membership.Service
}

var _ projectv3.ServiceProjectsServer = (*Service)(nil)

// New returns a Service over env that makes owners of projects through memberships.
func New(env resource.Env, memberships *membership.Service) *Service {
	return &Service{Env: env, projects: resource.New(env, storage.Projects{}), memberships: memberships}
}

const (
	active   = object.EffectiveState_EFFECTIVE_STATE_ACTIVE
	inactive = object.EffectiveState_EFFECTIVE_STATE_INACTIVE
)

// CreateProject creates a project. An ID that a project had before is refused
// (SEC-219).
func (s *Service) CreateProject(ctx context.Context, req *projectv3.CreateProjectRequest) (*projectv3.CreateProjectResponse, error) {
	row := &db.Project{}
	storage.AssignProject(row, req.GetProject())
	row.State, row.ID = active, req.GetProject().GetId()
	var details *object.Details
	owned := false
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if row.ID != "" {
			if err := s.projects.Unused(ctx, tx, row.ID, "project"); err != nil {
				return err
			}
		}
		if details, err = s.projects.CreateIn(ctx, tx, row, &eventv1.ProjectAdded{}); err != nil {
			return err
		}
		owned, err = s.own(ctx, tx, row)
		return err
	})
	if owned {
		s.Invalidate() // so that the caller can go on at once
	}
	return &projectv3.CreateProjectResponse{Details: details}, err
}

// own makes the caller the owner of a new project, if they could do nothing with
// it otherwise. It reports whether it did.
func (s *Service) own(ctx context.Context, tx pgx.Tx, row *db.Project) (bool, error) {
	call := policy.CallFrom(ctx)
	if call.Caller.InstanceID != row.InstanceID || call.Holds("project.write", policy.Place{InstanceID: row.InstanceID, OrgID: row.OrgID}) {
		return false, nil
	}
	return true, s.memberships.Own(ctx, tx, call.Caller.UserID, row)
}

// PatchProject changes the fields that are present.
func (s *Service) PatchProject(ctx context.Context, req *projectv3.PatchProjectRequest) (*projectv3.PatchProjectResponse, error) {
	details, err := s.projects.Change(ctx, req.GetId(), &eventv1.ProjectChanged{}, func(_ pgx.Tx, row *db.Project) error {
		storage.AssignPatchProject(row, req.GetProject())
		return nil
	})
	return &projectv3.PatchProjectResponse{Details: details}, err
}

// DeleteProject deletes a project and everything in it.
func (s *Service) DeleteProject(ctx context.Context, req *projectv3.DeleteProjectRequest) (*projectv3.DeleteProjectResponse, error) {
	details, err := s.projects.Delete(ctx, req.GetId(), &eventv1.ProjectRemoved{}, nil)
	return &projectv3.DeleteProjectResponse{Details: details}, err
}

// GetProject reads one project.
func (s *Service) GetProject(ctx context.Context, req *projectv3.GetProjectRequest) (*projectv3.GetProjectResponse, error) {
	row, err := s.projects.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &projectv3.GetProjectResponse{Project: storage.NewGetProject(row)}, nil
}

// SearchProjects finds the projects that meet all filters.
func (s *Service) SearchProjects(ctx context.Context, req *projectv3.SearchProjectsRequest) (*projectv3.SearchProjectsResponse, error) {
	rows, details, err := storage.SearchProjects(ctx, s.projects, req)
	return &projectv3.SearchProjectsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetProject),
	}, err
}

// ActivateProject makes a project active.
func (s *Service) ActivateProject(ctx context.Context, req *projectv3.ActivateProjectRequest) (*projectv3.ActivateProjectResponse, error) {
	details, err := resource.SetState(ctx, s.projects, storage.Projects{}.State, req.GetId(), active, &eventv1.ProjectReactivated{})
	return &projectv3.ActivateProjectResponse{Details: details}, err
}

// DeactivateProject makes a project inactive.
func (s *Service) DeactivateProject(ctx context.Context, req *projectv3.DeactivateProjectRequest) (*projectv3.DeactivateProjectResponse, error) {
	details, err := resource.SetState(ctx, s.projects, storage.Projects{}.State, req.GetId(), inactive, &eventv1.ProjectDeactivated{})
	return &projectv3.DeactivateProjectResponse{Details: details}, err
}
