// Package instance manages the tenants of the installation.
//
// Service implements contracts/proto/writ/instance; its operations belong to the
// system. SweepEvents deletes events that are older than their instance keeps them.
package instance

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strings"

	membershipv3 "github.com/writ-id/writ/gen/proto/writ/membership/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	instancev3 "github.com/writ-id/writ/gen/proto/writ/instance/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	orgv3 "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/domain"
	"github.com/writ-id/writ/impl/api/membership"
	"github.com/writ-id/writ/impl/api/org"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/sqltext"
)

// Service implements the instances API. It is safe for concurrent use.
type Service struct {
	instancev3.UnsafeServiceInstancesServer

	resource.Env
	owners    Owners
	roles     *policy.Roles
	queries   *db.Queries
	instances *resource.Table[db.InstanceRow, storage.Instances]
}

var _ instancev3.ServiceInstancesServer = (*Service)(nil)

// Owners are the services of what a new instance cannot be without.
type Owners struct {
	Domains     *domain.Service
	Orgs        *org.Service
	Users       *user.Service
	Memberships *membership.Service
}

// New returns a Service over env that furnishes instances through owners.
func New(env resource.Env, owners Owners, roles *policy.Roles) *Service {
	return &Service{Env: env, owners: owners, roles: roles, queries: db.New(), instances: resource.New(env, storage.Instances{})}
}

//go:embed filter.sql
var filterSQL string

var statements = sqltext.Read(filterSQL)

// filters are those of a search that compare no column.
type filters struct{}

// ByDomain compares verified domains.
func (filters) ByDomain(w *resource.Where, filter *object.TextFilter) {
	condition := w.Text("d.domain", filter.GetText(), filter.GetMethod())
	w.And(statements.SQL("ByDomain", "condition", condition))
}

// CreateInstance creates an instance with its domain, its default organization
// and, when asked for, its owner.
func (s *Service) CreateInstance(ctx context.Context, req *instancev3.CreateInstanceRequest) (*instancev3.CreateInstanceResponse, error) {
	asked := req.GetInstance()
	res := &instancev3.CreateInstanceResponse{}
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		made := &db.InstanceRow{}
		storage.AssignInstance(made, asked)
		if made.ID = asked.GetId(); made.ID != "" {
			if err := s.instances.Unused(ctx, tx, made.ID, "instance"); err != nil {
				return err
			}
		}
		if res.Details, err = s.instances.CreateIn(ctx, tx, made, &eventv1.InstanceAdded{}); err != nil {
			return err
		}
		return s.furnish(ctx, tx, made, asked, res)
	})
	s.Invalidate()
	return res, err
}

// furnish gives a new instance what it cannot be without. It acts as the product,
// because the caller holds nothing in the instance yet.
func (s *Service) furnish(ctx context.Context, tx pgx.Tx, made *db.InstanceRow, asked *instancev3.Instance, res *instancev3.CreateInstanceResponse) error {
	by := policy.CallFrom(ctx).Caller.UserID
	inside := policy.As(ctx, policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: made.ID}, by, s.roles)
	if asked.Domain != nil {
		if err := s.owners.Domains.Add(inside, tx, &db.Domain{Domain: asked.GetDomain()}); err != nil {
			if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Reason == "DOMAIN_TAKEN" {
				err = fault.New(fault.AlreadyExists, "DOMAIN_TAKEN", "the domain belongs to another instance").On("instance.domain")
			}
			return err
		}
	}
	name := made.Name
	if asked.OrganizationName != nil {
		name = asked.GetOrganizationName()
	}
	orgs := s.owners.Orgs.In(tx)
	first, err := orgs.CreateOrganization(inside, &orgv3.CreateOrganizationRequest{Organization: &orgv3.Organization{Name: name, Id: asked.OrganizationId}})
	if err != nil {
		return err
	}
	res.OrganizationId = first.GetDetails().GetId()
	if _, err := orgs.SetAsInstanceDefault(inside, &orgv3.SetAsInstanceDefaultRequest{Id: res.GetOrganizationId()}); err != nil {
		return err
	}
	if asked.OwnerUsername == nil {
		return nil
	}
	return s.addOwner(ctx, tx, inside, asked.GetOwnerUsername(), res)
}

// addOwner gives a new instance a service user that may do everything in it, and the user
// a token.
func (s *Service) addOwner(ctx context.Context, tx pgx.Tx, inside context.Context, username string, res *instancev3.CreateInstanceResponse) error {
	within := policy.CallFrom(inside).Context
	within.Level, within.OrgID = policyv1.Level_LEVEL_ORG, res.GetOrganizationId()
	users, inOrg := s.owners.Users.In(tx), policy.As(ctx, within, policy.CallFrom(ctx).Caller.UserID, s.roles)
	owner, err := users.CreateUser(inOrg, &userv3.CreateUserRequest{User: &userv3.User{
		Username: username, Type: &userv3.User_Service{Service: &userv3.Service{Name: username}},
	}})
	if err != nil {
		return err
	}
	id := owner.GetDetails().GetId()
	if _, err := s.owners.Memberships.In(tx).CreateMembership(inside, &membershipv3.CreateMembershipRequest{
		Membership: &membershipv3.Membership{UserId: id, Roles: []string{"IAM_OWNER"}},
	}); err != nil {
		return err
	}
	called := "owner"
	token, err := users.CreatePersonalAccessToken(inOrg, &userv3.CreatePersonalAccessTokenRequest{UserId: id, Pat: &userv3.PersonalAccessToken{Name: &called}})
	if err != nil {
		return err
	}
	value := token.GetToken()
	res.OwnerId, res.OwnerToken = &id, &value
	return nil
}

// PatchInstance changes the fields that are present.
func (s *Service) PatchInstance(ctx context.Context, req *instancev3.PatchInstanceRequest) (*instancev3.PatchInstanceResponse, error) {
	details, err := s.instances.Change(ctx, req.GetId(), &eventv1.InstanceChanged{}, func(_ pgx.Tx, r *db.InstanceRow) error {
		storage.AssignPatchInstance(r, req.GetInstance())
		return nil
	})
	return &instancev3.PatchInstanceResponse{Details: details}, err
}

// DeleteInstance deletes an instance and everything in it.
func (s *Service) DeleteInstance(ctx context.Context, req *instancev3.DeleteInstanceRequest) (*instancev3.DeleteInstanceResponse, error) {
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		// All of it goes, in whatever order: references are checked at the end.
		if err := s.queries.DeferConstraints(ctx, tx); err != nil {
			return err
		}
		if details, err = s.instances.In(tx).Delete(ctx, req.GetId(), &eventv1.InstanceRemoved{}, nil); err != nil {
			return err
		}
		return s.queries.ForgetInstance(ctx, tx, req.GetId()) // last: the deletion counts
	})
	s.Invalidate()
	return &instancev3.DeleteInstanceResponse{Details: details}, err
}

// GetInstance reads one instance.
func (s *Service) GetInstance(ctx context.Context, req *instancev3.GetInstanceRequest) (*instancev3.GetInstanceResponse, error) {
	r, err := s.instances.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &instancev3.GetInstanceResponse{Instance: storage.NewGetInstance(r)}, nil
}

// SearchInstances finds the instances that meet all filters.
func (s *Service) SearchInstances(ctx context.Context, req *instancev3.SearchInstancesRequest) (*instancev3.SearchInstancesResponse, error) {
	rows, details, err := storage.SearchInstances(ctx, s.instances, req, filters{})
	return &instancev3.SearchInstancesResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetInstance),
	}, err
}

// Limit sets the limits that are present.
func (s *Service) Limit(ctx context.Context, req *instancev3.LimitRequest) (*instancev3.LimitResponse, error) {
	details, err := limit(ctx, s.instances, req.GetId(), req.GetLimits())
	return &instancev3.LimitResponse{Details: details}, err
}

func limit(ctx context.Context, instances *resource.Table[db.InstanceRow, storage.Instances], id string, limits *instancev3.Limits) (*object.Details, error) {
	return instances.Change(ctx, id, &eventv1.InstanceLimitsSet{}, func(_ pgx.Tx, r *db.InstanceRow) error {
		storage.AssignLimits(r, limits)
		return nil
	})
}

// BulkLimit sets the limits of several instances, of all or of none. They are
// locked in the order of their IDs (REL-026).
func (s *Service) BulkLimit(ctx context.Context, req *instancev3.BulkLimitRequest) (*instancev3.BulkLimitResponse, error) {
	details := make([]*object.Details, len(req.GetLimits()))
	order := make([]int, len(details))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return strings.Compare(req.GetLimits()[a].GetInstanceId(), req.GetLimits()[b].GetInstanceId())
	})
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		instances := s.instances.In(tx)
		for _, i := range order {
			one := req.GetLimits()[i]
			changed, err := limit(ctx, instances, one.GetInstanceId(), one.GetLimits())
			if err != nil {
				return err
			}
			details[i] = changed
		}
		return nil
	})
	s.Invalidate()
	return &instancev3.BulkLimitResponse{Details: details}, err
}
