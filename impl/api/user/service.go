// Package user manages the users of an instance, humans and services, with their
// metadata and credentials.
//
// Service implements contracts/proto/writ/user. What is the same for all
// resources is package resource. Peculiar to users are canonical usernames
// (name.go), login names, which exist only when they are read (filter.go),
// passwords (password.go) and the other credentials (token.go, key.go, secret.go),
// and that nobody gets the means to act as somebody who holds more (SEC-235).
package user

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signout"
)

// Config holds what a Service needs.
type Config struct {
	resource.Env
	// MaxHashCost is how much a hash of a password that is set may cost to verify, as a
	// multiple of one of ours; 0 is secret.DefaultMaxCost.
	MaxHashCost float64
	// Hashes makes those of plain ones.
	Hashes secret.Hasher
}

// Service implements the users API. It is safe for concurrent use.
type Service struct {
	userv3.UnsafeServiceUsersServer

	Config
	queries  *db.Queries
	users    *resource.Table[db.UserRow, storage.Users]
	metadata *resource.Table[db.UserMetadatum, storage.UserMetadata]
	tokens   *resource.Table[db.PersonalAccessToken, storage.PersonalAccessTokens]
	keys     *resource.Table[db.MachineKey, storage.MachineKeys]
}

var _ userv3.ServiceUsersServer = (*Service)(nil)

const (
	active   = userv3.UserState_USER_STATE_ACTIVE
	inactive = userv3.UserState_USER_STATE_INACTIVE
	locked   = userv3.UserState_USER_STATE_LOCKED
	human    = userv3.UserType_USER_TYPE_HUMAN
	service  = userv3.UserType_USER_TYPE_SERVICE
	opaque   = object.AccessTokenType_ACCESS_TOKEN_TYPE_BEARER
)

// New returns a Service over c.
func New(c Config) *Service {
	return &Service{
		Config: c, queries: db.New(),
		users:    resource.New(c.Env, storage.Users{}),
		metadata: resource.New(c.Env, storage.UserMetadata{}),
		tokens:   resource.New(c.Env, storage.PersonalAccessTokens{}),
		keys:     resource.New(c.Env, storage.MachineKeys{}),
	}
}

// CreateUser creates a user. An ID that a user had before is refused (SEC-219).
func (s *Service) CreateUser(ctx context.Context, req *userv3.CreateUserRequest) (*userv3.CreateUserResponse, error) {
	user, call := &db.UserRow{}, policy.CallFrom(ctx)
	storage.AssignUser(user, req.GetUser())
	user.State, user.ID = active, req.GetUser().GetId()
	user.InstanceID, user.OrgID = call.Context.InstanceID, &call.Context.OrgID
	name, err := Canonical(user.Username)
	if err != nil {
		return nil, err
	}
	user.Username = name
	var payload event.Payload = &eventv1.HumanAdded{}
	if user.UserType == service {
		payload = &eventv1.MachineAdded{}
	} else if user.DisplayName == "" {
		user.DisplayName = defaultName(user)
	}
	user.AccessTokenType = max(user.AccessTokenType, opaque)
	if err := s.mayBeNamed(ctx, s.DB.Conn(), user); err != nil {
		return nil, err
	}
	if err := s.vouch(ctx, s.DB.Conn(), &db.UserRow{}, user); err != nil {
		return nil, err
	}
	domain, err := s.queries.LoginDomain(ctx, s.DB.Conn(), db.LoginDomainParams{InstanceID: call.Context.InstanceID, OrgID: call.Context.OrgID})
	if err != nil {
		return nil, err
	}
	user.LoginName = strings.TrimSuffix(user.Username+"@"+domain, "@")
	if password := req.GetUser().GetHuman().GetPassword(); password != nil {
		if err := s.setPassword(ctx, user, password, "user.human.password"); err != nil {
			return nil, err
		}
		user.PasswordChangeRequired = password.GetChangeRequired()
	}
	if user.ID == "" && req.GetUser().SchemaId == nil && req.GetUser().GetData() == nil { // one statement
		details, err := s.users.Create(ctx, user, payload)
		return &userv3.CreateUserResponse{Details: details}, err
	}
	var details *object.Details
	err = s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if user.ID != "" {
			if err := s.users.Unused(ctx, tx, user.ID, "user"); err != nil {
				return err
			}
		}
		if err := s.setData(ctx, tx, user, req.GetUser().SchemaId, req.GetUser().GetData()); err != nil {
			return err
		}
		details, err = s.users.CreateIn(ctx, tx, user, payload)
		return err
	})
	return &userv3.CreateUserResponse{Details: details}, err
}

// DeleteUser deletes a user and everything that belongs to it.
func (s *Service) DeleteUser(ctx context.Context, req *userv3.DeleteUserRequest) (*userv3.DeleteUserResponse, error) {
	details, err := s.users.Delete(ctx, req.GetId(), &eventv1.UserRemoved{}, nil)
	return &userv3.DeleteUserResponse{Details: details}, err
}

// GetUser reads one user.
func (s *Service) GetUser(ctx context.Context, req *userv3.GetUserRequest) (*userv3.GetUserResponse, error) {
	user, err := s.users.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, []db.UserRow{*user})
	if err != nil {
		return nil, err
	}
	return &userv3.GetUserResponse{User: shown[0]}, nil
}

// SearchUsers finds the users that meet all filters.
func (s *Service) SearchUsers(ctx context.Context, req *userv3.SearchUsersRequest) (*userv3.SearchUsersResponse, error) {
	rows, details, err := storage.SearchUsers(ctx, s.users, req, filters{})
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, rows)
	return &userv3.SearchUsersResponse{Details: details, SortingColumn: req.GetSortingColumn(), Result: shown}, err
}

// DeactivateUser makes a user inactive and ends what they are signed in to.
func (s *Service) DeactivateUser(ctx context.Context, req *userv3.DeactivateUserRequest) (*userv3.DeactivateUserResponse, error) {
	return s.DeactivateUserKeeping(ctx, req, "")
}

// DeactivateUserKeeping is DeactivateUser for who registers: a session stays, if one is
// named, in which they have just proven who they are.
func (s *Service) DeactivateUserKeeping(ctx context.Context, req *userv3.DeactivateUserRequest, sessionID string) (*userv3.DeactivateUserResponse, error) {
	details, err := s.shutOut(ctx, req.GetId(), sessionID, inactive, &eventv1.UserDeactivated{}, active, locked)
	return &userv3.DeactivateUserResponse{Details: details}, err
}

// ActivateUser makes an inactive user active.
func (s *Service) ActivateUser(ctx context.Context, req *userv3.ActivateUserRequest) (*userv3.ActivateUserResponse, error) {
	details, err := resource.SetState(ctx, s.users, storage.Users{}.State, req.GetId(), active, &eventv1.UserReactivated{}, inactive)
	return &userv3.ActivateUserResponse{Details: details}, err
}

// LockUser locks an active user and ends what they are signed in to.
func (s *Service) LockUser(ctx context.Context, req *userv3.LockUserRequest) (*userv3.LockUserResponse, error) {
	details, err := s.shutOut(ctx, req.GetId(), "", locked, &eventv1.UserLocked{}, active)
	return &userv3.LockUserResponse{Details: details}, err
}

// UnlockUser makes a locked user active.
func (s *Service) UnlockUser(ctx context.Context, req *userv3.UnlockUserRequest) (*userv3.UnlockUserResponse, error) {
	details, err := resource.SetState(ctx, s.users, storage.Users{}.State, req.GetId(), active, &eventv1.UserUnlocked{}, locked)
	return &userv3.UnlockUserResponse{Details: details}, err
}

// shutOut moves a user to a state in which they cannot sign in. What they are signed in
// to ends for good: coming back revives nothing (SEC-097).
func (s *Service) shutOut(ctx context.Context, id, kept string, to userv3.UserState, payload event.Payload, from ...userv3.UserState) (*object.Details, error) {
	return s.users.Change(ctx, id, payload, func(tx pgx.Tx, user *db.UserRow) error {
		if err := resource.Move("user", id, &user.State, to, from...); err != nil {
			return err
		}
		return signout.Elsewhere(ctx, tx, s.Now(), user.InstanceID, user.ID, kept)
	})
}

// placeOf returns where a user is.
func placeOf(user *db.UserRow) policy.Place {
	at := policy.Place{InstanceID: user.InstanceID, UserID: user.ID}
	if user.OrgID != nil {
		at.OrgID = *user.OrgID
	}
	return at
}

// lockService locks a service user, to whom the caller may give credentials.
func (s *Service) lockService(ctx context.Context, tx pgx.Tx, id string) (*db.UserRow, error) {
	user, err := s.users.Lock(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if user.UserType != service {
		return nil, notService()
	}
	return user, nil
}

func notService() *fault.Error {
	return fault.New(fault.FailedPrecondition, "NOT_A_SERVICE", "the user is a human; only services have this")
}

func notHuman() *fault.Error {
	return fault.New(fault.FailedPrecondition, "NOT_A_HUMAN", "the user is a service; only humans have this")
}
