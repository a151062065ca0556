package user

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/secret"
)

// passwordAttempts is how many wrong passwords a user may be given, on all roads, in
// a period that begins with the first of them. It ends by itself, so that nobody can
// keep a user out for good (SEC-177).
const (
	passwordAttempts = 10
	passwordPeriod   = 10 * time.Minute
)

// Attempt is who tries a password.
type Attempt struct {
	// Name is what the user was named by: what nobody has takes as long each time.
	Name string
	// Browser is the ID of a browser that has signed the user in before, "" of a stranger.
	Browser string
}

// ErrTooMany is what CheckPassword returns when whoever tries has had too many wrong ones:
// nothing was compared, though it took as long.
var ErrTooMany = errors.New("user: too many wrong passwords")

// CheckPassword reports whether a password is that of a user. It is the one way to try a
// password: all strangers share the tries of a user, by whatever name and on every road
// (SEC-174), and each browser that has signed the user in before has its own, so that
// nobody can keep the user out of those (SEC-177). A failure is counted before the password
// is compared and taken back after, so that parallel guesses all count (SEC-176); so that
// right ones do not use the tries up, few are under way at once. A user without a password,
// or none, takes as long (SEC-170).
//
// A hash from another system is replaced by one of ours when the password is
// right (SEC-278).
func (s *Service) CheckPassword(ctx context.Context, instanceID, userID string, by Attempt, password string) (bool, error) {
	leave, err := s.inLine.enter(ctx, instanceID+"\x00"+cmp.Or(userID, by.Name)+"\x00"+by.Browser)
	if err != nil {
		return false, err
	}
	defer leave()
	queries, conn, now := s.queries, s.DB.Conn(), s.Now()
	tried, err := queries.TryPassword(ctx, conn, db.TryPasswordParams{
		InstanceID: instanceID, ID: userID, Name: by.Name, Browser: by.Browser, Now: now, PeriodEnd: now.Add(passwordPeriod), AttemptsLimit: passwordAttempts,
	})
	if err != nil {
		return false, err
	}
	right, rehash, err := secret.Verify(ctx, instanceID, tried.PasswordHash, password, tried.Comparable)
	if err != nil && tried.Counted { // it was not compared, so it was no failure: overload must not lock users out
		uncounted := queries.UncountPassword(context.WithoutCancel(ctx), conn, db.UncountPasswordParams{InstanceID: instanceID, ID: userID, Browser: by.Browser})
		return false, errors.Join(err, uncounted)
	}
	if err == nil && userID != "" && !tried.Counted {
		err = ErrTooMany
	}
	if err != nil || !right {
		return false, err
	}
	if rehash {
		better, err := secret.New(ctx, instanceID, password)
		if err == nil { // under load another login will do it
			err = queries.RehashPassword(ctx, conn, db.RehashPasswordParams{InstanceID: instanceID, ID: userID, PasswordHash: better, OldHash: tried.PasswordHash})
			if err != nil {
				return false, err
			}
		}
	}
	return true, queries.ForgivePassword(ctx, conn, db.ForgivePasswordParams{InstanceID: instanceID, ID: userID, Browser: by.Browser})
}
