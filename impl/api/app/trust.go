package app

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// The permissions to trust an application, in the instance and within its organization, and the
// role of who may give away everything in that. Who lacks the permission does not get it by
// changing an application that is trusted.
const (
	trust      = "iam.app.trust"
	trustInOrg = "org.app.trust"
	ownerOfOrg = "ORG_OWNER"
)

// TrustApp trusts an application.
func (s *Service) TrustApp(ctx context.Context, req *appv3.TrustAppRequest) (*appv3.TrustAppResponse, error) {
	details, err := s.setTrusted(ctx, req.GetId(), &eventv1.ApplicationTrusted{}, func(row *db.App) error {
		if row.Trusted && req.GetOrganizationOnly() {
			return fault.New(fault.FailedPrecondition, "APP_TRUSTED", "the app is trusted in the instance; DistrustApp takes that back")
		}
		row.Trusted = row.Trusted || !req.GetOrganizationOnly()
		row.TrustedInOrganization = row.TrustedInOrganization || req.GetOrganizationOnly()
		return nil
	})
	return &appv3.TrustAppResponse{Details: details}, err
}

// DistrustApp trusts an application no longer.
func (s *Service) DistrustApp(ctx context.Context, req *appv3.DistrustAppRequest) (*appv3.DistrustAppResponse, error) {
	details, err := s.setTrusted(ctx, req.GetId(), &eventv1.ApplicationDistrusted{}, func(row *db.App) error {
		row.Trusted, row.TrustedInOrganization = false, false
		return nil
	})
	return &appv3.DistrustAppResponse{Details: details}, err
}

func (s *Service) setTrusted(ctx context.Context, id string, payload event.Payload, set func(*db.App) error) (*object.Details, error) {
	return s.apps.Change(ctx, id, payload, func(_ pgx.Tx, row *db.App) error {
		old := *row
		if err := set(row); err != nil {
			return err
		}
		if row.Trusted == old.Trusted && row.TrustedInOrganization == old.TrustedInOrganization {
			return fault.New(fault.FailedPrecondition, "STATE_UNCHANGED", "the app %q is not in a state from which it can go there", id)
		}
		return mayTrust(ctx, row, row.Trusted || old.Trusted)
	})
}

// mayTrust refuses to trust an application with more than the caller may give away: in the
// instance, or everything in its organization.
func mayTrust(ctx context.Context, row *db.App, inInstance bool) error {
	call, at := policy.CallFrom(ctx), placeOf(row)
	if call.Holds(trust, at) {
		return nil
	}
	if inInstance {
		return fault.New(fault.PermissionDenied, "PERMISSION_DENIED", "trusting an application in the instance needs the permission %s", trust)
	}
	return call.MayGrant([]string{ownerOfOrg}, policyv1.Level_LEVEL_ORG, policy.Place{InstanceID: row.InstanceID, OrgID: row.OrgID}, "")
}

func placeOf(row *db.App) policy.Place {
	return policy.Place{InstanceID: row.InstanceID, OrgID: row.OrgID, ProjectID: row.ProjectID}
}

// mayConfigure refuses to change what makes a trusted application the one that was
// trusted: where it sends people, and what it authenticates with.
func mayConfigure(ctx context.Context, row *db.App) error {
	if !row.Trusted && !row.TrustedInOrganization || mayTrust(ctx, row, row.Trusted) == nil {
		return nil
	}
	needed := trustInOrg
	if row.Trusted {
		needed = trust
	}
	return fault.New(fault.PermissionDenied, "APP_TRUSTED", "the application is trusted; changing it needs the permission %s", needed)
}
