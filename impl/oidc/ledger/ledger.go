// Package ledger writes what becomes of tokens: the grants that codes and exchanges
// make, the rotations of refresh tokens, revocations, and the events of tokens that
// have no row. What many requests write goes together, and is durable before it is
// answered.
package ledger

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/batch"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// Ledger writes. It is safe for concurrent use.
type Ledger struct {
	resource.Env
	queries *db.Queries

	// Of each there is one statement under way: what comes meanwhile is the next one.
	audit     *writer[event.Event]
	revoked   *writer[revocation]
	grants    *writer[*row]
	rotations *writer[*rotation]
	// What has to be done once the database can be asked again; it needs Run. What was found
	// out does not wait behind what nobody could look at.
	revocations, doubts *overdue
}

type writer[T any] = batch.Batcher[T, struct{}]

// New returns a Ledger over env.
func New(env resource.Env, logger *slog.Logger) *Ledger {
	s := &Ledger{
		Env: env, queries: db.New(),
		revocations: newOverdue("a revocation", maxRevocations, logger), doubts: newOverdue("a use to look at", maxDoubts, logger),
	}
	s.audit, s.revoked = written(s, s.writeEvents), written(s, s.writeRevocations)
	s.grants, s.rotations = written(s, s.writeGrants), written(s, s.writeRotations)
	return s
}

// written returns a batcher over what writes, which tells of its commits: there are events
// among them.
func written[T any](s *Ledger, write func(context.Context, []T) error) *writer[T] {
	return batch.Writer(func(ctx context.Context, values []T) ([]struct{}, error) {
		err := store.Retry(ctx, func() error { return write(ctx, values) })
		if err == nil {
			s.DB.Committed()
		}
		return make([]struct{}, len(values)), err
	})
}

// Run does what is overdue until ctx ends.
func (s *Ledger) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { s.revocations.run(ctx) })
	all.Go(func() { s.doubts.run(ctx) })
	all.Wait()
}

// Audit appends the event of a token that has no row of its own, durably before it
// returns.
func (s *Ledger) Audit(ctx context.Context, at endpoint.Site, orgID, objectID, creator string, payload event.Payload) error {
	_, err := s.audit.Ask(ctx, event.Event{
		InstanceID: at.ID, ObjectID: objectID, Payload: payload, Owner: &object.Owner{Type: object.OwnerType_OWNER_TYPE_ORG, Id: orgID},
		Cause: event.Cause{Creator: creator, At: at.Now, Origin: policy.OriginOf(ctx)},
	})
	return err
}

func (s *Ledger) writeEvents(ctx context.Context, batch []event.Event) error {
	return event.AppendAll(ctx, s.DB.Pool, batch)
}

// revocation is an access token that is to end.
type revocation struct {
	instanceID string
	*tokenv1.AccessToken
	event.Origin
}

// RevokeToken ends an access token.
func (s *Ledger) RevokeToken(ctx context.Context, at endpoint.Site, t *tokenv1.AccessToken) error {
	_, err := s.revoked.Ask(ctx, revocation{at.ID, t, policy.OriginOf(ctx)})
	if err == nil && slices.Contains(t.GetAudience(), scope.Platform) {
		err = s.forgetCallers(ctx)
	}
	return err
}

func (s *Ledger) writeRevocations(ctx context.Context, batch []revocation) error {
	p := db.RevokeTokensParams{EventType: event.Type(&eventv1.OIDCSessionAccessTokenRevoked{}), Now: s.Now()}
	p.Grow(len(batch))
	for _, t := range batch {
		p.Add(db.RevokeTokensEntry{
			InstanceID: t.instanceID, ID: t.GetId(), ExpirationDate: unix(t.GetExpiresAt()), UserID: t.GetUserId(),
			Payload:       string(event.JSON(&eventv1.OIDCSessionAccessTokenRevoked{ClientId: t.GetClientId()})),
			ClientAddress: t.ClientAddress, Traceparent: t.Traceparent,
		})
	}
	return s.queries.RevokeTokens(ctx, s.DB.Pool, p)
}

// forgetCallers makes every node ask again whose tokens are good for the resource
// API.
func (s *Ledger) forgetCallers(ctx context.Context) error {
	s.Invalidate()
	return s.queries.NotifyChange(ctx, s.DB.Pool)
}

// Sweep deletes what can be of no use any more: grants, revocations and used
// assertions that ended before a time. It returns how many rows that were of the
// table that had most.
func (s *Ledger) Sweep(ctx context.Context, before time.Time, batch int32) (int64, error) {
	before = before.Add(-time.Minute) // clocks differ
	grants, err := s.queries.SweepGrants(ctx, s.DB.Pool, db.SweepGrantsParams{Before: before, Batch: batch})
	if err != nil {
		return 0, err
	}
	var revoked int64
	err = store.Retry(ctx, func() (err error) {
		revoked, err = s.queries.SweepRevoked(ctx, s.DB.Pool, db.SweepRevokedParams{Before: before, Batch: batch})
		return err
	})
	if err != nil {
		return grants, err
	}
	used, err := s.queries.SweepAssertions(ctx, s.DB.Pool, db.SweepAssertionsParams{Before: before, Batch: batch})
	return max(grants, revoked, used), err
}

func unix(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
