package user

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// PatchUser changes the fields that are present. A new username is an event of
// its own, so that who follows names need not read the others; so is other data.
func (s *Service) PatchUser(ctx context.Context, req *userv3.PatchUserRequest) (*userv3.PatchUserResponse, error) {
	var details *object.Details
	changed := false
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		user, err := s.users.Lock(ctx, tx, req.GetId())
		if err != nil {
			return err
		}
		old := *user
		if err := mayPatch(ctx, user, req.GetUser()); err != nil {
			return err
		}
		if req.GetUser().Username != nil {
			if user.Username, err = Canonical(req.GetUser().GetUsername()); err != nil {
				return err
			}
			if user.Username != old.Username {
				if err := s.mayBeNamed(ctx, tx, user); err != nil {
					return err
				}
			}
		}
		followName(&old, user)
		renamed, err := s.users.Save(ctx, tx, &old, user, &eventv1.UsernameChanged{})
		if err != nil {
			return err
		}
		old = *user
		payload, err := s.patch(user, req.GetUser())
		if err != nil {
			return err
		}
		if email := req.GetUser().GetHuman().GetEmail(); email != nil {
			if err := s.vouch(ctx, tx, &old, user); err != nil {
				return err
			}
		}
		if changed, err = s.users.Save(ctx, tx, &old, user, payload); err != nil {
			return err
		}
		old = *user
		if err := s.setData(ctx, tx, user, req.GetUser().SchemaId, req.GetUser().GetData()); err != nil {
			return err
		}
		described, err := s.users.Save(ctx, tx, &old, user, &eventv1.UserDataSet{})
		changed = changed || renamed || described
		details = s.users.Details(user)
		return err
	})
	if changed {
		s.Invalidate()
	}
	return &userv3.PatchUserResponse{Details: details}, s.users.Refusal(err)
}

// mayPatch keeps users to their own profile (SEC-180).
func mayPatch(ctx context.Context, user *db.UserRow, patch *userv3.PatchUser) error {
	of := patch.GetHuman()
	if !policy.CallFrom(ctx).Holds("user.write", placeOf(user)) {
		if patch.Username != nil || patch.SchemaId != nil || patch.GetService() != nil || of.GetEmail() != nil || of.GetPhone() != nil || of != nil && of.PasswordChangeRequired != nil {
			return fault.New(fault.PermissionDenied, "OWN_PROFILE_ONLY", "users may change their own profile only")
		}
	}
	return nil
}

// patch changes what is particular to the type of a user.
func (s *Service) patch(user *db.UserRow, patch *userv3.PatchUser) (event.Payload, error) {
	old := *user
	if patch.GetService() != nil {
		if user.UserType != service {
			return nil, notService()
		}
		storage.AssignPatchService(user, patch.GetService())
		user.AccessTokenType = max(user.AccessTokenType, opaque)
		return &eventv1.MachineChanged{}, nil
	}
	if patch.GetHuman() == nil {
		return &eventv1.HumanChanged{}, nil
	}
	if user.UserType != human {
		return nil, notHuman()
	}
	storage.AssignPatchHuman(user, patch.GetHuman())
	if user.DisplayName == "" {
		user.DisplayName = defaultName(user)
	}
	followName(&old, user)
	email, phone := patch.GetHuman().GetEmail(), patch.GetHuman().GetPhone()
	user.IsEmailVerified = verified(user.IsEmailVerified, old.Email, user.Email, email.GetIsVerified(), email != nil && email.IsVerified != nil)
	user.IsPhoneVerified = verified(user.IsPhoneVerified, old.Phone, user.Phone, phone.GetIsVerified(), phone != nil && phone.IsVerified != nil)
	return &eventv1.HumanChanged{}, nil
}

// verified returns whether an address counts as verified after a patch: one that
// is new does only when the patch says so, none never does.
func verified(was bool, old, address string, said, present bool) bool {
	switch {
	case address == "":
		return false
	case present:
		return said
	}
	return was && old == address
}

// followName lets a display name that was the default of the old names be that of
// the new ones.
func followName(old, user *db.UserRow) {
	if user.UserType == human && user.DisplayName == old.DisplayName && old.DisplayName == defaultName(old) {
		user.DisplayName = defaultName(user)
	}
}
