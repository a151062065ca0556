// Package signout ends what a user is signed in to.
package signout

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
)

// Everywhere ends the sessions of a user, and everything that was issued in their name:
// codes, tokens, grants and codes for a new password. What proved the user has changed,
// or they may not sign in any more, and who knew the old proof must not stay (SEC-097).
//
// What was issued names the generation of its user, so what others are about to store
// meanwhile is no good either; whoever begins a session holds the user's row.
func Everywhere(ctx context.Context, tx db.DBTX, now time.Time, instanceID, userID string) error {
	return Elsewhere(ctx, tx, now, instanceID, userID, "")
}

// Elsewhere is Everywhere but for one session: that in which the user has just proven who
// they are.
func Elsewhere(ctx context.Context, tx db.DBTX, now time.Time, instanceID, userID, kept string) error {
	q := db.New()
	if err := q.NextGeneration(ctx, tx, db.NextGenerationParams{InstanceID: instanceID, ID: userID}); err != nil {
		return err
	}
	if err := q.DropResetCodes(ctx, tx, db.DropResetCodesParams{InstanceID: instanceID, UserID: userID}); err != nil {
		return err
	}
	if err := event.Deletes(ctx, tx, policy.CauseOf(ctx, now)); err != nil { // each ends with its event
		return err
	}
	return q.EndSessionsOfUser(ctx, tx, db.EndSessionsOfUserParams{InstanceID: instanceID, UserID: userID, Kept: kept})
}
