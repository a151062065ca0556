package user

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/key"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/signout"
)

// CreateMachineKey gives a service user a key.
func (s *Service) CreateMachineKey(ctx context.Context, req *userv3.CreateMachineKeyRequest) (*userv3.CreateMachineKeyResponse, error) {
	if err := s.inFuture(req.GetKey().GetExpirationDate(), "key.expirationDate"); err != nil {
		return nil, err
	}
	// Asked before making a pair, which takes time, and again below.
	if err := s.DB.InTx(ctx, func(tx pgx.Tx) error { _, err := s.lockService(ctx, tx, req.GetUserId()); return err }); err != nil {
		return nil, err
	}
	onCurve := req.GetKey().GetType() == userv3.MachineKeyType_MACHINE_KEY_TYPE_EC_P256
	public, private, err := key.Pair(ctx, policy.CallFrom(ctx).Context.InstanceID, req.GetKey().GetPublicKey(), onCurve, "key.publicKey")
	if err != nil {
		return nil, err
	}
	row := &db.MachineKey{ID: s.NewID(), UserID: req.GetUserId()}
	storage.AssignMachineKey(row, req.GetKey())
	row.PublicKey = public
	var details *object.Details
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.lockService(ctx, tx, req.GetUserId())
		if err != nil {
			return err
		}
		row.OrgID = user.OrgID
		details, err = s.keys.CreateIn(ctx, tx, row, &eventv1.MachineKeyAdded{})
		return err
	})
	file := key.File{Type: "serviceaccount", KeyID: row.ID, Key: private, UserID: row.UserID, ExpirationDate: row.ExpirationDate}
	return &userv3.CreateMachineKeyResponse{Details: details, KeyId: row.ID, KeyDetails: file.JSON()}, err
}

// DeleteMachineKey takes a key from a service user, and the tokens that it was good
// for.
func (s *Service) DeleteMachineKey(ctx context.Context, req *userv3.DeleteMachineKeyRequest) (*userv3.DeleteMachineKeyResponse, error) {
	details, err := s.keys.Delete(ctx, req.GetId(), &eventv1.MachineKeyRemoved{}, func(tx pgx.Tx, key *db.MachineKey) error {
		return signout.Everywhere(ctx, tx, s.Now(), key.InstanceID, key.UserID)
	}, func(of *db.MachineKey) bool { return of.UserID == req.GetUserId() })
	return &userv3.DeleteMachineKeyResponse{Details: details}, err
}

// SearchMachineKeys finds the keys that meet all filters.
func (s *Service) SearchMachineKeys(ctx context.Context, req *userv3.SearchMachineKeysRequest) (*userv3.SearchMachineKeysResponse, error) {
	if _, err := s.users.Get(ctx, req.GetUserId()); err != nil {
		return nil, err
	}
	rows, details, err := storage.SearchMachineKeys(ctx, s.keys, req)
	return &userv3.SearchMachineKeysResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetMachineKey),
	}, err
}
