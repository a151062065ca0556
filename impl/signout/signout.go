// Package signout ends what a user is signed in to.
package signout

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/policy"
)

// Everywhere ends the sessions of a user, with their access tokens, and everything
// that their refresh tokens are good for: what proved the user has changed, and who
// knew the old proof must not stay (SEC-097). The session of Keep stays.
func Everywhere(ctx context.Context, tx db.DBTX, now time.Time, instanceID, userID string) error {
	q := db.New()
	if err := q.RevokeGrantsOfUser(ctx, tx, db.RevokeGrantsOfUserParams{InstanceID: instanceID, UserID: userID}); err != nil {
		return err
	}
	kept, _ := ctx.Value(keepKey{}).(string)
	command := db.SetActorParams{Actor: policy.CallFrom(ctx).Caller.UserID, Now: now.Format(time.RFC3339Nano), Deletes: "users"} // each ends with its event
	if err := q.SetActor(ctx, tx, command); err != nil {
		return err
	}
	if err := q.EndSessionsOfUser(ctx, tx, db.EndSessionsOfUserParams{InstanceID: instanceID, UserID: userID, Kept: kept}); err != nil {
		return err
	}
	command.Deletes = ""
	return q.SetActor(ctx, tx, command)
}

type keepKey struct{}

// Keep returns a context in which a session stays: the one in which the user has
// just proven who they are.
func Keep(ctx context.Context, sessionID string) context.Context {
	return context.WithValue(ctx, keepKey{}, sessionID)
}
