package app

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
)

// newSecret returns a secret and what is stored of it. Secrets hold 256 random
// bits, so one hash is enough (SEC-053).
func newSecret() (string, []byte) {
	made := secret.Random()
	hash := secret.HashToken(made)
	return made, hash[:]
}

// RegenerateSecret makes a new secret; the one before it stays good for the
// overlap that is asked for (SEC-059).
func (s *Service) RegenerateSecret(ctx context.Context, req *appv3.RegenerateSecretRequest) (*appv3.RegenerateSecretResponse, error) {
	made, hash := newSecret()
	details, err := s.apps.Change(ctx, req.GetId(), &eventv1.ApplicationSecretChanged{}, func(_ pgx.Tx, row *db.App) error {
		if err := mayConfigure(ctx, row); err != nil {
			return err
		}
		if !usesSecret(row) {
			return fault.New(fault.FailedPrecondition, "NO_SECRET", "the application does not authenticate with a secret")
		}
		row.OldSecretHash, row.OldSecretUntil = secret.Retire(row.SecretHash, s.Now(), req.GetRotation().GetOverlap().AsDuration())
		row.SecretHash = hash
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &appv3.RegenerateSecretResponse{Details: details, ClientSecret: made}, nil
}

// Find reads an application with all that is stored of it, for package seed.
func (s *Service) Find(ctx context.Context, id string) (*db.App, error) { return s.apps.Get(ctx, id) }

// SetSecret gives an application a client secret of a known value, which no operation of
// the contract does.
func (s *Service) SetSecret(ctx context.Context, id, value string) error {
	hash := secret.HashToken(value)
	_, err := s.apps.Change(ctx, id, &eventv1.ApplicationSecretChanged{}, func(_ pgx.Tx, row *db.App) error {
		row.SecretHash = hash[:]
		return nil
	})
	return err
}
