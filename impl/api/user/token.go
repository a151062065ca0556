package user

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
)

// inFuture refuses an expiration date that is past.
func (s *Service) inFuture(expires *timestamppb.Timestamp, field string) error {
	if expires != nil && !expires.AsTime().After(s.Now()) {
		return fault.Invalid("EXPIRATION_DATE_PAST", field, "must be in the future")
	}
	return nil
}

// CreatePersonalAccessToken gives a service user a token (SEC-239).
func (s *Service) CreatePersonalAccessToken(ctx context.Context, req *userv3.CreatePersonalAccessTokenRequest) (*userv3.CreatePersonalAccessTokenResponse, error) {
	if err := s.inFuture(req.GetPat().GetExpirationDate(), "pat.expirationDate"); err != nil {
		return nil, err
	}
	value := policy.TokenPrefix + secret.Random()
	hash := secret.HashToken(value)
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.lockService(ctx, tx, req.GetUserId())
		if err != nil {
			return err
		}
		token := &db.PersonalAccessToken{ID: s.NewID(), UserID: user.ID, OrgID: user.OrgID, TokenHash: hash[:]}
		storage.AssignPersonalAccessToken(token, req.GetPat())
		if token.Name == "" {
			token.Name = token.ID
		}
		details, err = s.tokens.CreateIn(ctx, tx, token, &eventv1.PATAdded{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &userv3.CreatePersonalAccessTokenResponse{Details: details, Token: value}, nil
}

// DeletePersonalAccessToken revokes a token.
func (s *Service) DeletePersonalAccessToken(ctx context.Context, req *userv3.DeletePersonalAccessTokenRequest) (*userv3.DeletePersonalAccessTokenResponse, error) {
	details, err := s.tokens.Delete(ctx, req.GetId(), &eventv1.PATRemoved{}, nil, func(of *db.PersonalAccessToken) bool { return of.UserID == req.GetUserId() })
	return &userv3.DeletePersonalAccessTokenResponse{Details: details}, err
}

// SearchPersonalAccessTokens finds the tokens that meet all filters.
func (s *Service) SearchPersonalAccessTokens(ctx context.Context, req *userv3.SearchPersonalAccessTokensRequest) (*userv3.SearchPersonalAccessTokensResponse, error) {
	if _, err := s.users.Get(ctx, req.GetUserId()); err != nil {
		return nil, err
	}
	rows, details, err := storage.SearchPersonalAccessTokens(ctx, s.tokens, req)
	return &userv3.SearchPersonalAccessTokensResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetPersonalAccessToken),
	}, err
}
