package delivery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// Fanout makes deliveries of events. Of all nodes the one that holds the lock of the
// cursor does; the others follow it.
type Fanout struct {
	DB     *store.DB
	Now    func() time.Time
	NewID  func() string
	Logger *slog.Logger
	// Fresh returns the executions of a tenant with all that was committed before.
	Fresh func(ctx context.Context, instanceID string) (*execution.Table, error)
	// Wake is that of the task; nil where nobody runs it.
	Wake background.Wake

	heard atomic.Bool // whether anybody hears events, as far as this node knows
	last  time.Time   // when the last pass began
	held  int         // how often in a row running transactions kept events back

	// What is known of executions, good for one version of the cursor.
	version int64
	hearing map[string]bool // the instances with executions on events
	tables  map[string]*execution.Table
}

const (
	// pollEvery is how late an event is whose commit nobody told of, at most.
	pollEvery = 5 * time.Second
	// eventsLimit and rowsLimit bound one transaction.
	eventsLimit, rowsLimit = 500, 2000
	// spacing is how long passes are apart: events that come one after the other share
	// them, the first does not wait.
	spacing = 10 * time.Millisecond
	// firstHeld and longestHeld are how soon is looked again for events that a running
	// transaction holds back: it ends without telling us.
	firstHeld, longestHeld = 5 * time.Millisecond, time.Second
	// heldLooks is how often is looked for them before the others go ahead.
	heldLooks = 3
	// maxTables bounds what is remembered.
	maxTables = 10_000
)

// Task is to make deliveries of what happened.
func (f *Fanout) Task() background.Task {
	return background.Task{Name: "fanning out events", Every: pollEvery, Wake: f.Wake, Do: f.Pass}
}

// Committed hears of the commits of this node. While nobody hears events they do not make
// the task run.
func (f *Fanout) Committed() {
	if f.heard.Load() {
		f.Wake.Now()
	}
}

// Pass makes deliveries of some events, and reports whether there may be more.
func (f *Fanout) Pass(ctx context.Context) (more bool, err error) {
	if pause := spacing - time.Since(f.last); pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, nil
		}
	}
	f.last = time.Now()
	var made passed
	// Not InTx, which would tell of this commit too.
	err = pgx.BeginFunc(ctx, f.DB.Pool, func(tx pgx.Tx) (err error) {
		made, err = f.pass(ctx, tx)
		return err
	})
	if err != nil {
		f.forget(0)
		// What was remembered is gone, and the event that says so is not to be seen yet.
		const foreignKeyViolation = "23503"
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == foreignKeyViolation && made.remembered {
			return true, nil
		}
		return false, err
	}
	f.heard.Store(made.heard)
	if !made.held {
		f.held = 0
	} else {
		pause := min(firstHeld<<min(f.held, 10), longestHeld)
		if made.soon {
			pause = firstHeld
		}
		time.AfterFunc(pause, f.Wake.Now)
	}
	if made.held {
		f.held++
	}
	return made.more, nil
}

// passed is what a pass came to. It may have relied on what passes before it read
// (remembered).
type passed struct{ heard, held, soon, more, remembered bool }

func (f *Fanout) pass(ctx context.Context, tx pgx.Tx) (made passed, err error) {
	q := db.New()
	cursor, err := q.LockDeliveryCursor(ctx, tx)
	if err != nil {
		return made, err
	}
	bounds, err := event.ReadBounds(ctx, tx)
	if err != nil {
		return made, err
	}
	if !cursor.IsHeard {
		heard, err := q.SkipEvents(ctx, tx, bounds.All())
		if store.NoRow(err) {
			return made, nil
		}
		return passed{heard: heard, more: heard}, err
	}
	made.heard = true
	after := event.Position{Xid: cursor.Xid, Sequence: cursor.Sequence}
	events, next, err := event.ReadBelow(ctx, tx, after, bounds.All(), eventsLimit)
	if err != nil {
		return made, err
	}
	if len(events) == 0 {
		why, err := q.WhyThereAreNoEvents(ctx, tx, db.WhyThereAreNoEventsParams{Xid: after.Xid, Sequence: after.Sequence, Coming: bounds.Coming})
		if err == nil && why.IsForeign {
			f.Logger.WarnContext(ctx, "the database was restored from another server: events of before the restore are not delivered any more")
			return passed{heard: true, more: true}, q.RestartDeliveryCursor(ctx, tx, bounds.Coming)
		}
		if err == nil && why.AreComing {
			made.soon, err = true, q.PassTransaction(ctx, tx)
		}
		made.held = why.AreHeld
		if err != nil || !cursor.IsAhead && (!made.held || f.held < heldLooks) {
			return made, err
		}
	}
	crowded := len(events) == eventsLimit
	var a *ahead
	if cursor.IsAhead || crowded || made.held {
		if a, err = f.ahead(ctx, tx, cursor.IsAhead, after, bounds, events); err != nil {
			return made, err
		}
	}
	if slices.ContainsFunc(events, changesExecutions) || a != nil && slices.ContainsFunc(a.events, changesExecutions) {
		cursor.Version++
	}
	if f.version != cursor.Version || f.hearing == nil {
		f.forget(cursor.Version)
	}
	made.remembered = f.hearing != nil
	batch := &batch{now: f.Now(), newID: f.NewID, position: cursor.Position, lanes: map[Lane]bool{}, keys: map[Key]bool{}}
	for i := range events {
		if a.saw(&events[i]) {
			continue
		}
		if err := f.add(ctx, tx, batch, &events[i]); err != nil {
			return made, err
		}
		if len(batch.rows.Ids) >= rowsLimit {
			next = event.Of(&events[i])
			made.more = i+1 < len(events)
			break
		}
	}
	made.more = made.more || crowded
	isAhead := false
	if a != nil {
		if isAhead, err = a.follow(ctx, tx, batch, next); err != nil {
			return made, err
		}
		made.more = made.more || a.more
	}
	if !made.more && !isAhead {
		made.heard = len(f.hearing) > 0
	}
	if err := batch.store(ctx, tx); err != nil {
		return made, err
	}
	if next == after && isAhead == cursor.IsAhead && (a == nil || !a.moved) {
		return made, nil // nothing is written of nothing
	}
	return made, q.MoveDeliveryCursor(ctx, tx, db.MoveDeliveryCursorParams{
		Xid: next.Xid, Sequence: next.Sequence, Position: batch.position, IsHeard: made.heard, Version: cursor.Version, IsAhead: isAhead,
	})
}

// changesExecutions reports whether executions or their targets are others since an event. Those
// that go along with their instance leave none.
func changesExecutions(e db.Event) bool {
	return e.AggregateType == "execution" || e.AggregateType == "target" || e.AggregateType == "instance"
}

// forget drops what is known of executions. The events of their changes are in the stream:
// what was read after the last one of them was seen is right for all that follow it.
func (f *Fanout) forget(version int64) {
	f.version, f.hearing, f.tables = version, nil, nil
}

// add adds the deliveries of an event.
func (f *Fanout) add(ctx context.Context, tx pgx.Tx, b *batch, e *db.Event) error {
	if f.hearing == nil {
		instances, err := db.New().HearingInstances(ctx, tx)
		if err != nil {
			return err
		}
		f.hearing, f.tables = make(map[string]bool, len(instances)), map[string]*execution.Table{}
		for _, id := range instances {
			f.hearing[id] = true
		}
	}
	if !f.hearing[e.InstanceID] {
		return nil
	}
	table := f.tables[e.InstanceID]
	if table == nil {
		var err error
		if table, err = f.Fresh(ctx, e.InstanceID); err != nil {
			return err
		}
		if len(f.tables) >= maxTables {
			clear(f.tables)
		}
		f.tables[e.InstanceID] = table
	}
	run := table.Event(e.EventType)
	if run == nil {
		return nil
	}
	body := string(Body(e))
	seen, follows := map[string]bool{}, none
	for _, target := range run.Targets {
		if seen[target.ID] { // a target gets an event once, however often it is named
			continue
		}
		seen[target.ID] = true
		if added := b.add(e, run.ID, target.ID, body, follows); target.Interrupt {
			follows = added
		}
	}
	return nil
}

// Body returns what is sent of an event.
func Body(e *db.Event) []byte {
	return (&actionv3.EventPayload{
		AggregateId: e.AggregateID, AggregateType: e.AggregateType, ResourceOwner: e.OwnerID, InstanceId: e.InstanceID, Version: execution.EventVersion,
		Sequence: uint64(e.Sequence), EventType: e.EventType, CreatedAt: resource.Timestamp(nil, e.CreatedAt), UserId: e.Creator, EventPayload: e.Payload,
	}).AppendJSON(nil)
}

// batch is the deliveries of one transaction.
type batch struct {
	now      time.Time
	newID    func() string
	position int64
	lanes    map[Lane]bool
	keys     map[Key]bool
	rows     db.QueueDeliveriesParams
}

// none is not the place of a delivery in a batch.
const none = -1

// add adds a delivery that follows another one of the batch, or none, and returns its place.
func (b *batch) add(e *db.Event, execution, target, body string, follows int) int {
	lane := Lane{e.InstanceID, target, e.AggregateType, e.AggregateID}
	r := &b.rows
	before := ""
	if follows != none {
		before, r.AreFollowed[follows] = r.Ids[follows], true
	}
	b.position++
	r.Add(db.QueueDeliveriesEntry{
		InstanceID: e.InstanceID, ID: b.newID(), Target: target, Execution: execution, Type: e.EventType, Sequence: e.Sequence,
		ObjectType: e.AggregateType, ObjectID: e.AggregateID, Position: b.position, Body: body, Traceparent: e.Traceparent,
		IsFirst: !b.lanes[lane], Follow: before, IsFollowed: false,
	})
	b.lanes[lane], b.keys[lane.key()] = true, true
	return len(r.Ids) - 1
}

// store stores the deliveries, and tells all workers when that commits.
func (b *batch) store(ctx context.Context, tx pgx.Tx) error {
	if len(b.rows.Ids) == 0 {
		return nil
	}
	q := db.New()
	if err := AddToQueues(ctx, tx, b.now, b.keys); err != nil {
		return err
	}
	b.rows.Now = b.now
	if err := q.QueueDeliveries(ctx, tx, b.rows); err != nil {
		return err
	}
	return q.NotifyDeliveries(ctx, tx)
}

// AddToQueues makes queues due and locks them until tx ends: before anything in them is
// changed.
func AddToQueues(ctx context.Context, tx db.DBTX, now time.Time, keys map[Key]bool) error {
	p := db.AddToDeliveryQueuesParams{Now: now}
	for _, key := range sorted(keys) {
		p.Add(db.AddToDeliveryQueuesEntry{InstanceID: key.InstanceID, Target: key.Target})
	}
	return db.New().AddToDeliveryQueues(ctx, tx, p)
}

// sorted returns keys in the order in which everybody locks queues.
func sorted(keys map[Key]bool) []Key {
	all := make([]Key, 0, len(keys))
	for key := range keys {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.Target, b.Target))
	})
	return all
}
