package action

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/webhook"
)

// defaultOverlap is how long the old key signs too when nobody says.
const defaultOverlap = 24 * time.Hour

// RotateSigningKey gives a target another key to sign calls with.
func (s *Service) RotateSigningKey(ctx context.Context, req *actionv3.RotateSigningKeyRequest) (*actionv3.RotateSigningKeyResponse, error) {
	overlap := defaultOverlap
	if given := req.GetRotation().GetOverlap(); given != nil {
		overlap = given.AsDuration()
	}
	var key string
	details, err := s.targets.Change(ctx, req.GetId(), &eventv1.TargetKeyRotated{}, func(_ pgx.Tx, t *db.Target) (err error) {
		t.OldSigningKey, t.OldSigningKeyUntil = secret.Retire(t.SigningKey, s.Now(), overlap)
		key, err = s.newKey(t)
		return err
	})
	return &actionv3.RotateSigningKeyResponse{Details: details, SigningKey: key}, err
}

// newKey gives a target a new key and returns it as receivers get it. What is made without
// a master key, as by a seed, has none until it is rotated.
func (s *Service) newKey(t *db.Target) (string, error) {
	made, text := webhook.NewKey()
	sealed, err := s.sealer.Seal(made, execution.KeyPlace(t.InstanceID, t.ID))
	if errors.Is(err, secret.ErrNoKey) {
		t.SigningKey = []byte{}
		return "", nil
	}
	t.SigningKey = sealed
	return text, err
}
