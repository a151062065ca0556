package registration

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/writ-id/writ/gen/db"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/api/session"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/login/code"
)

// proof is what proves a new user.
type proof struct {
	hash string                     // of their password
	may  func(username string) bool // refuses usernames; nil: none

	external *External // an account at an identity provider
	vouched  bool      // that vouches for the address
	code     bool      // whether the address needs a code
}

// enroll makes a user, a session in which they are proven, and a code for their address if
// that needs one: without it the user stays inactive then. It is one transaction: who goes
// away in the middle leaves nothing behind, and nobody ever sees the user active.
//
// Others may register with the address at the same time, each in their browser: whoever
// proves that it is theirs has it, so that nobody voids another one's code (SEC-177). Only who
// registered before in this login or, with the address, in this browser goes: after a
// double click the newest is the one whom somebody waits for.
func (s *Service) enroll(ctx context.Context, at Where, said Form, by proof) (begun *Begun, err error) {
	in := policy.In(at.InstanceID, at.OrgID)
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		var before []db.RegistrationsRow
		if by.code || by.vouched {
			if before, err = s.standInLine(ctx, tx, at, said, by); err != nil {
				return err
			}
		}
		product, users := policy.As(ctx, in, "", s.Roles), s.Users.In(tx)
		userID, err := s.createUser(product, tx, users, at, said, by)
		if err != nil {
			return err
		}
		themself := policy.As(ctx, in, userID, s.Roles)
		if begun, err = s.begin(themself, tx, at, userID, by); err != nil {
			return err
		}
		if by.code {
			if _, err := users.DeactivateUserKeeping(themself, &userv3.DeactivateUserRequest{Id: userID}, begun.SessionID); err != nil {
				return err
			}
			if err := s.queries.AddRegistration(ctx, tx, db.AddRegistrationParams{InstanceID: at.InstanceID, UserID: userID}); err != nil {
				return err
			}
		}
		if err := s.replace(product, tx, users, before, at, userID); err != nil {
			return err
		}
		if !by.code {
			return nil
		}
		return s.Codes.SendIn(ctx, tx, code.Verify, "verify_email", code.Recipient{
			InstanceID: at.InstanceID, ID: userID, OrgID: at.OrgID, Address: said.Email, Language: at.Language, Browser: at.Browser, Door: at.Door,
		})
	})
	return begun, err
}

// replace deletes those whose place another user takes. Messages to their address count all
// the same.
func (s *Service) replace(product context.Context, tx pgx.Tx, users *user.Service, before []db.RegistrationsRow, at Where, userID string) error {
	for _, old := range before {
		if err := s.queries.MoveMessages(product, tx, db.MoveMessagesParams{InstanceID: at.InstanceID, UserID: old.ID, NewUserID: userID, OrgID: at.OrgID}); err != nil {
			return err
		}
		if _, err := users.DeleteUser(product, &userv3.DeleteUserRequest{Id: old.ID}); err != nil {
			return err
		}
	}
	return nil
}

// standInLine has those who register with an address at the same time do it one after the
// other, and returns whose place a new user takes: who registered before in this browser or
// cannot prove the address any more, and all who have not proven it when this one has.
func (s *Service) standInLine(ctx context.Context, tx pgx.Tx, at Where, said Form, by proof) ([]db.RegistrationsRow, error) {
	if err := s.queries.LockName(ctx, tx, db.LockNameParams{InstanceID: at.InstanceID, Name: code.Lock(said.Email)}); err != nil {
		return nil, err
	}
	ended := s.Now().Add(-overAfter)
	if by.vouched {
		if known, err := s.isKnown(ctx, tx, at.InstanceID, said.Email); err != nil || known {
			return nil, cmp.Or(err, ErrKnown)
		}
		ended = forever
	}
	before, err := s.queries.Registrations(ctx, tx, db.RegistrationsParams{
		InstanceID: at.InstanceID, EmailFolded: resource.Fold(said.Email), Ended: ended, Browser: at.Browser.ID, Replaced: at.Before,
	})
	if err != nil {
		return nil, err
	}
	for _, old := range before {
		if err := s.queries.ReleaseUsername(ctx, tx, db.ReleaseUsernameParams{InstanceID: at.InstanceID, ID: old.ID}); err != nil {
			return nil, err
		}
	}
	return before, nil
}

// forever is after every code has ended.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// isKnown reports whether somebody has proven an address.
func (s *Service) isKnown(ctx context.Context, tx db.DBTX, instanceID, address string) (bool, error) {
	_, err := s.queries.UserOfEmail(ctx, tx, db.UserOfEmailParams{InstanceID: instanceID, EmailFolded: resource.Fold(address)})
	if store.NoRow(err) {
		return false, nil
	}
	return err == nil, err
}

// begin begins the session of a new user, and links them to what they came with.
func (s *Service) begin(themself context.Context, tx pgx.Tx, at Where, userID string, by proof) (*Begun, error) {
	in := &sessionv3.Session{
		Checks:   &sessionv3.Checks{User: &sessionv3.CheckUser{Search: &sessionv3.CheckUser_UserId{UserId: userID}}},
		Lifetime: durationpb.New(at.Lifetime), UserAgent: at.UserAgent,
	}
	var made *sessionv3.CreateSessionResponse
	var err error
	if of := by.external; of == nil {
		made, err = s.Sessions.In(tx).CreateProven(themself, in)
	} else {
		if err := of.link(themself, tx, s.Links.In(tx), userID); err != nil {
			return nil, err
		}
		made, err = s.Sessions.In(tx).CreateByIntent(themself, in, session.Intent{
			IDPID: of.GetProviderId(), ExternalUserID: of.GetSubject(), AuthTime: time.Unix(of.GetAuthTime(), 0).UTC(),
		})
	}
	if err != nil {
		return nil, err
	}
	return &Begun{userID, made.GetDetails().GetId(), made.GetSessionToken(), by.code}, nil
}

// registering reads the user who is to verify their address, if there is one.
func (s *Service) registering(ctx context.Context, tx db.DBTX, instanceID, userID, address string) (*db.CodeUserRow, error) {
	of, err := s.queries.CodeUser(ctx, tx, db.CodeUserParams{InstanceID: instanceID, ID: userID})
	if store.NoRow(err) || err == nil && (!of.IsRegistering || of.Email != address) {
		return nil, nil
	}
	return &of, err
}

// Resend sends another code to who registers with an address.
func (s *Service) Resend(ctx context.Context, at Where, userID, address string) error {
	of, err := s.registering(ctx, s.DB.Pool, at.InstanceID, userID, address)
	if err != nil || of == nil {
		return err
	}
	return s.Codes.Send(ctx, code.Verify, "verify_email", code.Recipient{
		InstanceID: at.InstanceID, ID: of.ID, OrgID: of.OrgID, Address: of.Email, Language: at.Language, Browser: at.Browser, Door: at.Door,
	})
}

// Verify marks the address as verified by its code, and lets the user in. It reports
// whether the code was right. Others who registered with the address go: it is not theirs.
func (s *Service) Verify(ctx context.Context, instanceID, userID, browser, address, typed string) (verified bool, err error) {
	tried, err := s.Codes.Try(ctx, instanceID, userID, code.Verify, browser, typed)
	if err != nil || tried == nil || tried.Address != address {
		return false, err
	}
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if err := s.queries.LockName(ctx, tx, db.LockNameParams{InstanceID: instanceID, Name: code.Lock(address)}); err != nil {
			return err
		}
		of, err := s.registering(ctx, tx, instanceID, userID, address)
		if err != nil || of == nil {
			return err
		}
		if known, err := s.isKnown(ctx, tx, instanceID, address); err != nil || known {
			return err
		}
		if verified, err = s.Codes.Use(ctx, tx, tried); err != nil || !verified {
			return err
		}
		others, err := s.queries.Registrations(ctx, tx, db.RegistrationsParams{
			InstanceID: instanceID, EmailFolded: resource.Fold(address), Ended: forever, Kept: of.ID,
		})
		if err != nil {
			return err
		}
		in := policy.In(instanceID, of.OrgID)
		product, themself, users, yes := policy.As(ctx, in, "", s.Roles), policy.As(ctx, in, of.ID, s.Roles), s.Users.In(tx), true
		if err := s.replace(product, tx, users, others, Where{InstanceID: instanceID, OrgID: of.OrgID}, of.ID); err != nil {
			return err
		}
		if _, err := users.PatchUser(themself, &userv3.PatchUserRequest{Id: of.ID, User: &userv3.PatchUser{
			Type: &userv3.PatchUser_Human{Human: &userv3.PatchHuman{Email: &userv3.PatchEmail{IsVerified: &yes}}},
		}}); err != nil {
			return err
		}
		_, err = users.ActivateUser(themself, &userv3.ActivateUserRequest{Id: of.ID})
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
