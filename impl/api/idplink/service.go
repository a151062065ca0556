// Package idplink manages which accounts at identity providers sign users in.
//
// Service implements contracts/proto/writ/idp, ServiceUserIDPLinks. The login pages link
// by it too, once a user has proven that both accounts are theirs.
package idplink

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	idpv3 "github.com/writ-id/writ/gen/proto/writ/idp/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/signout"
	"github.com/writ-id/writ/impl/core/store"
)

// human is the type of users who sign in.
const human = 1

// Service implements the links API. It is safe for concurrent use.
type Service struct {
	idpv3.UnsafeServiceUserIDPLinksServer

	resource.Env
	queries *db.Queries
	users   *resource.Table[db.UserRow, storage.Users]
	links   *resource.Table[db.IdpLink, storage.IdpLinks]
}

var _ idpv3.ServiceUserIDPLinksServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service {
	return &Service{
		Env: env, queries: db.New(), users: resource.New(env, storage.Users{}),
		links: resource.New(env, storage.IdpLinks{}),
	}
}

// In returns the service within a transaction: what it does happens when that commits.
func (s *Service) In(tx pgx.Tx) *Service { return New(s.Env.In(tx)) }

// AddIDPLink links an account at a provider to a user.
func (s *Service) AddIDPLink(ctx context.Context, req *idpv3.AddIDPLinkRequest) (*idpv3.AddIDPLinkResponse, error) {
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.users.Lock(ctx, tx, req.GetUserId())
		if err != nil {
			return err
		}
		if user.UserType != human || user.OrgID == nil {
			return fault.New(fault.FailedPrecondition, "USER_NOT_HUMAN", "only human users sign in with identity providers")
		}
		row := &db.IdpLink{ID: s.NewID(), UserID: user.ID, OrgID: *user.OrgID}
		storage.AssignIDPLink(row, req.GetLink())
		row.IdpInstanceID, err = s.queries.LinkableIDP(ctx, tx, db.LinkableIDPParams{ID: row.IdpID, InstanceID: user.InstanceID, OrgID: *user.OrgID})
		if store.NoRow(err) {
			return storage.IdpLinksIdpFkey()
		}
		if err != nil {
			return err
		}
		details, err = s.links.CreateIn(ctx, tx, row, &eventv1.UserIDPLinkAdded{})
		return err
	})
	return &idpv3.AddIDPLinkResponse{Details: details}, s.links.Refusal(err)
}

// RemoveIDPLink removes a link. What proved the user is gone: who is signed in by it has to
// sign in again (SEC-097, SEC-202).
func (s *Service) RemoveIDPLink(ctx context.Context, req *idpv3.RemoveIDPLinkRequest) (*idpv3.RemoveIDPLinkResponse, error) {
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.users.Lock(ctx, tx, req.GetUserId()) // first, as whoever signs in does
		if err != nil {
			return err
		}
		if details, err = s.links.In(tx).Delete(ctx, req.GetId(), &eventv1.UserIDPLinkRemoved{}, nil, func(row *db.IdpLink) bool { return row.UserID == user.ID }); err != nil {
			return err
		}
		return signout.Everywhere(ctx, tx, s.Now(), user.InstanceID, user.ID)
	})
	return &idpv3.RemoveIDPLinkResponse{Details: details}, err
}

// SearchIDPLinks finds the links of a user that meet all filters.
func (s *Service) SearchIDPLinks(ctx context.Context, req *idpv3.SearchIDPLinksRequest) (*idpv3.SearchIDPLinksResponse, error) {
	if _, err := s.users.Get(ctx, req.GetUserId()); err != nil {
		return nil, err
	}
	rows, details, err := storage.SearchIDPLinks(ctx, s.links, req)
	return &idpv3.SearchIDPLinksResponse{Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, storage.NewGetIDPLink)}, err
}

// Rename stores what a user is called at the provider by now.
func (s *Service) Rename(ctx context.Context, id, name string) error {
	_, err := s.links.Change(ctx, id, &eventv1.UserIDPLinkChanged{}, func(_ pgx.Tx, row *db.IdpLink) error {
		row.ExternalUsername = name
		return nil
	})
	return err
}
