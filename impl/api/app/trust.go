package app

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// trust is the permission to trust an application. Who lacks it does not become it by
// changing one that is trusted.
const trust = "iam.app.trust"

// TrustApp trusts an application.
func (s *Service) TrustApp(ctx context.Context, req *appv3.TrustAppRequest) (*appv3.TrustAppResponse, error) {
	details, err := s.setTrusted(ctx, req.GetId(), true, &eventv1.ApplicationTrusted{})
	return &appv3.TrustAppResponse{Details: details}, err
}

// DistrustApp trusts an application no longer.
func (s *Service) DistrustApp(ctx context.Context, req *appv3.DistrustAppRequest) (*appv3.DistrustAppResponse, error) {
	details, err := s.setTrusted(ctx, req.GetId(), false, &eventv1.ApplicationDistrusted{})
	return &appv3.DistrustAppResponse{Details: details}, err
}

func (s *Service) setTrusted(ctx context.Context, id string, to bool, payload event.Payload) (*object.Details, error) {
	return s.apps.Change(ctx, id, payload, func(_ pgx.Tx, row *db.App) error {
		if row.Trusted == to {
			return fault.New(fault.FailedPrecondition, "STATE_UNCHANGED", "the app %q is not in a state from which it can go there", id)
		}
		row.Trusted = to
		return nil
	})
}

// mayConfigure refuses to change what makes a trusted application the one that was
// trusted: where it sends people, and what it authenticates with.
func mayConfigure(ctx context.Context, row *db.App) error {
	at := policy.Place{InstanceID: row.InstanceID, OrgID: row.OrgID, ProjectID: row.ProjectID}
	if !row.Trusted || policy.CallFrom(ctx).Holds(trust, at) {
		return nil
	}
	return fault.New(fault.PermissionDenied, "APP_TRUSTED", "the application is trusted; changing it needs the permission %s", trust)
}
