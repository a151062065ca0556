// Package instance manages the tenants of the installation.
//
// Service implements contracts/proto/writ/instance; its operations belong to the
// system. SweepEvents deletes events that are older than their instance keeps them.
package instance

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	instancev3 "github.com/writ-id/writ/gen/proto/writ/instance/v3alpha"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	orgv3 "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/store"
)

// Service implements the instances API. It is safe for concurrent use.
type Service struct {
	instancev3.UnsafeServiceInstancesServer

	resource.Env
	orgs      orgv3.ServiceOrganizationsServer
	roles     *policy.Roles
	queries   *db.Queries
	instances *resource.Table[row]
	domains   *resource.Table[db.Domain]
	owners    owners
}

var _ instancev3.ServiceInstancesServer = (*Service)(nil)

// row is an instance with what is read along.
type row struct {
	db.Instance
	PrimaryDomain string `sql:"coalesce((SELECT d.domain FROM domains d WHERE d.instance_id = t.id AND d.org_id IS NULL AND d.is_primary), '')"`
}

// owners are the tables that the owner of a new instance goes into.
type owners struct {
	users       *resource.Table[db.User]
	tokens      *resource.Table[db.PersonalAccessToken]
	memberships *resource.Table[db.Membership]
}

// New returns a Service over env that creates default organizations through orgs.
func New(env resource.Env, orgs orgv3.ServiceOrganizationsServer, roles *policy.Roles) *Service {
	domainTaken := func() *fault.Error {
		return fault.New(fault.AlreadyExists, "DOMAIN_TAKEN", "the domain belongs to another instance").On("instance.domain")
	}
	return &Service{
		Env: env, orgs: orgs, roles: roles, queries: db.New(),
		instances: resource.NewTable[row](env, resource.Spec{
			Table: "instances", Kind: "instance", System: true, Remembered: true,
			Filters: map[string]resource.FilterFunc{"domain": byDomain},
		}),
		domains: resource.NewTable[db.Domain](env, resource.Spec{
			Table: "domains", Kind: "domain", Refusals: map[string]func() *fault.Error{"domains_host_key": domainTaken},
		}),
		owners: owners{
			resource.NewTable[db.User](env, resource.Spec{Table: "users", Kind: "user"}),
			resource.NewTable[db.PersonalAccessToken](env, resource.Spec{Table: "personal_access_tokens", Kind: "token"}),
			resource.NewTable[db.Membership](env, resource.Spec{Table: "memberships", Kind: "membership"}),
		},
	}
}

func byDomain(w *resource.Where, value protoreflect.Value) {
	filter := value.Message().Interface().(*object.TextFilter)
	condition := w.Text("d.domain", filter.GetText(), filter.GetMethod())
	w.And("EXISTS (SELECT FROM domains d WHERE d.instance_id = t.id AND d.org_id IS NULL AND d.is_verified AND " + condition + ")")
}

// CreateInstance creates an instance with its domain, its default organization
// and, when asked for, its owner.
func (s *Service) CreateInstance(ctx context.Context, req *instancev3.CreateInstanceRequest) (*instancev3.CreateInstanceResponse, error) {
	asked := req.GetInstance()
	res := &instancev3.CreateInstanceResponse{}
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		made := &row{}
		s.instances.Assign(made, asked)
		if made.ID != "" {
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
func (s *Service) furnish(ctx context.Context, tx pgx.Tx, made *row, asked *instancev3.Instance, res *instancev3.CreateInstanceResponse) error {
	inside := policy.Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: made.ID}
	ctx = policy.As(store.Within(ctx, tx), inside, policy.CallFrom(ctx).Caller.UserID, s.roles)
	if asked.Domain != nil {
		host := &db.Domain{Domain: asked.GetDomain(), IsVerified: true, IsPrimary: true}
		if _, err := s.domains.CreateIn(ctx, tx, host, &eventv1.DomainAdded{}); err != nil {
			return err
		}
	}
	name := made.Name
	if asked.OrganizationName != nil {
		name = asked.GetOrganizationName()
	}
	org, err := s.orgs.CreateOrganization(ctx, &orgv3.CreateOrganizationRequest{Organization: &orgv3.Organization{Name: name, Id: asked.OrganizationId}})
	if err != nil {
		return err
	}
	res.OrganizationId = org.GetDetails().GetId()
	if _, err := s.orgs.SetAsInstanceDefault(ctx, &orgv3.SetAsInstanceDefaultRequest{Id: res.GetOrganizationId()}); err != nil {
		return err
	}
	if asked.OwnerUsername == nil {
		return nil
	}
	user := &db.User{
		OrgID: &res.OrganizationId, UserType: 2, State: 1,
		Username: asked.GetOwnerUsername(), DisplayName: asked.GetOwnerUsername(),
	}
	if _, err := s.owners.users.CreateIn(ctx, tx, user, &eventv1.MachineAdded{LoginName: user.Username}); err != nil {
		return err
	}
	owner := &db.Membership{UserID: user.ID, Level: int16(policyv1.Level_LEVEL_INSTANCE), ObjectID: made.ID, Roles: []string{"IAM_OWNER"}}
	if _, err := s.owners.memberships.CreateIn(ctx, tx, owner, &eventv1.MembershipAdded{}); err != nil {
		return err
	}
	value := policy.TokenPrefix + secret.Random()
	hash := policy.HashToken(value)
	token := &db.PersonalAccessToken{OrgID: user.OrgID, UserID: user.ID, Name: "owner", TokenHash: hash[:]}
	if _, err := s.owners.tokens.CreateIn(ctx, tx, token, &eventv1.PATAdded{}); err != nil {
		return err
	}
	res.OwnerId, res.OwnerToken = &user.ID, &value
	return nil
}

// PatchInstance changes the fields that are present.
func (s *Service) PatchInstance(ctx context.Context, req *instancev3.PatchInstanceRequest) (*instancev3.PatchInstanceResponse, error) {
	details, err := s.instances.Change(ctx, req.GetId(), &eventv1.InstanceChanged{}, func(_ pgx.Tx, r *row) error {
		s.instances.Assign(r, req.GetInstance())
		return nil
	})
	return &instancev3.PatchInstanceResponse{Details: details}, err
}

// DeleteInstance deletes an instance and everything in it.
func (s *Service) DeleteInstance(ctx context.Context, req *instancev3.DeleteInstanceRequest) (*instancev3.DeleteInstanceResponse, error) {
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		// All of it goes, in whatever order: references are checked at the end.
		if _, err := tx.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
			return err
		}
		if details, err = s.instances.Delete(store.Within(ctx, tx), req.GetId(), &eventv1.InstanceRemoved{}, nil); err != nil {
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
	return &instancev3.GetInstanceResponse{Instance: resource.Into(s.instances, r, &instancev3.GetInstance{})}, nil
}

// SearchInstances finds the instances that meet all filters.
func (s *Service) SearchInstances(ctx context.Context, req *instancev3.SearchInstancesRequest) (*instancev3.SearchInstancesResponse, error) {
	rows, details, err := s.instances.Search(ctx, req)
	return &instancev3.SearchInstancesResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(s.instances, rows, func(*row) *instancev3.GetInstance { return &instancev3.GetInstance{} }),
	}, err
}

// Limit sets the limits that are present.
func (s *Service) Limit(ctx context.Context, req *instancev3.LimitRequest) (*instancev3.LimitResponse, error) {
	details, err := s.limit(ctx, req.GetId(), req.GetLimits())
	return &instancev3.LimitResponse{Details: details}, err
}

func (s *Service) limit(ctx context.Context, id string, limits *instancev3.Limits) (*object.Details, error) {
	return s.instances.Change(ctx, id, &eventv1.InstanceLimitsSet{}, func(_ pgx.Tx, r *row) error {
		s.instances.Assign(r, limits)
		if limits.Block != nil {
			r.Blocked = limits.GetBlock()
		}
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
		inside := store.Within(ctx, tx)
		for _, i := range order {
			one := req.GetLimits()[i]
			changed, err := s.limit(inside, one.GetInstanceId(), one.GetLimits())
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
