// Package org manages the organizations of an instance.
//
// Service implements contracts/proto/writ/org. What is the same for all
// resources is package resource; only what is peculiar to organizations is here:
// their default domain, the default of the instance, and what may not be deleted.
package org

import (
	"context"
	_ "embed"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	orgv3 "github.com/writ-id/writ/gen/proto/writ/org/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/domain"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/sqltext"
	"github.com/writ-id/writ/impl/core/store"
)

// Service implements the organizations API. It is safe for concurrent use.
type Service struct {
	orgv3.UnsafeServiceOrganizationsServer

	resource.Env
	queries *db.Queries
	orgs    *resource.Table[db.OrganizationRow, storage.Organizations]
	domains *domain.Service
}

var _ orgv3.ServiceOrganizationsServer = (*Service)(nil)

// New returns a Service over env that gives organizations their first domain through
// domains.
func New(env resource.Env, domains *domain.Service) *Service {
	return &Service{
		Env: env, queries: db.New(),
		orgs:    resource.New(env, storage.Organizations{}),
		domains: domains,
	}
}

// In returns the service within a transaction: what it does happens when that commits.
func (s *Service) In(tx pgx.Tx) *Service { return New(s.Env.In(tx), s.domains) }

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

// CreateOrganization creates an organization with its default domain. An ID that
// an organization had before is refused (SEC-219).
func (s *Service) CreateOrganization(ctx context.Context, req *orgv3.CreateOrganizationRequest) (*orgv3.CreateOrganizationResponse, error) {
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		org := &db.OrganizationRow{}
		storage.AssignOrganization(org, req.GetOrganization())
		org.State = object.EffectiveState_EFFECTIVE_STATE_ACTIVE
		if org.ID = req.GetOrganization().GetId(); org.ID != "" {
			if err := s.orgs.Unused(ctx, tx, org.ID, "org"); err != nil {
				return err
			}
		}
		if details, err = s.orgs.CreateIn(ctx, tx, org, &eventv1.OrgAdded{}); err != nil {
			return err
		}
		return s.AddDefaultDomain(ctx, tx, org)
	})
	return &orgv3.CreateOrganizationResponse{Details: details}, err
}

// AddDefaultDomain gives an organization <name>.<primary domain of the instance>,
// or with part of its ID in the name when another one has that.
func (s *Service) AddDefaultDomain(ctx context.Context, tx pgx.Tx, org *db.OrganizationRow) error {
	host, err := s.queries.PrimaryHost(ctx, tx, org.InstanceID)
	if err != nil {
		return err
	}
	label := domainLabel(org.Name)
	for _, name := range []string{label, label + "-" + domainLabel(org.ID)[max(0, len(domainLabel(org.ID))-12):], domainLabel(org.ID)} {
		if name == "" || name[0] == '-' {
			continue
		}
		address := name + "." + host
		// Another organization may be about to take it; what it takes is seen then.
		if err := s.queries.LockName(ctx, tx, db.LockNameParams{InstanceID: org.InstanceID, Name: address}); err != nil {
			return err
		}
		_, err := s.queries.OrgByDomain(ctx, tx, db.OrgByDomainParams{InstanceID: org.InstanceID, Domain: address})
		if err == nil {
			continue // taken
		}
		if !store.NoRow(err) {
			return err
		}
		return s.domains.Add(ctx, tx, &db.Domain{InstanceID: org.InstanceID, OrgID: &org.ID, Domain: address})
	}
	return fault.New(fault.AlreadyExists, "DOMAIN_TAKEN", "the default domain of the organization is taken").On("organization.name")
}

// domainLabel returns a name as a label of a domain (RFC 1123): letters, digits
// and hyphens, at most 63.
func domainLabel(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	label := b.String()
	return strings.Trim(label[:min(len(label), 50)], "-")
}

// PatchOrganization changes the fields that are present.
func (s *Service) PatchOrganization(ctx context.Context, req *orgv3.PatchOrganizationRequest) (*orgv3.PatchOrganizationResponse, error) {
	details, err := s.orgs.Change(ctx, req.GetId(), &eventv1.OrgChanged{}, func(_ pgx.Tx, org *db.OrganizationRow) error {
		storage.AssignPatchOrganization(org, req.GetOrganization())
		return nil
	})
	return &orgv3.PatchOrganizationResponse{Details: details}, err
}

// DeleteOrganization deletes an organization and everything in it; the default
// one of the instance stays.
func (s *Service) DeleteOrganization(ctx context.Context, req *orgv3.DeleteOrganizationRequest) (*orgv3.DeleteOrganizationResponse, error) {
	details, err := s.orgs.Delete(ctx, req.GetId(), &eventv1.OrgRemoved{}, func(tx pgx.Tx, org *db.OrganizationRow) error {
		// Setting the default locks the organization too, so this cannot change.
		if org.IsDefault {
			return fault.New(fault.FailedPrecondition, "DEFAULT_ORGANIZATION", "the default organization of the instance cannot be deleted")
		}
		return nil
	})
	return &orgv3.DeleteOrganizationResponse{Details: details}, err
}

// GetOrganization reads one organization.
func (s *Service) GetOrganization(ctx context.Context, req *orgv3.GetOrganizationRequest) (*orgv3.GetOrganizationResponse, error) {
	org, err := s.orgs.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &orgv3.GetOrganizationResponse{Organization: storage.NewGetOrganization(org)}, nil
}

// SearchOrganizations finds the organizations that meet all filters.
func (s *Service) SearchOrganizations(ctx context.Context, req *orgv3.SearchOrganizationsRequest) (*orgv3.SearchOrganizationsResponse, error) {
	rows, details, err := storage.SearchOrganizations(ctx, s.orgs, req, filters{})
	return &orgv3.SearchOrganizationsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(),
		Result: resource.All(rows, storage.NewGetOrganization),
	}, err
}

// ActivateOrganization makes an organization active.
func (s *Service) ActivateOrganization(ctx context.Context, req *orgv3.ActivateOrganizationRequest) (*orgv3.ActivateOrganizationResponse, error) {
	details, err := resource.SetState(ctx, s.orgs, storage.Organizations{}.State, req.GetId(), object.EffectiveState_EFFECTIVE_STATE_ACTIVE, &eventv1.OrgActivated{})
	return &orgv3.ActivateOrganizationResponse{Details: details}, err
}

// DeactivateOrganization makes an organization inactive: its users cannot act. The
// default one of the instance stays active.
func (s *Service) DeactivateOrganization(ctx context.Context, req *orgv3.DeactivateOrganizationRequest) (*orgv3.DeactivateOrganizationResponse, error) {
	const inactive = object.EffectiveState_EFFECTIVE_STATE_INACTIVE
	details, err := s.orgs.Change(ctx, req.GetId(), &eventv1.OrgDeactivated{}, func(_ pgx.Tx, org *db.OrganizationRow) error {
		switch {
		case org.State == inactive:
			return fault.New(fault.FailedPrecondition, "STATE_UNCHANGED", "the organization %q is inactive already", org.ID)
		case org.IsDefault: // setting the default locks the organization too
			return fault.New(fault.FailedPrecondition, "DEFAULT_ORGANIZATION", "the default organization of the instance cannot be deactivated")
		}
		org.State = inactive
		return nil
	})
	return &orgv3.DeactivateOrganizationResponse{Details: details}, err
}

// SetAsInstanceDefault makes an organization the default of its instance.
func (s *Service) SetAsInstanceDefault(ctx context.Context, req *orgv3.SetAsInstanceDefaultRequest) (*orgv3.SetAsInstanceDefaultResponse, error) {
	call, now := policy.CallFrom(ctx), s.Now()
	instanceID := call.Context.InstanceID
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		org, err := s.orgs.Lock(ctx, tx, req.GetId())
		if err != nil {
			return err
		}
		details = s.orgs.Details(org)
		switch {
		case org.IsDefault:
			return nil
		case org.State != object.EffectiveState_EFFECTIVE_STATE_ACTIVE:
			return fault.New(fault.FailedPrecondition, "ORGANIZATION_INACTIVE", "an inactive organization cannot be the default")
		}
		owner := policy.Context{InstanceID: instanceID}.Owner()
		sequence, err := event.Append(ctx, tx, event.Event{
			InstanceID: instanceID, ObjectID: instanceID, Payload: &eventv1.InstanceDefaultOrgSet{OrgId: org.ID},
			Owner: owner, Cause: policy.CauseOf(ctx, now),
		})
		if err != nil {
			return err
		}
		details = resource.Details(org.ID, sequence, now, details.GetResourceOwner())
		if err := s.queries.SetDefaultOrg(ctx, tx, db.SetDefaultOrgParams{OrgID: org.ID, Sequence: sequence, Now: now, ID: instanceID}); err != nil {
			return err
		}
		return s.queries.NotifyChange(ctx, tx)
	})
	s.Invalidate()
	return &orgv3.SetAsInstanceDefaultResponse{Details: details}, err
}

// GetInstanceDefault reads the default organization of the instance.
func (s *Service) GetInstanceDefault(ctx context.Context, _ *orgv3.GetInstanceDefaultRequest) (*orgv3.GetInstanceDefaultResponse, error) {
	org, err := s.orgs.Get(ctx, policy.CallFrom(ctx).Instance.DefaultOrg)
	if err != nil {
		return nil, err
	}
	return &orgv3.GetInstanceDefaultResponse{Organization: storage.NewGetOrganization(org)}, nil
}
