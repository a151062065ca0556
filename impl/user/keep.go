package user

import (
	"context"

	"github.com/jackc/pgx/v5"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/signout"
)

// DeactivateKeeping is DeactivateUser for who registers: the session stays in which they
// have just proven who they are.
func (s *Service) DeactivateKeeping(ctx context.Context, id, sessionID string) error {
	_, err := s.users.SetStateWith(ctx, id, inactive, &eventv1.UserDeactivated{}, func(tx pgx.Tx, user *row) error {
		return signout.Elsewhere(ctx, tx, s.Now(), user.InstanceID, user.ID, sessionID)
	}, active)
	return err
}
