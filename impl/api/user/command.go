package user

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/secret"
)

// What no operation of the contract does: secrets whose value is known, and the users of the
// system. Package seed calls these as the product itself (policy.As).

// In returns the service within a transaction: what it does happens when that commits.
func (s *Service) In(tx pgx.Tx) *Service {
	c := s.Config
	c.Env = s.Env.In(tx)
	return New(c)
}

// Find reads a user with all that is stored of it.
func (s *Service) Find(ctx context.Context, id string) (*db.UserRow, error) {
	return s.users.Get(ctx, id)
}

// AddSystemUser creates a service user of the system and returns its ID; "" lets one be
// chosen.
func (s *Service) AddSystemUser(ctx context.Context, id, username string) (string, error) {
	name, err := Canonical(username)
	if err != nil {
		return "", err
	}
	user := &db.UserRow{ID: id, UserType: service, State: active, Username: name, DisplayName: name, LoginName: name, AccessTokenType: opaque}
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if id != "" {
			if err := s.users.Unused(ctx, tx, id, "user"); err != nil {
				return err
			}
		}
		_, err := s.users.CreateIn(ctx, tx, user, &eventv1.MachineAdded{})
		return err
	})
	return user.ID, err
}

// AddToken gives a user a personal access token of a known value.
func (s *Service) AddToken(ctx context.Context, user *db.UserRow, name, value string, expires *time.Time) error {
	hash := secret.HashToken(value)
	_, err := s.tokens.Create(ctx, &db.PersonalAccessToken{
		OrgID: user.OrgID, UserID: user.ID, Name: name, TokenHash: hash[:], ExpirationDate: expires,
	}, &eventv1.PATAdded{})
	return err
}

// DropToken takes a personal access token from its user.
func (s *Service) DropToken(ctx context.Context, id string) error {
	_, err := s.tokens.Delete(ctx, id, &eventv1.PATRemoved{}, nil)
	return err
}

// SetSecret gives a service user a client secret of a known value.
func (s *Service) SetSecret(ctx context.Context, id, value string) error {
	hash := secret.HashToken(value)
	_, err := s.users.Change(ctx, id, &eventv1.MachineSecretSet{}, func(_ pgx.Tx, user *db.UserRow) error {
		user.SecretHash = hash[:]
		return nil
	})
	return err
}
