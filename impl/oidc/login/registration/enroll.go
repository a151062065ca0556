package registration

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/login/code"
)

// enroll makes a user, a session in which their password is proven, and a code for
// their address, without which the user stays inactive. It is one transaction: who
// goes away in the middle leaves nothing behind, and nobody ever sees the user active.
//
// Who registered with the address before, and has not verified it, goes: only one can
// have it, and the newest is the one whom somebody waits for, be it after a double
// click. The code of that one is void (SEC-172).
func (s *Service) enroll(ctx context.Context, at Where, said Form, hash string, may func(username string) bool) (begun *Begun, err error) {
	in := policy.In(at.InstanceID, at.OrgID)
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		// Those who register with the address at the same time stand in line.
		if err := s.queries.LockName(ctx, tx, db.LockNameParams{InstanceID: at.InstanceID, Name: "mail/" + strings.ToLower(said.Email)}); err != nil {
			return err
		}
		enough, err := s.hadEnough(ctx, tx, at.InstanceID, said.Email)
		if err != nil {
			return err
		}
		if enough {
			return code.ErrNoMore
		}
		before, err := s.queries.Registrations(ctx, tx, db.RegistrationsParams{InstanceID: at.InstanceID, EmailFolded: resource.Fold(said.Email)})
		if err != nil {
			return err
		}
		for _, old := range before {
			if err := s.queries.ReleaseUsername(ctx, tx, db.ReleaseUsernameParams{InstanceID: at.InstanceID, ID: old.ID}); err != nil {
				return err
			}
		}
		product, users := policy.As(ctx, in, "", s.Roles), s.Users.In(tx)
		userID, err := createUser(product, tx, users, at, said, hash, may)
		if err != nil {
			return err
		}
		themself := policy.As(ctx, in, userID, s.Roles)
		made, err := s.Sessions.In(tx).CreateProven(themself, &sessionv3.Session{
			Checks:   &sessionv3.Checks{User: &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: userID}}},
			Lifetime: durationpb.New(at.Lifetime), UserAgent: at.UserAgent,
		})
		if err != nil {
			return err
		}
		begun = &Begun{userID, made.GetDetails().GetId(), made.GetSessionToken()}
		if _, err := users.DeactivateUserKeeping(themself, &userv3.DeactivateUserRequest{Id: userID}, begun.SessionID); err != nil {
			return err
		}
		if err := s.queries.AddRegistration(ctx, tx, db.AddRegistrationParams{InstanceID: at.InstanceID, UserID: userID}); err != nil {
			return err
		}
		for _, old := range before {
			if err := s.queries.MoveMessages(ctx, tx, db.MoveMessagesParams{InstanceID: at.InstanceID, UserID: old.ID, NewUserID: userID, OrgID: at.OrgID}); err != nil {
				return err
			}
			if _, err := users.DeleteUser(product, &userv3.DeleteUserRequest{Id: old.ID}); err != nil {
				return err
			}
		}
		return s.Codes.SendIn(ctx, tx, code.Verify, "verify_email", code.Recipient{
			InstanceID: at.InstanceID, ID: userID, OrgID: at.OrgID, Address: said.Email, Language: at.Language, Name: said.GivenName,
		})
	})
	return begun, err
}

// registering reads the user who is to verify their address, if there is one.
func (s *Service) registering(ctx context.Context, instanceID, userID, address string) (*db.CodeUserRow, error) {
	of, err := s.queries.CodeUser(ctx, s.DB.Pool, db.CodeUserParams{InstanceID: instanceID, ID: userID})
	if store.NoRow(err) || err == nil && (!of.IsRegistering || of.Email != address) {
		return nil, nil
	}
	return &of, err
}

// Resend sends another code to who registers with an address, in a language.
func (s *Service) Resend(ctx context.Context, instanceID, userID, address, language string) error {
	of, err := s.registering(ctx, instanceID, userID, address)
	if err != nil || of == nil {
		return err
	}
	return s.Codes.Send(ctx, code.Verify, "verify_email", code.Recipient{
		InstanceID: instanceID, ID: of.ID, OrgID: of.OrgID, Address: of.Email, Language: language, Name: of.DisplayName,
	})
}

// Verify marks the address as verified by its code, and lets the user in. It reports
// whether the code was right.
func (s *Service) Verify(ctx context.Context, instanceID, userID, address, typed string) (verified bool, err error) {
	tried, err := s.Codes.Try(ctx, instanceID, userID, code.Verify, "", typed)
	if err != nil || tried == nil {
		return false, err
	}
	of, err := s.registering(ctx, instanceID, userID, address)
	if err != nil || of == nil || of.Email != tried.Address {
		return false, err
	}
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if verified, err = s.Codes.Use(ctx, tx, tried); err != nil || !verified {
			return err
		}
		themself, users, yes := policy.As(ctx, policy.In(instanceID, of.OrgID), of.ID, s.Roles), s.Users.In(tx), true
		if _, err := users.PatchUser(themself, &userv3.PatchUserRequest{Id: of.ID, User: &userv3.PatchUser{
			Type: &userv3.PatchUser_Human{Human: &userv3.PatchHuman{Email: &userv3.PatchEmail{IsVerified: &yes}}},
		}}); err != nil {
			return err
		}
		_, err := users.ActivateUser(themself, &userv3.ActivateUserRequest{Id: of.ID})
		return err
	})
	return verified && err == nil, err
}

// Sweep deletes those who registered and never verified their address, each in a
// transaction of its own. It returns how many that were, at most batch.
func (s *Service) Sweep(ctx context.Context, before time.Time, batch int32) (int64, error) {
	for n := range int64(batch) {
		err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
			gone, err := s.queries.AbandonedRegistration(ctx, tx, before.Add(-abandonedAfter))
			if err != nil {
				return err
			}
			product := policy.As(ctx, policy.In(gone.InstanceID, gone.OrgID), "", s.Roles)
			_, err = s.Users.In(tx).DeleteUser(product, &userv3.DeleteUserRequest{Id: gone.ID})
			return err
		})
		if store.NoRow(err) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return int64(batch), nil
}
