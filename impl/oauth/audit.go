package oauth

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/event"
)

// writeEvents appends events of tokens that have no row of their own.
func (s *Server) writeEvents(ctx context.Context, batch []event.Event) error {
	return event.AppendAll(ctx, s.DB.Pool, batch)
}

// revocation is an access token that is to end.
type revocation struct {
	instanceID string
	*tokenv1.AccessToken
}

// writeRevocations ends access tokens.
func (s *Server) writeRevocations(ctx context.Context, batch []revocation) error {
	p := db.RevokeTokensParams{EventType: event.Type(&eventv1.OIDCSessionAccessTokenRevoked{}), Now: s.Now()}
	for _, t := range batch {
		p.InstanceIds = append(p.InstanceIds, t.instanceID)
		p.Ids = append(p.Ids, t.GetId())
		p.ExpirationDates = append(p.ExpirationDates, unix(t.GetExpiresAt()))
		p.UserIds = append(p.UserIds, t.GetUserId())
		p.Payloads = append(p.Payloads, string(event.JSON(&eventv1.OIDCSessionAccessTokenRevoked{ClientId: t.GetClientId()})))
	}
	return s.queries.RevokeTokens(ctx, s.DB.Pool, p)
}

// ofOrg is the owner of events of an organization.
func ofOrg(id string) *object.Owner {
	return &object.Owner{Type: object.OwnerType_OWNER_TYPE_ORG, Id: id}
}

// Sweep deletes what can be of no use any more: grants, revocations and used
// assertions that ended before a time. It returns how many rows that were of the
// table that had most.
func (s *Server) Sweep(ctx context.Context, before time.Time, batch int32) (int64, error) {
	before = before.Add(-time.Minute) // clocks differ
	grants, err := s.queries.SweepGrants(ctx, s.DB.Pool, db.SweepGrantsParams{Before: before, Batch: batch})
	if err != nil {
		return 0, err
	}
	revoked, err := s.queries.SweepRevoked(ctx, s.DB.Pool, db.SweepRevokedParams{Before: before, Batch: batch})
	if err != nil {
		return grants, err
	}
	used, err := s.queries.SweepAssertions(ctx, s.DB.Pool, db.SweepAssertionsParams{Before: before, Batch: batch})
	return max(grants, revoked, used), err
}
