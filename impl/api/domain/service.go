// Package domain manages the domains of instances and organizations.
//
// Service implements contracts/proto/writ/domain. A domain is a claim; it counts
// once it is proven (Validate), so nobody can keep others from their own domain
// or take over their users (SEC-222).
package domain

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	domainv3 "github.com/writ-id/writ/gen/proto/writ/domain/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/message"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the domains API. It is safe for concurrent use.
type Service struct {
	domainv3.UnsafeServiceDomainsServer

	resource.Env
	outgoing *outgoing.Client
	queries  *db.Queries
	domains  *resource.Table[db.Domain, storage.Domains]
}

var _ domainv3.ServiceDomainsServer = (*Service)(nil)

// New returns a Service over env that looks for proofs through client.
func New(env resource.Env, client *outgoing.Client) *Service {
	return &Service{Env: env, outgoing: client, queries: db.New(), domains: resource.New(env, storage.Domains{})}
}

// CreateDomain claims a domain. The system need not prove its claims.
func (s *Service) CreateDomain(ctx context.Context, req *domainv3.CreateDomainRequest) (*domainv3.CreateDomainResponse, error) {
	row := &db.Domain{ValidationToken: newToken()}
	storage.AssignDomain(row, req.GetDomain())
	if row.ValidationType == domainv3.ValidationType_VALIDATION_TYPE_UNSPECIFIED {
		row.ValidationType = domainv3.ValidationType_VALIDATION_TYPE_DNS
	}
	if policy.CallFrom(ctx).Caller.InstanceID == "" {
		row.IsVerified, row.ValidationToken = true, ""
	}
	var details *object.Details
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if details, err = s.domains.CreateIn(ctx, tx, row, &eventv1.DomainAdded{}); err != nil || !row.IsVerified {
			return err
		}
		return s.claim(ctx, tx, row)
	})
	s.Invalidate()
	return &domainv3.CreateDomainResponse{Details: details}, err
}

// Add gives an organization or instance a domain that it need not prove: one below the
// instance's own, or one that the system vouches for.
func (s *Service) Add(ctx context.Context, tx pgx.Tx, row *db.Domain) error {
	row.IsVerified, row.IsPrimary = true, true
	_, err := s.domains.CreateIn(ctx, tx, row, &eventv1.DomainAdded{})
	return err
}

// newToken returns 32 random letters and digits.
func newToken() string { return strings.ToLower(rand.Text() + rand.Text())[:32] }

// PatchDomain changes how a claim is proven, with a new token.
func (s *Service) PatchDomain(ctx context.Context, req *domainv3.PatchDomainRequest) (*domainv3.PatchDomainResponse, error) {
	details, err := s.domains.Change(ctx, req.GetId(), &eventv1.DomainChanged{}, func(_ pgx.Tx, row *db.Domain) error {
		before := row.ValidationType
		storage.AssignPatchDomain(row, req.GetDomain())
		if row.ValidationType == domainv3.ValidationType_VALIDATION_TYPE_UNSPECIFIED {
			row.ValidationType = domainv3.ValidationType_VALIDATION_TYPE_DNS
		}
		if row.ValidationType != before && !row.IsVerified {
			row.ValidationToken = newToken()
		}
		return nil
	})
	return &domainv3.PatchDomainResponse{Details: details}, err
}

// DeleteDomain deletes a domain; the primary one of its owner stays.
func (s *Service) DeleteDomain(ctx context.Context, req *domainv3.DeleteDomainRequest) (*domainv3.DeleteDomainResponse, error) {
	details, err := s.domains.Delete(ctx, req.GetId(), &eventv1.DomainRemoved{}, func(_ pgx.Tx, row *db.Domain) error {
		if row.IsPrimary {
			return fault.New(fault.FailedPrecondition, "PRIMARY_DOMAIN", "the primary domain cannot be deleted; make another one primary first")
		}
		return nil
	})
	return &domainv3.DeleteDomainResponse{Details: details}, err
}

// GetDomain reads one domain.
func (s *Service) GetDomain(ctx context.Context, req *domainv3.GetDomainRequest) (*domainv3.GetDomainResponse, error) {
	row, err := s.domains.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &domainv3.GetDomainResponse{Domain: view(row)}, nil
}

// SearchDomains finds the domains that meet all filters.
func (s *Service) SearchDomains(ctx context.Context, req *domainv3.SearchDomainsRequest) (*domainv3.SearchDomainsResponse, error) {
	rows, details, err := storage.SearchDomains(ctx, s.domains, req)
	return &domainv3.SearchDomainsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, view),
	}, err
}

func view(row *db.Domain) *domainv3.GetDomain {
	shown := storage.NewGetDomain(row)
	if !row.IsVerified {
		shown.ValidationLocation = location(row)
	}
	return shown
}

// location is where the token of a domain is looked for.
func location(row *db.Domain) string {
	if row.ValidationType == domainv3.ValidationType_VALIDATION_TYPE_HTTP {
		return "http://" + row.Domain + "/.well-known/writ-challenge.txt"
	}
	return "_writ-challenge." + row.Domain
}

// SetAsPrimary makes a validated domain the primary one of its owner.
func (s *Service) SetAsPrimary(ctx context.Context, req *domainv3.SetAsPrimaryRequest) (*domainv3.SetAsPrimaryResponse, error) {
	details, err := s.domains.Change(ctx, req.GetId(), &eventv1.DomainPrimarySet{}, func(tx pgx.Tx, row *db.Domain) error {
		if !row.IsVerified {
			return fault.New(fault.FailedPrecondition, "DOMAIN_NOT_VERIFIED", "the claim to the domain is not proven yet")
		}
		if row.IsPrimary {
			return nil
		}
		row.IsPrimary = true
		// Of two domains that become primary at once the second sees the first.
		if err := s.queries.LockName(ctx, tx, db.LockNameParams{InstanceID: row.InstanceID, Name: "primary of " + s.domains.Details(row).GetResourceOwner().GetId()}); err != nil {
			return err
		}
		return s.queries.ClearPrimaryDomain(ctx, tx, db.ClearPrimaryDomainParams{InstanceID: row.InstanceID, OrgID: row.OrgID})
	})
	return &domainv3.SetAsPrimaryResponse{Details: details}, err
}

// validateTimeout bounds the search for a proof.
const validateTimeout = 5 * time.Second

// Validate looks for the proof of a claim and, when it is there, lets the domain
// count. Validating again what is proven succeeds.
func (s *Service) Validate(ctx context.Context, req *domainv3.ValidateRequest) (*domainv3.ValidateResponse, error) {
	row, err := s.domains.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if row.IsVerified {
		return &domainv3.ValidateResponse{Details: s.domains.Details(row)}, nil
	}
	if err := s.prove(ctx, row); err != nil { // before any row is locked
		return nil, fault.New(fault.FailedPrecondition, "DOMAIN_NOT_PROVEN", "the token was not found at %s", location(row)).Because(err)
	}
	token := row.ValidationToken
	details, err := s.domains.Change(ctx, req.GetId(), &eventv1.DomainVerified{}, func(tx pgx.Tx, row *db.Domain) error {
		switch {
		case row.IsVerified:
			return nil
		case row.ValidationToken != token:
			return fault.New(fault.FailedPrecondition, "DOMAIN_NOT_PROVEN", "the domain has got a new token meanwhile")
		}
		row.IsVerified, row.ValidationToken = true, ""
		return s.claim(ctx, tx, row)
	})
	return &domainv3.ValidateResponse{Details: details}, err
}

// prove looks for the token of a domain.
func (s *Service) prove(ctx context.Context, row *db.Domain) error {
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	if row.ValidationType == domainv3.ValidationType_VALIDATION_TYPE_HTTP {
		text, err := s.outgoing.Get(ctx, location(row))
		if err == nil && strings.TrimSpace(string(text)) != row.ValidationToken {
			err = fmt.Errorf("another text is there")
		}
		return err
	}
	records, err := s.outgoing.TXT(ctx, location(row))
	if err == nil && !slices.Contains(records, row.ValidationToken) {
		err = fmt.Errorf("none of %d records is the token", len(records))
	}
	return err
}

// claim gives users of other organizations whose names end in a domain that now
// is proven to belong to this one a temporary name, so that nobody can be taken
// for a user of the organization.
func (s *Service) claim(ctx context.Context, tx pgx.Tx, row *db.Domain) error {
	if row.OrgID == nil {
		return nil
	}
	host, err := s.queries.PrimaryHost(ctx, tx, row.InstanceID)
	if err != nil {
		return err
	}
	users, err := s.queries.LockUsersOfDomain(ctx, tx, db.LockUsersOfDomainParams{
		InstanceID: row.InstanceID, OrgID: row.OrgID, Suffix: resource.Literal("@" + row.Domain),
	})
	if err != nil {
		return err
	}
	for _, user := range users {
		temporary := user.ID + "@temporary." + host
		now := s.Now()
		sequence, err := event.Append(ctx, tx, event.Event{
			InstanceID: row.InstanceID, ObjectID: user.ID, Payload: &eventv1.UserDomainClaimed{Username: temporary},
			Owner: &object.Owner{Type: object.OwnerType_OWNER_TYPE_ORG, Id: user.OrgID}, Cause: policy.CauseOf(ctx, now),
		})
		if err != nil {
			return err
		}
		if err := s.queries.RenameUser(ctx, tx, db.RenameUserParams{
			InstanceID: row.InstanceID, ID: user.ID, Username: temporary, UsernameFolded: resource.Fold(temporary), Sequence: sequence, Now: now,
		}); err != nil {
			return err
		}
		if user.VerifiedEmail == "" {
			continue
		}
		if err := message.Queue(ctx, tx, &s.Env, &message.Message{
			InstanceID: row.InstanceID, OrgID: user.OrgID, UserID: user.ID, Kind: message.Email, Template: "domain_claimed",
			Recipient: user.VerifiedEmail, Proven: user.IsEmailProven, Language: user.PreferredLanguage,
			Data: message.Data{Domain: host, Name: user.DisplayName, Username: temporary + user.LoginSuffix},
		}); err != nil {
			return err
		}
	}
	return nil
}
