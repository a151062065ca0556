package authenticator

import (
	"context"
	"fmt"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

const resealBatch = 500

// Reseal seals the secrets of all authenticators anew, by the key that seals now,
// and returns how many. It may run while nodes do, and again after a failure.
func Reseal(ctx context.Context, s *store.DB, sealer secret.Sealer) (int, error) {
	queries, done := db.New(), 0
	var after db.SealedAuthenticatorsParams
	for {
		after.PageLimit = resealBatch
		rows, err := queries.SealedAuthenticators(ctx, s.Pool, after)
		if err != nil || len(rows) == 0 {
			return done, err
		}
		for _, row := range rows {
			at := place(row.InstanceID, row.UserID)
			sealed, err := secret.Reseal(sealer, row.Secret, at)
			if err != nil {
				return done, fmt.Errorf("authenticator %s: %w", row.ID, err)
			}
			n, err := queries.ResealAuthenticator(ctx, s.Pool, db.ResealAuthenticatorParams{
				InstanceID: row.InstanceID, ID: row.ID, Old: row.Secret, Sealed: sealed,
			})
			if err != nil {
				return done, err
			}
			done += int(n)
			after.InstanceID, after.ID = row.InstanceID, row.ID
		}
	}
}
