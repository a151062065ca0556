package user

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
)

// SetUserMetadata sets the value of a key.
func (s *Service) SetUserMetadata(ctx context.Context, req *userv3.SetUserMetadataRequest) (*userv3.SetUserMetadataResponse, error) {
	var details *object.Details
	set := &eventv1.UserMetadataSet{}
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.users.Lock(ctx, tx, req.GetUserId()) // so that one of two callers creates the key
		if err != nil {
			return err
		}
		entry, err := s.metadata.Under(user.ID).Lock(ctx, tx, req.GetKey())
		if isNotFound(err) {
			entry = &db.UserMetadatum{ID: req.GetKey(), UserID: user.ID, OrgID: user.OrgID, Value: req.GetMetadata().GetValue()}
			details, err = s.metadata.CreateIn(ctx, tx, entry, set)
			return err
		}
		if err != nil {
			return err
		}
		old := *entry
		entry.Value = req.GetMetadata().GetValue()
		_, err = s.metadata.Save(ctx, tx, &old, entry, set)
		details = s.metadata.Details(entry)
		return err
	})
	return &userv3.SetUserMetadataResponse{Details: details}, err
}

// SetMetadata sets entries, all of them or none.
func (s *Service) SetMetadata(ctx context.Context, userID string, entries []*eventv1.FunctionMetadata) error {
	return s.DB.InTx(ctx, func(tx pgx.Tx) error {
		users := s.In(tx)
		for _, entry := range entries {
			if _, err := users.SetUserMetadata(ctx, &userv3.SetUserMetadataRequest{
				UserId: userID, Key: entry.GetKey(), Metadata: &userv3.UserMetadata{Value: entry.GetValue()},
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeleteUserMetadata deletes a key.
func (s *Service) DeleteUserMetadata(ctx context.Context, req *userv3.DeleteUserMetadataRequest) (*userv3.DeleteUserMetadataResponse, error) {
	details, err := s.metadata.Under(req.GetUserId()).Delete(ctx, req.GetKey(), &eventv1.UserMetadataRemoved{}, nil)
	return &userv3.DeleteUserMetadataResponse{Details: details}, err
}

// SearchUserMetadata finds the entries that meet all filters.
func (s *Service) SearchUserMetadata(ctx context.Context, req *userv3.SearchUserMetadataRequest) (*userv3.SearchUserMetadataResponse, error) {
	if _, err := s.users.Get(ctx, req.GetUserId()); err != nil {
		return nil, err
	}
	rows, details, err := storage.SearchUserMetadata(ctx, s.metadata, req)
	return &userv3.SearchUserMetadataResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, storage.NewGetUserMetadata),
	}, err
}

// isNotFound reports whether an error says that something does not exist.
func isNotFound(err error) bool {
	refusal, ok := errors.AsType[*fault.Error](err)
	return ok && refusal.Kind == fault.NotFound
}
