// Package password replaces the passwords of users on the pages: by a code that was sent
// to them, or because it has to be changed.
package password

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/login/code"
	"github.com/writ-id/writ/impl/oidc/login/rule"
)

// Bounds of a password, in characters: those of the contract.
var shortest, longest = rule.Length(&userv3.SetPassword{}, "plain")

// Shortest is how many characters a password has at least.
func Shortest() int { return shortest }

// CanBe reports whether any password can be as long as what was typed, which need not be
// looked at otherwise.
func CanBe(typed string) bool { return len(typed) <= 4*longest }

// Wrong says what is wrong with a new password; "" is nothing.
type Wrong string

// What can be wrong.
const (
	Right   Wrong = ""
	Missing Wrong = "required"
	Short   Wrong = "short"
	Long    Wrong = "long"
	IsName  Wrong = "name" // it is the name of its user
	Differs Wrong = "differs"
	Same    Wrong = "same" // it is the one that the user has
	BadCode Wrong = "code"
)

// Check says what is wrong with a new password that was typed twice, for a user with a
// login name.
func Check(typed, again, loginName string) Wrong {
	if typed == "" {
		return Missing
	}
	switch rule.Broken(&userv3.SetPassword{Value: &userv3.SetPassword_Plain{Plain: typed}})["plain"] {
	case rule.TooShort:
		return Short
	case rule.TooLong:
		return Long
	}
	switch {
	case Is(typed, loginName):
		return IsName
	case typed != again:
		return Differs
	}
	return Right
}

// Is reports whether a password is the name of its user, which it must not be.
func Is(password, loginName string) bool {
	username := loginName
	if at := strings.LastIndexByte(loginName, '@'); at >= 0 {
		username = loginName[:at]
	}
	folded := resource.Fold(password)
	return folded == resource.Fold(loginName) || folded == resource.Fold(username)
}

// Service sets passwords. It is safe for concurrent use; every field is required.
type Service struct {
	DB    *store.DB
	Roles *policy.Roles
	Users *user.Service
	Codes *code.Codes
}

// active is the state of users who can sign in.
const active = userv3.UserState_USER_STATE_ACTIVE

// Reset sets a new password by a code. Whatever was open in the name of the user ends
// (SEC-173).
func (s *Service) Reset(ctx context.Context, instanceID, userID, browser, typed, password string) (Wrong, error) {
	tried, err := s.Codes.Try(ctx, instanceID, userID, code.Reset, browser, typed)
	if err != nil || tried == nil {
		return BadCode, err
	}
	of, err := db.New().CodeUser(ctx, s.DB.Pool, db.CodeUserParams{InstanceID: instanceID, ID: userID})
	if store.NoRow(err) || err == nil && (of.State != active || of.Email != tried.Address) {
		return BadCode, nil
	}
	if err != nil {
		return Right, err
	}
	if Is(password, of.LoginName) {
		return IsName, nil
	}
	hash, err := s.Users.Hashes.New(ctx, instanceID, password)
	if err != nil {
		return Right, err
	}
	used := false
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if used, err = s.Codes.Use(ctx, tx, tried); err != nil || !used {
			return err
		}
		return s.set(ctx, tx, instanceID, &of, hash, "")
	})
	if err == nil && !used {
		return BadCode, nil
	}
	return Right, err
}

// Change sets another password for a user who has just proven the one they have, in a
// session that stays. Their others end.
func (s *Service) Change(ctx context.Context, instanceID, userID, sessionID, password string) (Wrong, error) {
	of, err := db.New().CodeUser(ctx, s.DB.Pool, db.CodeUserParams{InstanceID: instanceID, ID: userID})
	if err != nil {
		return Right, err
	}
	// Not a way to try passwords: who is here has just proven this one.
	same, _, err := s.Users.Hashes.Verify(ctx, instanceID, of.PasswordHash, password, of.PasswordHash != "")
	if err != nil || same {
		return Same, err
	}
	hash, err := s.Users.Hashes.New(ctx, instanceID, password)
	if err != nil {
		return Right, err
	}
	return Right, s.DB.InTx(ctx, func(tx pgx.Tx) error { return s.set(ctx, tx, instanceID, &of, hash, sessionID) })
}

// set replaces the password of a user, which ends their sessions but one, and tells them.
// The hash is made before: it takes long.
func (s *Service) set(ctx context.Context, tx pgx.Tx, instanceID string, of *db.CodeUserRow, hash, keep string) error {
	product := policy.As(ctx, policy.In(instanceID, of.OrgID), of.ID, s.Roles)
	if _, err := s.Users.In(tx).SetPasswordKeeping(product, &userv3.SetPasswordRequest{
		Id: of.ID, NewPassword: &userv3.SetPassword{Value: &userv3.SetPassword_Hash{Hash: hash}},
	}, keep); err != nil {
		return err
	}
	if of.Email == "" || !of.IsEmailVerified {
		return nil
	}
	return s.Codes.Tell(ctx, tx, "password_changed", code.Recipient{
		InstanceID: instanceID, ID: of.ID, OrgID: of.OrgID, Address: of.Email, Proven: of.IsEmailProven, Language: of.PreferredLanguage, Name: of.DisplayName,
	})
}
