package user

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signout"
)

// SetClientSecret gives a service user a client secret. It holds 256 bits, so
// one SHA-256 keeps it (SEC-053); the one before it may stay good for a while
// (SEC-059).
func (s *Service) SetClientSecret(ctx context.Context, req *userv3.SetClientSecretRequest) (*userv3.SetClientSecretResponse, error) {
	value := secret.Random()
	hash := secret.HashToken(value)
	var clientID string
	details, err := s.users.Change(ctx, req.GetId(), &eventv1.MachineSecretSet{}, func(_ pgx.Tx, user *db.UserRow) error {
		if user.UserType != service {
			return notService()
		}
		clientID = user.Username
		user.OldSecretHash, user.OldSecretUntil = secret.Retire(user.SecretHash, s.Now(), req.GetSecret().GetOverlap().AsDuration())
		user.SecretHash = hash[:]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &userv3.SetClientSecretResponse{Details: details, ClientId: clientID, ClientSecret: value}, nil
}

// DeleteClientSecret takes the client secrets from a service user, and the tokens that
// they were good for.
func (s *Service) DeleteClientSecret(ctx context.Context, req *userv3.DeleteClientSecretRequest) (*userv3.DeleteClientSecretResponse, error) {
	details, err := s.users.Change(ctx, req.GetId(), &eventv1.MachineSecretRemoved{}, func(tx pgx.Tx, user *db.UserRow) error {
		if user.UserType != service {
			return notService()
		}
		if user.SecretHash == nil {
			return fault.New(fault.FailedPrecondition, "NO_SECRET", "the user has no client secret")
		}
		user.SecretHash, user.OldSecretHash, user.OldSecretUntil = nil, nil, nil
		return signout.Everywhere(ctx, tx, s.Now(), user.InstanceID, user.ID)
	})
	return &userv3.DeleteClientSecretResponse{Details: details}, err
}
