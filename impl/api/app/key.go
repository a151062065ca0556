package app

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/key"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// CreateAppKey adds the key of the request to an application, or makes one whose
// private half only the answer holds.
func (s *Service) CreateAppKey(ctx context.Context, req *appv3.CreateAppKeyRequest) (*appv3.CreateAppKeyResponse, error) {
	app, err := s.apps.Get(ctx, req.GetAppId()) // before anything costs time
	if err != nil {
		return nil, err
	}
	row := &db.AppKey{AppID: app.ID, ProjectID: app.ProjectID, OrgID: app.OrgID}
	storage.AssignAppKey(row, req.GetKey())
	var private string
	if row.PublicKey, private, err = key.Pair(ctx, policy.CallFrom(ctx).Context.InstanceID, row.PublicKey, false, "key.publicKey"); err != nil {
		return nil, err
	}
	var details *object.Details
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if app, err = s.apps.Hold(ctx, tx, app.ID); err != nil {
			return err
		}
		if err := mayConfigure(ctx, app); err != nil {
			return err
		}
		details, err = s.keys.CreateIn(ctx, tx, row, &eventv1.ApplicationKeyAdded{})
		return err
	})
	s.Invalidate() // so that the key is good at once
	file := key.File{Type: "application", KeyID: row.ID, Key: private, AppID: app.ID, ClientID: app.ClientID, ExpirationDate: row.ExpirationDate}
	return &appv3.CreateAppKeyResponse{Details: details, KeyDetails: file.JSON()}, err
}

// DeleteAppKey deletes a key of an application.
func (s *Service) DeleteAppKey(ctx context.Context, req *appv3.DeleteAppKeyRequest) (*appv3.DeleteAppKeyResponse, error) {
	details, err := s.keys.Delete(ctx, req.GetId(), &eventv1.ApplicationKeyRemoved{}, func(tx pgx.Tx, key *db.AppKey) error {
		app, err := s.apps.Hold(ctx, tx, key.AppID)
		if err != nil {
			return err
		}
		return mayConfigure(ctx, app)
	}, func(key *db.AppKey) bool { return key.AppID == req.GetAppId() })
	return &appv3.DeleteAppKeyResponse{Details: details}, err
}

// SearchAppKeys finds the keys of an application that meet all filters.
func (s *Service) SearchAppKeys(ctx context.Context, req *appv3.SearchAppKeysRequest) (*appv3.SearchAppKeysResponse, error) {
	if _, err := s.apps.Get(ctx, req.GetAppId()); err != nil {
		return nil, err
	}
	rows, details, err := storage.SearchAppKeys(ctx, s.keys, req)
	return &appv3.SearchAppKeysResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetAppKey),
	}, err
}
