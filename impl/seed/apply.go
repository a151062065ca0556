package seed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/store"
)

// Config holds what Apply needs. Known and Reissue are for `writ dev`, which
// keeps the secrets it was shown.
type Config struct {
	DB    *store.DB
	Now   func() time.Time
	NewID func() string
	// Known holds secrets from an earlier run, by path (Applied.Secrets).
	Known map[string]string
	// Reissue replaces secrets that exist but are neither in the file nor known.
	Reissue bool
}

// Applied says what a seed file came to.
type Applied struct {
	Users []AppliedUser
	// Secrets holds, by path, the secrets that were left out of the file: the
	// known ones and those generated now.
	Secrets map[string]string
	// Generated are the paths of those generated now, sorted; they are shown once.
	Generated []string
	Changed   bool
}

// AppliedUser is a user of the file with its IDs and secrets. A secret that
// exists but is not known is empty.
type AppliedUser struct {
	InstanceID, OrgID, ID, LoginName string
	Email, Password                  string // of a human
	Human                            bool
	Roles                            []string
	Token                            string // the first one
}

// Apply makes exist what the file says, in one transaction. Nodes that apply at
// the same time wait for one another.
func Apply(ctx context.Context, c Config, file *File) (*Applied, error) {
	roles, err := policy.NewRoles()
	if err != nil {
		return nil, err
	}
	var run *run
	err = c.DB.InTx(ctx, func(tx pgx.Tx) error {
		run = newRun(c, tx, roles)
		return run.apply(ctx, file)
	})
	if err != nil {
		return nil, fmt.Errorf("apply the seed: %w", err)
	}
	slices.Sort(run.applied.Generated)
	return run.applied, nil
}

// run is one attempt to apply a file.
type run struct {
	Config
	tx      pgx.Tx
	roles   *policy.Roles
	now     time.Time
	queries *db.Queries
	applied *Applied
}

func newRun(c Config, tx pgx.Tx, roles *policy.Roles) *run {
	return &run{Config: c, tx: tx, roles: roles, now: c.Now(), queries: db.New(), applied: &Applied{Secrets: map[string]string{}}}
}

func (r *run) apply(ctx context.Context, file *File) error {
	if err := r.queries.LockSeed(ctx, r.tx); err != nil {
		return err
	}
	if err := r.features(ctx, policy.Context{Level: policyv1.Level_LEVEL_SYSTEM}, file.System.Features); err != nil {
		return err
	}
	for _, user := range file.System.Users {
		in := place{context: policy.Context{Level: policyv1.Level_LEVEL_SYSTEM}, path: "system"}
		if err := r.user(ctx, in, User{ID: user.ID, LoginName: user.LoginName, Tokens: user.Tokens}, user.Roles); err != nil {
			return err
		}
	}
	for _, instance := range file.Instances {
		if err := r.instance(ctx, instance); err != nil {
			return fmt.Errorf("instance %q: %w", instance.Name, err)
		}
	}
	if r.applied.Changed {
		return r.queries.NotifyChange(ctx, r.tx)
	}
	return nil
}

// place is where in the hierarchy, and in the file, something belongs.
type place struct {
	context policy.Context
	path    string
}

// record appends an event and returns its sequence.
func (r *run) record(ctx context.Context, instanceID, objectID string, owner *object.Owner, payload event.Payload) (int64, error) {
	r.applied.Changed = true
	return event.Append(ctx, r.tx, event.Event{
		InstanceID: instanceID, ObjectID: objectID, Payload: payload, Creator: "system", Owner: owner, At: r.now,
	})
}

func (r *run) instance(ctx context.Context, instance Instance) error {
	id, err := r.queries.InstanceByName(ctx, r.tx, instance.Name)
	switch {
	case store.NoRow(err):
		id = r.idOr(instance.ID)
		sequence, err := r.record(ctx, id, id, &object.Owner{Type: object.OwnerType_OWNER_TYPE_SYSTEM}, &eventv1.InstanceAdded{Name: instance.Name})
		if err != nil {
			return err
		}
		if err := r.queries.CreateInstance(ctx, r.tx, db.CreateInstanceParams{ID: id, Name: instance.Name, NameFolded: resource.Fold(instance.Name), Sequence: sequence, Now: r.now}); err != nil {
			return err
		}
	case err != nil:
		return err
	case instance.ID != "" && instance.ID != id:
		return fmt.Errorf("it exists with the ID %q, not %q", id, instance.ID)
	}
	in := policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: id}
	for _, domain := range instance.Domains {
		if err := r.domain(ctx, in, domain); err != nil {
			return err
		}
	}
	if err := r.features(ctx, in, instance.Features); err != nil {
		return err
	}
	for _, org := range instance.Organizations {
		if err := r.organization(ctx, in, "instances."+instance.Name, org); err != nil {
			return fmt.Errorf("organization %q: %w", org.Name, err)
		}
	}
	return nil
}

// domain makes a domain of an instance or an organization exist.
func (r *run) domain(ctx context.Context, in policy.Context, domain string) error {
	owner, err := r.queries.DomainOwner(ctx, r.tx, db.DomainOwnerParams{InstanceID: in.InstanceID, Domain: domain, OfInstance: in.OrgID == ""})
	if err == nil && (owner.InstanceID != in.InstanceID || owner.OrgID != in.OrgID) {
		return fmt.Errorf("the domain %q belongs to somebody else", domain)
	}
	if err == nil || !store.NoRow(err) {
		return err
	}
	id := r.NewID()
	sequence, err := r.record(ctx, in.InstanceID, id, in.Owner(), &eventv1.DomainAdded{Domain: domain, IsVerified: true})
	if err != nil {
		return err
	}
	return r.queries.SeedDomain(ctx, r.tx, db.SeedDomainParams{InstanceID: in.InstanceID, ID: id, OrgID: orgOf(in), Domain: domain, Sequence: sequence, Now: r.now})
}

// orgOf returns the organization of a context, nil for none.
func orgOf(in policy.Context) *string {
	if in.OrgID == "" {
		return nil
	}
	return &in.OrgID
}

func (r *run) organization(ctx context.Context, in policy.Context, path string, org Organization) error {
	id, err := r.queries.OrgByName(ctx, r.tx, db.OrgByNameParams{InstanceID: in.InstanceID, Name: org.Name})
	switch {
	case store.NoRow(err):
		id = r.idOr(org.ID)
		sequence, err := r.record(ctx, in.InstanceID, id, in.Owner(), &eventv1.OrgAdded{Name: org.Name})
		if err != nil {
			return err
		}
		if err := r.queries.CreateOrg(ctx, r.tx, db.CreateOrgParams{InstanceID: in.InstanceID, ID: id, Name: org.Name, NameFolded: resource.Fold(org.Name), Sequence: sequence, Now: r.now}); err != nil {
			return err
		}
	case err != nil:
		return err
	case org.ID != "" && org.ID != id:
		return fmt.Errorf("it exists with the ID %q, not %q", id, org.ID)
	}
	if org.Default {
		if err := r.queries.SetDefaultOrg(ctx, r.tx, db.SetDefaultOrgParams{OrgID: id, Now: r.now, ID: in.InstanceID}); err != nil {
			return err
		}
	}
	inOrg := policy.Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: in.InstanceID, OrgID: id}
	for _, domain := range org.Domains {
		if err := r.domain(ctx, inOrg, domain); err != nil {
			return err
		}
	}
	for _, user := range org.Users {
		if err := r.user(ctx, place{inOrg, path}, user, nil); err != nil {
			return fmt.Errorf("user %q: %w", user.LoginName, err)
		}
	}
	return nil
}

func (r *run) features(ctx context.Context, in policy.Context, set map[string]bool) error {
	if len(set) == 0 {
		return nil
	}
	row, err := r.queries.LockFeatures(ctx, r.tx, db.LockFeaturesParams{InstanceID: in.InstanceID, Now: r.now})
	if err != nil {
		return err
	}
	flags := map[string]bool{}
	if err := json.Unmarshal(row.Flags, &flags); err != nil {
		return err
	}
	changed := map[string]bool{}
	for name, enabled := range set {
		if old, decided := flags[name]; !decided || old != enabled {
			changed[name] = enabled
		}
	}
	if len(changed) == 0 {
		return nil
	}
	maps.Copy(flags, changed)
	var payload event.Payload = &eventv1.InstanceFeaturesSet{Flags: changed}
	if in.Level == policyv1.Level_LEVEL_SYSTEM {
		payload = &eventv1.SystemFeaturesSet{Flags: changed}
	}
	sequence, err := r.record(ctx, in.InstanceID, in.Owner().GetType().String(), in.Owner(), payload)
	if err != nil {
		return err
	}
	stored, err := json.Marshal(flags)
	if err != nil {
		return err
	}
	return r.queries.UpdateFeatures(ctx, r.tx, db.UpdateFeaturesParams{InstanceID: in.InstanceID, Flags: stored, Sequence: sequence, ChangeDate: r.now})
}

func (r *run) idOr(id string) string {
	if id == "" {
		return r.NewID()
	}
	return id
}

// unknown decides what to use for a secret that the file leaves out: the known
// one; "" to keep what exists; else a new one.
func (r *run) unknown(path string, exists bool, generate func() string) string {
	if known := r.Known[path]; known != "" {
		r.applied.Secrets[path] = known
		return known
	}
	if exists && !r.Reissue {
		return ""
	}
	value := generate()
	r.applied.Secrets[path] = value
	r.applied.Generated = append(r.applied.Generated, path)
	return value
}

// user makes a user exist, with its password, roles and tokens.
func (r *run) user(ctx context.Context, at place, user User, systemRoles []string) error {
	in := at.context
	path := at.path + ".users." + user.LoginName
	applied := AppliedUser{InstanceID: in.InstanceID, OrgID: in.OrgID, LoginName: user.LoginName, Human: user.Human != nil}
	row, err := r.queries.UserByUsername(ctx, r.tx, db.UserByUsernameParams{InstanceID: in.InstanceID, OrgID: orgOf(in), UsernameFolded: resource.Fold(username(user.LoginName))})
	exists := err == nil
	switch {
	case err != nil && !store.NoRow(err):
		return err
	case exists && (row.UserType == 1) != applied.Human:
		return fmt.Errorf("it exists as a user of the other type")
	case exists && user.ID != "" && user.ID != row.ID:
		return fmt.Errorf("it exists with the ID %q, not %q", row.ID, user.ID)
	}
	applied.ID = row.ID
	if !exists {
		if applied.ID, err = r.createUser(ctx, in, user); err != nil {
			return err
		}
	}
	if user.Human != nil {
		applied.Email, applied.Password = user.Human.Email, user.Human.Password
		if applied.Password == "" {
			applied.Password = r.unknown(path+".password", row.PasswordHash != nil, secret.Random)
		}
		if err := r.password(ctx, in, applied, row.PasswordHash); err != nil {
			return err
		}
	}
	for _, membership := range []struct {
		level    policyv1.Level
		objectID string
		roles    []string
	}{
		{policyv1.Level_LEVEL_SYSTEM, "", systemRoles},
		{policyv1.Level_LEVEL_INSTANCE, in.InstanceID, user.InstanceRoles},
		{policyv1.Level_LEVEL_ORG, in.OrgID, user.OrgRoles},
	} {
		applied.Roles = append(applied.Roles, membership.roles...)
		if err := r.membership(ctx, in, applied.ID, membership.level, membership.objectID, membership.roles); err != nil {
			return err
		}
	}
	for i, token := range user.Tokens {
		value, err := r.token(ctx, in, applied.ID, path+".tokens."+token.Name, token)
		if err != nil {
			return err
		}
		if i == 0 {
			applied.Token = value
		}
	}
	r.applied.Users = append(r.applied.Users, applied)
	return nil
}

func (r *run) createUser(ctx context.Context, in policy.Context, user User) (string, error) {
	id := r.idOr(user.ID)
	name := username(user.LoginName)
	create := db.SeedUserParams{
		InstanceID: in.InstanceID, ID: id, OrgID: orgOf(in), UserType: 2, Username: name, UsernameFolded: resource.Fold(name), Now: r.now,
	}
	var payload event.Payload = &eventv1.MachineAdded{LoginName: user.LoginName, Username: name}
	if user.Human != nil {
		create.UserType, create.Email = 1, user.Human.Email
		payload = &eventv1.HumanAdded{LoginName: user.LoginName, Username: name, Email: user.Human.Email}
	}
	sequence, err := r.record(ctx, in.InstanceID, id, in.Owner(), payload)
	if err != nil {
		return "", err
	}
	create.Sequence = sequence
	return id, r.queries.SeedUser(ctx, r.tx, create)
}

// username returns a login name without the domain of the organization.
func username(loginName string) string {
	name, _, _ := strings.Cut(loginName, "@")
	return name
}

func (r *run) password(ctx context.Context, in policy.Context, user AppliedUser, hash *string) error {
	if user.Password == "" {
		return nil
	}
	if hash != nil {
		if same, err := secret.VerifyPassword(*hash, user.Password); err != nil || same {
			return err
		}
	}
	sequence, err := r.record(ctx, in.InstanceID, user.ID, in.Owner(), &eventv1.HumanPasswordChanged{})
	if err != nil {
		return err
	}
	hashed := secret.HashPassword(user.Password)
	return r.queries.SetPasswordHash(ctx, r.tx, db.SetPasswordHashParams{
		InstanceID: in.InstanceID, ID: user.ID, PasswordHash: &hashed, Sequence: sequence, Now: r.now,
	})
}

func (r *run) membership(ctx context.Context, in policy.Context, userID string, level policyv1.Level, objectID string, roles []string) error {
	if len(roles) == 0 {
		return nil
	}
	for _, role := range roles {
		if r.roles.Level(role) != level {
			return fmt.Errorf("%q is not a role of this level; there are %v", role, r.roles.Names(level))
		}
	}
	old, err := r.queries.MembershipRoles(ctx, r.tx, db.MembershipRolesParams{
		InstanceID: in.InstanceID, UserID: userID, Level: int16(level), ObjectID: objectID,
	})
	if err != nil && !store.NoRow(err) {
		return err
	}
	if slices.Equal(old, roles) {
		return nil
	}
	id := r.NewID()
	sequence, err := r.record(ctx, in.InstanceID, id, in.Owner(), &eventv1.MembershipAdded{UserId: userID, Level: uint32(level), ObjectId: objectID, Roles: roles})
	if err != nil {
		return err
	}
	put := db.PutMembershipParams{
		InstanceID: in.InstanceID, ID: id, UserID: userID, Level: int16(level), ObjectID: objectID, Roles: roles, Sequence: sequence, Now: r.now,
	}
	if level == policyv1.Level_LEVEL_ORG {
		put.OrgID = &objectID
	}
	return r.queries.PutMembership(ctx, r.tx, put)
}

// token makes a token exist and returns it, or "" when it exists unknown.
func (r *run) token(ctx context.Context, in policy.Context, userID, path string, token Token) (string, error) {
	old, err := r.queries.TokenOfUser(ctx, r.tx, db.TokenOfUserParams{InstanceID: in.InstanceID, UserID: userID, Name: token.Name})
	if err != nil && !store.NoRow(err) {
		return "", err
	}
	exists, value := err == nil, token.Token
	if value == "" {
		value = r.unknown(path, exists, func() string { return policy.TokenPrefix + secret.Random() })
	}
	if value == "" {
		return "", nil
	}
	hash := policy.HashToken(value)
	if exists {
		if bytes.Equal(old.TokenHash, hash[:]) && sameTime(old.ExpirationDate, token.Expires) {
			return value, nil
		}
		if _, err := r.record(ctx, in.InstanceID, userID, in.Owner(), &eventv1.PATRemoved{TokenId: old.ID}); err != nil {
			return "", err
		}
		if err := r.queries.DeleteToken(ctx, r.tx, db.DeleteTokenParams{InstanceID: in.InstanceID, ID: old.ID}); err != nil {
			return "", err
		}
	}
	added := &eventv1.PATAdded{TokenId: r.NewID()}
	if token.Expires != nil {
		added.ExpirationDate = timestamppb.New(*token.Expires)
	}
	sequence, err := r.record(ctx, in.InstanceID, userID, in.Owner(), added)
	if err != nil {
		return "", err
	}
	return value, r.queries.CreateToken(ctx, r.tx, db.CreateTokenParams{
		InstanceID: in.InstanceID, TokenHash: hash[:], ID: added.GetTokenId(), UserID: userID, Name: token.Name,
		ExpirationDate: token.Expires, OrgID: orgOf(in), Sequence: sequence, Now: r.now,
	})
}

func sameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}
