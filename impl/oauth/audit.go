package oauth

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/store"
)

// auditor appends events of tokens that have no row of their own. Those that wait
// while a commit is under way go with the next one, in one statement: the more at
// once, the less each costs. An event is durable before its token is given out.
type auditor struct {
	db    *store.DB
	queue chan *audited
}

type audited struct {
	event event.Event
	done  chan error
}

const (
	auditBatch = 256
	auditLimit = 10 * time.Second // of a batch
)

func newAuditor(db *store.DB) *auditor { return &auditor{db, make(chan *audited, auditBatch)} }

// append returns when the event is committed.
func (a *auditor) append(ctx context.Context, e event.Event) error {
	entry := &audited{e, make(chan error, 1)}
	select {
	case a.queue <- entry:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-entry.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *auditor) run(ctx context.Context) {
	batch := make([]*audited, 0, auditBatch)
	for {
		select {
		case entry := <-a.queue:
			batch = append(batch[:0], entry)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < auditBatch; {
			select {
			case entry := <-a.queue:
				batch = append(batch, entry)
			default:
				more = false
			}
		}
		a.write(ctx, batch)
	}
}

// write appends a batch. When it fails each is tried alone, so that none fails for
// another one's sake.
func (a *auditor) write(ctx context.Context, batch []*audited) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditLimit)
	defer cancel()
	err := a.insert(ctx, batch)
	if err == nil || len(batch) == 1 {
		for _, entry := range batch {
			entry.done <- err
		}
		return
	}
	for _, entry := range batch {
		entry.done <- a.insert(ctx, []*audited{entry})
	}
}

func (a *auditor) insert(ctx context.Context, batch []*audited) error {
	var p db.AppendEventsParams
	for _, entry := range batch {
		columns := event.Columns(entry.event)
		p.InstanceIds = append(p.InstanceIds, entry.event.InstanceID)
		p.AggregateTypes = append(p.AggregateTypes, columns[1].(string))
		p.AggregateIds = append(p.AggregateIds, entry.event.ObjectID)
		p.EventTypes = append(p.EventTypes, columns[3].(string))
		p.Payloads = append(p.Payloads, string(event.JSON(entry.event.Payload)))
		p.Creators = append(p.Creators, entry.event.Creator)
		p.OwnerIds = append(p.OwnerIds, entry.event.Owner.GetId())
		p.CreatedAts = append(p.CreatedAts, entry.event.At)
	}
	return db.New().AppendEvents(ctx, a.db.Pool, p)
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
