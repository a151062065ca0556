package user

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/writ-id/writ/gen/db"
)

// PasswordAttempts is how many wrong passwords a user may be given, on all roads, in
// a PasswordPeriod, which begins with the first of them. It ends by itself, so that nobody can
// keep a user out for good (SEC-177).
const (
	PasswordAttempts = 10
	PasswordPeriod   = 10 * time.Minute
)

// Attempt is who tries a password of whom.
type Attempt struct {
	InstanceID, UserID string // an empty UserID is nobody
	// Name is what the user was named by: what nobody has takes as long each time.
	Name string
	// Hash is that of the user's password, as it was read with the user; "" of nobody, and of
	// somebody without one.
	Hash string
	// Browser is the ID of a browser that has signed the user in before, "" of a stranger.
	Browser string
}

// ErrTooMany is the answer to whoever tries a password after too many wrong ones: whether
// it was right nobody learns, though it took as long.
var ErrTooMany = errors.New("user: too many wrong passwords")

// Right is a password that was found right and has to be judged still: by Accept, or by a
// statement that begins with it what it is for.
type Right struct {
	Attempt

	service  *Service
	password string
	rehash   bool
}

// CheckPassword compares a password with that of a user; nil means that it is not. It is the
// one way to try a password: all strangers share the tries of a user, by whatever name and on
// every road (SEC-174), and each browser that has signed the user in before has its own, so
// that nobody can keep the user out of those (SEC-177). A user without a password, or none,
// takes as long (SEC-170).
//
// First it is compared, then judged, and only what was judged is told. A wrong one is
// counted in one statement, which finds whether there is a try left; a right one is good if
// there is one left when it is used, and is not counted, so that right ones do not use the
// tries up. So of any number of parallel guesses (SEC-176) PasswordAttempts learn that they
// are wrong; all others, the right one among them, learn that there were too many. What
// guesses cost is the same before and after, which is why the count is not asked for before:
// it is bounded by the places there are for hashes (secret.Work) and by the tries of an
// address.
func (s *Service) CheckPassword(ctx context.Context, by Attempt, password string) (*Right, error) {
	hash := by.Hash
	if hash == "" {
		var err error
		if hash, err = s.queries.PasswordDecoy(ctx, s.DB.Conn(), db.PasswordDecoyParams{InstanceID: by.InstanceID, Name: cmp.Or(by.Name, by.UserID)}); err != nil {
			return nil, err
		}
	}
	right, rehash, err := s.Hashes.Verify(ctx, by.InstanceID, hash, password, by.Hash != "" && by.UserID != "")
	if err != nil { // it was not compared, so it was no failure: overload does not lock users out
		return nil, err
	}
	if right {
		return &Right{by, s, password, rehash}, nil
	}
	if by.UserID == "" {
		return nil, nil
	}
	now := s.Now()
	counted, err := s.queries.CountWrongPassword(ctx, s.DB.Conn(), db.CountWrongPasswordParams{
		InstanceID: by.InstanceID, ID: by.UserID, Browser: by.Browser, Now: now, PeriodEnd: now.Add(PasswordPeriod), AttemptsLimit: PasswordAttempts,
	})
	if err == nil && counted == 0 {
		err = ErrTooMany
	}
	return nil, err
}

// Accept judges a right password: ErrTooMany when there is no try left.
func (r *Right) Accept(ctx context.Context, conn db.DBTX) error {
	accepted, err := r.service.queries.AcceptPassword(ctx, conn, db.AcceptPasswordParams{
		InstanceID: r.InstanceID, ID: r.UserID, Browser: r.Browser, Now: r.service.Now(), AttemptsLimit: PasswordAttempts,
	})
	if err == nil && !accepted {
		err = ErrTooMany
	}
	return err
}

// Judged fills what a statement needs that judges a right password itself.
func (r *Right) Judged(p *db.BeginSessionParams) {
	p.Browser, p.Now, p.AttemptsLimit = r.Browser, r.service.Now(), PasswordAttempts
}

// Improve replaces a hash of another system, or a weaker one, by one of ours (SEC-278). It
// comes after a password was judged, because it takes long.
func (r *Right) Improve(ctx context.Context) error {
	if !r.rehash {
		return nil
	}
	better, err := r.service.Hashes.New(ctx, r.InstanceID, r.password)
	if err != nil {
		return nil //nolint:nilerr // under load another login will do it
	}
	return r.service.queries.RehashPassword(ctx, r.service.DB.Conn(), db.RehashPasswordParams{InstanceID: r.InstanceID, ID: r.UserID, PasswordHash: better, OldHash: r.Hash})
}
