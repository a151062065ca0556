package user

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signout"
)

// newPassword is a password in plain text or as a hash: userv3.Password and
// userv3.SetPassword.
type newPassword interface {
	GetPlain() string
	GetHash() string
}

// setPassword gives a user that is not stored yet a password. Hashing is slow,
// so it never runs within a transaction.
func (s *Service) setPassword(ctx context.Context, user *db.UserRow, password newPassword, field string) error {
	hash, now := password.GetHash(), s.Now()
	if hash != "" {
		if err := CheckHash(hash, s.MaxHashCost, field+".hash"); err != nil {
			return err
		}
	} else {
		name := resource.Fold(password.GetPlain())
		if name == resource.Fold(user.Username) || name == resource.Fold(user.LoginName) {
			return fault.Invalid("PASSWORD_IS_USERNAME", field+".plain", "must not be the username")
		}
		made, err := s.Hashes.New(ctx, policy.CallFrom(ctx).Context.InstanceID, password.GetPlain())
		if err != nil {
			return err
		}
		hash = made
	}
	user.PasswordHash, user.PasswordChanged = &hash, &now
	return nil
}

// CheckHash refuses a hash that is in no known format, or that takes more than most times the
// work of one of ours to verify; 0 is secret.DefaultMaxCost.
func CheckHash(hash string, most float64, field string) error {
	parsed, err := secret.ParseHash(hash)
	if err != nil {
		return fault.Invalid("INVALID_HASH", field, "is in no known format or beyond its bounds")
	}
	if cost, most := parsed.Cost(secret.Measured), cmp.Or(most, secret.DefaultMaxCost); cost > most {
		return fault.Invalid("HASH_TOO_COSTLY", field,
			"takes %.3g times the work of a hash of this server to verify, of which its operator allows %.3g (--max-hash-cost)", cost, most)
	}
	return nil
}

// SetPassword replaces the password of a human.
func (s *Service) SetPassword(ctx context.Context, req *userv3.SetPasswordRequest) (*userv3.SetPasswordResponse, error) {
	return s.SetPasswordKeeping(ctx, req, "")
}

// SetPasswordKeeping is SetPassword for the pages: a session stays, if one is named.
func (s *Service) SetPasswordKeeping(ctx context.Context, req *userv3.SetPasswordRequest, sessionID string) (*userv3.SetPasswordResponse, error) {
	user, err := s.users.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if user.UserType != human {
		return nil, notHuman()
	}
	if err := s.maySetPassword(ctx, user, req.GetNewPassword()); err != nil {
		return nil, err
	}
	changed := user.PasswordChanged
	if err := s.setPassword(ctx, user, req.GetNewPassword(), "newPassword"); err != nil {
		return nil, err
	}
	details, err := s.users.Change(ctx, req.GetId(), &eventv1.HumanPasswordChanged{}, func(tx pgx.Tx, now *db.UserRow) error {
		// Not the hash, which the check may have replaced by a better one.
		if !resource.SameTime(now.PasswordChanged, changed) {
			return fault.New(fault.FailedPrecondition, "PASSWORD_CHANGED", "the password was changed meanwhile")
		}
		now.PasswordHash, now.PasswordChanged = user.PasswordHash, user.PasswordChanged
		now.PasswordChangeRequired = req.GetNewPassword().GetChangeRequired()
		if err := s.queries.ForgivePasswords(ctx, tx, db.ForgivePasswordsParams{InstanceID: now.InstanceID, ID: now.ID}); err != nil {
			return err
		}
		return signout.Elsewhere(ctx, tx, s.Now(), now.InstanceID, now.ID, sessionID)
	})
	return &userv3.SetPasswordResponse{Details: details}, err
}

func (s *Service) maySetPassword(ctx context.Context, user *db.UserRow, password *userv3.SetPassword) error {
	const field = "newPassword.currentPassword"
	if policy.CallFrom(ctx).Holds("user.write", placeOf(user)) {
		if err := policy.CallFrom(ctx).MayBecome(ctx, s.DB.Conn(), user.InstanceID, user.ID); err != nil {
			return err
		}
	} else {
		if password.CurrentPassword == nil {
			return fault.Invalid("CURRENT_PASSWORD_MISSING", field, "has to be given for the user's own password")
		}
		if password.GetHash() != "" {
			return fault.New(fault.PermissionDenied, "HASH_NOT_PERMITTED", "users set their own password in plain text").On("newPassword.hash")
		}
	}
	if password.CurrentPassword == nil {
		return nil
	}
	by := Attempt{InstanceID: user.InstanceID, UserID: user.ID}
	if user.PasswordHash != nil {
		by.Hash = *user.PasswordHash
	}
	right, err := s.CheckPassword(ctx, by, password.GetCurrentPassword())
	if right != nil {
		err = right.Accept(ctx, s.DB.Conn())
	}
	if err == nil && right == nil || errors.Is(err, ErrTooMany) {
		err = fault.Invalid("WRONG_PASSWORD", field, "is not the password")
	}
	return err
}
