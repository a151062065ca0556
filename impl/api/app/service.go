// Package app manages the applications of projects: OpenID clients and APIs.
//
// Service implements contracts/proto/writ/app. An application and its settings
// are one row but two kinds of events, as the field has them. Which addresses may
// be registered is package redirect's; secrets are secret.go, keys key.go, and whom the
// resource API believes trust.go.
package app

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the applications API. It is safe for concurrent use.
type Service struct {
	appv3.UnsafeServiceAppsServer

	resource.Env
	projects *resource.Table[db.Project, storage.Projects]
	apps     *resource.Table[db.App, storage.Apps]
	keys     *resource.Table[db.AppKey, storage.AppKeys]
}

var _ appv3.ServiceAppsServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service {
	return &Service{
		Env: env, projects: resource.New(env, storage.Projects{}),
		apps: resource.New(env, storage.Apps{}),
		keys: resource.New(env, storage.AppKeys{}),
	}
}

const (
	active   = object.EffectiveState_EFFECTIVE_STATE_ACTIVE
	inactive = object.EffectiveState_EFFECTIVE_STATE_INACTIVE

	typeOIDC = appv3.AppType_APP_TYPE_OIDC
	typeAPI  = appv3.AppType_APP_TYPE_API
)

// typeOf returns the type of an application.
func typeOf(oidc bool) appv3.AppType {
	if oidc {
		return typeOIDC
	}
	return typeAPI
}

// CreateApp creates an application of a project, with a secret if it uses one.
func (s *Service) CreateApp(ctx context.Context, req *appv3.CreateAppRequest) (*appv3.CreateAppResponse, error) {
	row := &db.App{State: active, ClientID: s.NewID()}
	storage.AssignApp(row, req.GetApp())
	setDefaults(row)
	if err := check(row, s.Local, ""); err != nil {
		return nil, err
	}
	secret := ""
	if usesSecret(row) {
		secret, row.SecretHash = newSecret()
	}
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		project, err := s.projects.Hold(ctx, tx, row.ProjectID)
		if err != nil {
			return err
		}
		bare := &db.App{OrgID: project.OrgID, ProjectID: project.ID, Name: row.Name, Type: row.Type, State: row.State, ClientID: row.ClientID}
		if _, err = s.apps.CreateIn(ctx, tx, bare, &eventv1.ApplicationAdded{}); err != nil {
			return err
		}
		row.InstanceID, row.ID, row.OrgID, row.CreationDate = bare.InstanceID, bare.ID, bare.OrgID, bare.CreationDate
		_, err = s.apps.Save(ctx, tx, bare, row, configEvent(row, true))
		details = s.apps.Details(row)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &appv3.CreateAppResponse{Details: details, ClientId: row.ClientID, ClientSecret: secret}, nil
}

// configEvent returns the event of new or changed settings.
func configEvent(row *db.App, added bool) event.Payload {
	switch {
	case row.Type == typeOIDC && added:
		return &eventv1.ApplicationOIDCConfigAdded{}
	case row.Type == typeOIDC:
		return &eventv1.ApplicationOIDCConfigChanged{}
	case added:
		return &eventv1.ApplicationAPIConfigAdded{}
	}
	return &eventv1.ApplicationAPIConfigChanged{}
}

// PatchApp changes the fields that are present, name and settings each with their
// event.
func (s *Service) PatchApp(ctx context.Context, req *appv3.PatchAppRequest) (*appv3.PatchAppResponse, error) {
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		row, err := s.apps.Lock(ctx, tx, req.GetId())
		if err != nil {
			return err
		}
		named := *row
		storage.AssignPatchApp(row, &appv3.PatchApp{Name: req.GetApp().Name})
		if _, err := s.apps.Save(ctx, tx, &named, row, &eventv1.ApplicationChanged{}); err != nil {
			return err
		}
		set := *row
		if err := s.configure(ctx, row, req.GetApp()); err != nil {
			return err
		}
		_, err = s.apps.Save(ctx, tx, &set, row, configEvent(row, false))
		details = s.apps.Details(row)
		return err
	})
	return &appv3.PatchAppResponse{Details: details}, s.apps.Refusal(err)
}

// configure changes the settings of an application and checks the result.
func (s *Service) configure(ctx context.Context, row *db.App, patch *appv3.PatchApp) error {
	if patch.GetConfig() == nil {
		return nil
	}
	if err := mayConfigure(ctx, row); err != nil {
		return err
	}
	if of := typeOf(patch.GetOidc() != nil); of != row.Type {
		return fault.New(fault.FailedPrecondition, "OTHER_APP_TYPE", "the settings are not of this type of application").On("app")
	}
	storage.AssignPatchApp(row, &appv3.PatchApp{Config: patch.GetConfig()})
	if !usesSecret(row) {
		row.SecretHash, row.OldSecretHash, row.OldSecretUntil = nil, nil, nil
	}
	return check(row, s.Local, ".uris")
}

// DeleteApp deletes an application with its keys.
func (s *Service) DeleteApp(ctx context.Context, req *appv3.DeleteAppRequest) (*appv3.DeleteAppResponse, error) {
	details, err := s.apps.Delete(ctx, req.GetId(), &eventv1.ApplicationRemoved{}, nil)
	return &appv3.DeleteAppResponse{Details: details}, err
}

// GetApp reads one application.
func (s *Service) GetApp(ctx context.Context, req *appv3.GetAppRequest) (*appv3.GetAppResponse, error) {
	row, err := s.apps.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &appv3.GetAppResponse{App: view(row)}, nil
}

// SearchApps finds the applications that meet all filters.
func (s *Service) SearchApps(ctx context.Context, req *appv3.SearchAppsRequest) (*appv3.SearchAppsResponse, error) {
	rows, details, err := storage.SearchApps(ctx, s.apps, req)
	return &appv3.SearchAppsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, view),
	}, err
}

// view returns the answer that shows an application.
func view(row *db.App) *appv3.GetApp {
	shown := storage.NewGetApp(row)
	if row.Type == typeOIDC {
		shown.AllowedOrigins, shown.ComplianceProblems = AllowedOrigins(row), problemsOf(row)
		shown.NoneCompliant = len(shown.GetComplianceProblems()) > 0
	}
	return shown
}

// ActivateApp makes an application active.
func (s *Service) ActivateApp(ctx context.Context, req *appv3.ActivateAppRequest) (*appv3.ActivateAppResponse, error) {
	details, err := resource.SetState(ctx, s.apps, storage.Apps{}.State, req.GetId(), active, &eventv1.ApplicationReactivated{})
	return &appv3.ActivateAppResponse{Details: details}, err
}

// DeactivateApp makes an application inactive.
func (s *Service) DeactivateApp(ctx context.Context, req *appv3.DeactivateAppRequest) (*appv3.DeactivateAppResponse, error) {
	details, err := resource.SetState(ctx, s.apps, storage.Apps{}.State, req.GetId(), inactive, &eventv1.ApplicationDeactivated{})
	return &appv3.DeactivateAppResponse{Details: details}, err
}
