package user

import (
	"context"
	"errors"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/secret"
)

// passwordAttempts is how many wrong passwords a user may be given, on all roads, in
// a period that begins with the first of them. It ends by itself, so that nobody can
// keep a user out for good (SEC-177).
const (
	passwordAttempts = 10
	passwordPeriod   = 10 * time.Minute
)

// CheckPassword reports whether a password is that of a user. It is the one way
// to try a password: every road counts its failures on the same user (SEC-174),
// before the password is compared and taken back after, so that parallel guesses
// all count (SEC-176). After passwordAttempts failures nothing is right until the
// period ends. A user without a password, or none, takes as long (SEC-170): name is
// what the user was named by, so that it takes as long each time.
//
// A hash from another system is replaced by one of ours when the password is
// right (SEC-278).
func CheckPassword(ctx context.Context, conn db.DBTX, now time.Time, instanceID, userID, name, password string) (bool, error) {
	queries := db.New()
	tried, err := queries.TryPassword(ctx, conn, db.TryPasswordParams{
		InstanceID: instanceID, ID: userID, Name: name, Now: now, PeriodEnd: now.Add(passwordPeriod), AttemptsLimit: passwordAttempts,
	})
	if err != nil {
		return false, err
	}
	right, rehash, err := secret.Verify(ctx, tried.PasswordHash, password, tried.Comparable)
	if err != nil && tried.Counted { // it was not compared, so it was no failure: overload must not lock users out
		uncounted := queries.UncountPassword(context.WithoutCancel(ctx), conn, db.UncountPasswordParams{InstanceID: instanceID, ID: userID})
		return false, errors.Join(err, uncounted)
	}
	if err != nil || !right {
		return false, err
	}
	if rehash {
		better, err := secret.New(ctx, password)
		if err == nil { // under load another login will do it
			err = queries.RehashPassword(ctx, conn, db.RehashPasswordParams{InstanceID: instanceID, ID: userID, PasswordHash: better, OldHash: tried.PasswordHash})
			if err != nil {
				return false, err
			}
		}
	}
	return true, queries.ForgivePassword(ctx, conn, db.ForgivePasswordParams{InstanceID: instanceID, ID: userID})
}

type nameKey struct{}

// Named returns a context of an attempt at a name, for those who find no user of it
// and know none afterwards.
func Named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// NameOf returns the name of an attempt; other, when the context has none.
func NameOf(ctx context.Context, other string) string {
	if name, ok := ctx.Value(nameKey{}).(string); ok {
		return name
	}
	return other
}
