// Package authenticator manages what users prove to be themselves with besides a
// password, and checks it.
//
// Service implements contracts/proto/writ/authenticator: adding, verifying and
// removing. Factors checks TOTP codes and codes that were sent; sessions check
// through it too, so that all roads count the same tries (SEC-175).
package authenticator

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	authv3 "github.com/writ-id/writ/gen/proto/writ/authenticator/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signout"
)

// The types of the contract, as they are stored.
const (
	typeTOTP  = authv3.SecondFactorType_SECOND_FACTOR_TYPE_TOTP
	typeSMS   = authv3.SecondFactorType_SECOND_FACTOR_TYPE_OTP_SMS
	typeEmail = authv3.SecondFactorType_SECOND_FACTOR_TYPE_OTP_EMAIL
)

// human is the type of users who have authenticators.
const human = 1

// Service implements the authenticators API. It is safe for concurrent use.
type Service struct {
	authv3.UnsafeServiceUserAuthenticatorsServer

	resource.Env
	factors        *Factors
	queries        *db.Queries
	users          *resource.Table[db.UserRow, storage.Users]
	authenticators *resource.Table[db.Authenticator, storage.Authenticators]
}

var _ authv3.ServiceUserAuthenticatorsServer = (*Service)(nil)

// New returns a Service over env that checks by factors.
func New(env resource.Env, factors *Factors) *Service {
	return &Service{
		Env: env, factors: factors, queries: db.New(),
		users:          resource.New(env, storage.Users{}),
		authenticators: resource.New(env, storage.Authenticators{}),
	}
}

// add adds an authenticator within tx in place of an unverified one that is the
// same, so that a secret or a code that got lost is no dead end. The lock on the
// user keeps others from adding it meanwhile.
func (s *Service) add(ctx context.Context, tx pgx.Tx, user *db.UserRow, row *db.Authenticator, added, removed event.Payload) (*object.Details, error) {
	old, err := s.queries.SameAuthenticator(ctx, tx, db.SameAuthenticatorParams{
		InstanceID: user.InstanceID, UserID: user.ID, Type: row.Type, Address: row.Address,
	})
	switch {
	case err != nil:
		return nil, err
	case len(old) > 0 && old[0].IsVerified:
		return nil, storage.AuthenticatorsAddressKey()
	case len(old) > 0:
		if _, err := s.authenticators.In(tx).Delete(ctx, old[0].ID, removed, nil); err != nil {
			return nil, err
		}
	}
	row.ID, row.UserID, row.OrgID = s.NewID(), user.ID, *user.OrgID
	return s.authenticators.CreateIn(ctx, tx, row, added)
}

// lockHuman locks the user to whom something is added.
func (s *Service) lockHuman(ctx context.Context, tx pgx.Tx, id string) (*db.UserRow, error) {
	user, err := s.users.Lock(ctx, tx, id)
	if err == nil && (user.UserType != human || user.OrgID == nil) {
		err = fault.New(fault.FailedPrecondition, "USER_NOT_HUMAN", "only human users have authenticators")
	}
	return user, err
}

// verify marks an authenticator as verified once try found the code right; what
// try counted stays, whatever becomes of the rest.
func (s *Service) verify(ctx context.Context, userID, id string, kind authv3.SecondFactorType, verified event.Payload, try func(*db.Authenticator) (use, error)) (*object.Details, error) {
	its := of(userID, kind)
	row, err := s.authenticators.Get(ctx, id, its)
	if err != nil {
		return nil, err
	}
	if row.IsVerified {
		return nil, errVerified()
	}
	right, err := try(row)
	if err != nil {
		return nil, err
	}
	return s.authenticators.Change(ctx, id, verified, func(tx pgx.Tx, row *db.Authenticator) error {
		if row.IsVerified {
			return errVerified()
		}
		row.IsVerified = true
		return (&Proof{s.factors, row, row.InstanceID, row.UserID, right}).Use(ctx, tx)
	}, its)
}

func errVerified() *fault.Error {
	return fault.New(fault.FailedPrecondition, "ALREADY_VERIFIED", "the authenticator is verified already")
}

// of says that an authenticator is of a user and a type: both are part of its
// address (SEC-181).
func of(userID string, kind authv3.SecondFactorType) resource.Condition[db.Authenticator] {
	return func(row *db.Authenticator) bool { return row.UserID == userID && row.Type == kind }
}

func (s *Service) remove(ctx context.Context, userID, id string, kind authv3.SecondFactorType, removed event.Payload) (*object.Details, error) {
	// A factor that is gone no longer proves anybody: who is signed in by it has to sign
	// in again (SEC-097).
	return s.authenticators.Delete(ctx, id, removed, func(tx pgx.Tx, row *db.Authenticator) error {
		if !row.IsVerified {
			return nil
		}
		return signout.Everywhere(ctx, tx, s.Now(), row.InstanceID, row.UserID)
	}, of(userID, kind))
}

// ListAuthenticators lists the authenticators of a user.
func (s *Service) ListAuthenticators(ctx context.Context, req *authv3.ListAuthenticatorsRequest) (*authv3.ListAuthenticatorsResponse, error) {
	if _, err := s.users.Get(ctx, req.GetUserId()); err != nil {
		return nil, err
	}
	rows, details, err := storage.ListAuthenticators(ctx, s.authenticators, req)
	return &authv3.ListAuthenticatorsResponse{
		Details: details, Result: resource.All(rows, storage.NewAuthenticator),
	}, err
}

// AddTOTP adds an authenticator app.
func (s *Service) AddTOTP(ctx context.Context, req *authv3.AddTOTPRequest) (*authv3.AddTOTPResponse, error) {
	res := &authv3.AddTOTPResponse{}
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.lockHuman(ctx, tx, req.GetUserId())
		if err != nil {
			return err
		}
		key, row := secret.NewTOTP(), &db.Authenticator{Type: typeTOTP}
		if row.Secret, err = s.factors.seal(user.InstanceID, user.ID, key); err != nil {
			return err
		}
		if res.Details, err = s.add(ctx, tx, user, row, &eventv1.UserTOTPAdded{}, &eventv1.UserTOTPRemoved{}); err != nil {
			return err
		}
		login, err := s.queries.LoginNameOfUser(ctx, tx, db.LoginNameOfUserParams{InstanceID: user.InstanceID, ID: user.ID})
		if err != nil {
			return err
		}
		issuer, err := s.queries.PrimaryHost(ctx, tx, user.InstanceID)
		if err != nil {
			return err
		}
		res.TotpId, res.Secret, res.Uri = row.ID, secret.TOTPText(key), secret.TOTPURI(key, issuer, login)
		return nil
	})
	return res, err
}

// VerifyTOTP verifies an authenticator app. Its code counts as used: it is not
// good for a login too.
func (s *Service) VerifyTOTP(ctx context.Context, req *authv3.VerifyTOTPRequest) (*authv3.VerifyTOTPResponse, error) {
	details, err := s.verify(ctx, req.GetUserId(), req.GetTotpId(), typeTOTP, &eventv1.UserTOTPVerified{}, func(row *db.Authenticator) (use, error) {
		return s.factors.tryTOTP(ctx, row, req.GetCode())
	})
	return &authv3.VerifyTOTPResponse{Details: details}, onCode(err)
}

// RemoveTOTP removes an authenticator app.
func (s *Service) RemoveTOTP(ctx context.Context, req *authv3.RemoveTOTPRequest) (*authv3.RemoveTOTPResponse, error) {
	details, err := s.remove(ctx, req.GetUserId(), req.GetTotpId(), typeTOTP, &eventv1.UserTOTPRemoved{})
	return &authv3.RemoveTOTPResponse{Details: details}, err
}
