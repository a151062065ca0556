package resource

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/cache"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/telemetry"
)

// Env is what every service of resources needs; the first three are required.
type Env struct {
	DB        *store.DB
	Now       func() time.Time
	NewID     func() string
	Telemetry *telemetry.Telemetry // nil where nobody measures
	Memory    *cache.Memory        // what the node remembers
	// Inbox is set where messages are read from where they are queued, as in development:
	// then they need no provider.
	Inbox bool
	// Local is set in development, where applications run on this machine: addresses of it
	// need no https.
	Local bool
	// Origin returns the scheme, host and port of the node at a domain of an instance, for
	// addresses in messages; nil where none are made.
	Origin func(domain string) string
}

// Invalidate drops what this node remembers; others hear of it by notification.
func (e *Env) Invalidate() { e.Memory.Forget() }

// OriginOf returns the origin at a domain of an instance, "" when it is not known.
func (e *Env) OriginOf(domain string) string {
	if e.Origin == nil || domain == "" {
		return ""
	}
	return e.Origin(domain)
}

// In returns env with everything within a transaction.
func (e Env) In(tx pgx.Tx) Env {
	e.DB = e.DB.In(tx)
	return e
}

// Table is the one code path of all resources: it creates, reads, changes, deletes and
// searches rows. What differs between tables is its model, which is generated.
//
// Every read asks, by where the row is, whether the caller may do this there; what it may
// not reach does not exist for it (SEC-232).
type Table[R any, M Model[R]] struct {
	Env
	model M
	under string
}

// New returns the table of a model.
func New[R any, M Model[R]](env Env, model M) *Table[R, M] {
	return &Table[R, M]{Env: env, model: model}
}

// In returns the table within a transaction: what it does happens when that commits.
func (t *Table[R, M]) In(tx pgx.Tx) *Table[R, M] {
	bound := *t
	bound.Env = t.Env.In(tx)
	return &bound
}

// Under returns the table within what its IDs are unique in, such as a user.
func (t *Table[R, M]) Under(id string) *Table[R, M] {
	bound := *t
	bound.under = id
	return &bound
}

func (t *Table[R, M]) key(ctx context.Context, id string) Key {
	return Key{InstanceID: policy.CallFrom(ctx).Context.InstanceID, ID: id, Under: t.under}
}

// Details returns the details record of a row.
func (t *Table[R, M]) Details(row *R) *object.Details {
	return new(DetailsBlock).Set(t.model.Head(row))
}

// A Condition says whether a row is the one that is meant, for example one of a certain
// user: a row that it refuses does not exist.
type Condition[R any] func(*R) bool

// Get reads a row by ID.
func (t *Table[R, M]) Get(ctx context.Context, id string, conditions ...Condition[R]) (*R, error) {
	return t.read(ctx, t.DB.Conn(), Free, id, conditions)
}

// Lock reads a row and keeps others from changing or deleting it until the transaction
// ends.
func (t *Table[R, M]) Lock(ctx context.Context, tx pgx.Tx, id string, conditions ...Condition[R]) (*R, error) {
	row, err := t.read(ctx, tx, ForLock, id, conditions)
	if err == nil {
		err = t.mayChange(ctx, tx, row)
	}
	return row, err
}

// Hold reads a row and keeps others from changing or deleting it until the transaction
// ends; others may hold it too. It is for what is created below the row or refers to it.
func (t *Table[R, M]) Hold(ctx context.Context, tx pgx.Tx, id string, conditions ...Condition[R]) (*R, error) {
	return t.read(ctx, tx, ForHold, id, conditions)
}

func (t *Table[R, M]) read(ctx context.Context, conn db.DBTX, lock Lock, id string, conditions []Condition[R]) (*R, error) {
	row, err := t.model.Read(ctx, conn, lock, t.key(ctx, id))
	if err != nil && !store.NoRow(err) {
		return nil, err
	}
	head, call := t.model.Head(row), policy.CallFrom(ctx)
	reached := call.Reaches(head.Place) // asked even when there is none
	if lock == Free && head.Reader != "" && !reached {
		reached = call.Reaches(policy.Place{InstanceID: head.Place.InstanceID, OrgID: head.Reader})
	}
	for _, is := range conditions {
		reached = reached && err == nil && is(row)
	}
	if err != nil || !reached {
		return nil, t.Missing(id)
	}
	return row, nil
}

// mayChange refuses to change what is of a user who holds more than the caller.
func (t *Table[R, M]) mayChange(ctx context.Context, tx pgx.Tx, row *R) error {
	if !t.model.Facts().OfUsers {
		return nil
	}
	at := t.model.Head(row).Place
	return policy.CallFrom(ctx).MayBecome(ctx, tx, at.InstanceID, at.UserID)
}

// Unused refuses an ID that an object of this kind has or had: IDs are never
// given twice (SEC-219). aggregate is what its events belong to.
func (t *Table[R, M]) Unused(ctx context.Context, tx pgx.Tx, id, aggregate string) error {
	used, err := db.New().EverUsed(ctx, tx, db.EverUsedParams{
		InstanceID: policy.CallFrom(ctx).Context.InstanceID, AggregateType: aggregate, AggregateID: id,
	})
	if err == nil && used {
		err = t.IDTaken()
	}
	return err
}

// event returns the event of the last change to a row.
func (t *Table[R, M]) event(ctx context.Context, row *R, payload event.Payload) event.Event {
	head := t.model.Head(row)
	return event.Event{
		InstanceID: head.Place.InstanceID, ObjectID: head.Subject, Payload: payload,
		Owner: head.Owner(), Cause: policy.CauseOf(ctx, head.ChangeDate),
	}
}

// Create stores a new row and appends its event in one statement. It gives the row what it
// lacks of ID, instance, organization (that of the call) and dates; the fields of payload
// that are columns are filled from it.
func (t *Table[R, M]) Create(ctx context.Context, row *R, payload event.Payload) (*object.Details, error) {
	if !t.model.Facts().RememberedNew {
		details, err := t.CreateIn(ctx, t.DB.Conn(), row, payload)
		if err == nil {
			t.DB.Committed()
		}
		return details, err
	}
	var details *object.Details
	err := t.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		details, err = t.CreateIn(ctx, tx, row, payload)
		return err
	})
	t.Invalidate()
	return details, t.Refusal(err)
}

// CreateIn is Create within a transaction. What it makes of a table whose new rows
// are remembered other nodes hear of; this one when the caller invalidates after
// the commit.
func (t *Table[R, M]) CreateIn(ctx context.Context, conn db.DBTX, row *R, payload event.Payload) (*object.Details, error) {
	t.model.Begin(row, t.NewID, policy.CallFrom(ctx).Context, t.Now())
	if err := t.model.Record(payload, nil, row); err != nil {
		return nil, err
	}
	if err := t.insert(ctx, conn, row, payload); err != nil {
		return nil, err
	}
	return t.Details(row), nil
}

func (t *Table[R, M]) insert(ctx context.Context, conn db.DBTX, row *R, payload event.Payload) error {
	e := t.event(ctx, row, payload)
	err := t.model.Insert(ctx, conn, row, e.Record())
	if err == nil && t.model.Facts().RememberedNew {
		err = db.New().NotifyChange(ctx, conn)
	}
	return t.refusal(err, row)
}

// Change locks a row, lets apply change it, appends the event and stores it, in one
// transaction. When apply changes nothing nothing is written, and the details are those of
// the last change. The fields of payload that are columns are set where those changed.
func (t *Table[R, M]) Change(ctx context.Context, id string, payload event.Payload, apply func(pgx.Tx, *R) error, conditions ...Condition[R]) (*object.Details, error) {
	var details *object.Details
	var row *R
	changed := false
	err := t.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if row, err = t.Lock(ctx, tx, id, conditions...); err != nil {
			return err
		}
		old := *row
		if err := apply(tx, row); err != nil {
			return err
		}
		changed, err = t.Save(ctx, tx, &old, row, payload)
		details = t.Details(row)
		return err
	})
	if changed && t.model.Facts().Remembered {
		t.Invalidate()
	}
	return details, t.refusal(err, row)
}

// Save stores a row that this transaction has locked, if it differs from what it was, and
// appends the event. It reports whether it did.
func (t *Table[R, M]) Save(ctx context.Context, tx pgx.Tx, old, row *R, payload event.Payload) (bool, error) {
	if !t.model.Differs(old, row) {
		return false, nil
	}
	t.model.Touch(row, t.Now())
	if err := t.model.Record(payload, old, row); err != nil {
		return false, err
	}
	return true, t.update(ctx, tx, row, payload)
}

func (t *Table[R, M]) update(ctx context.Context, tx pgx.Tx, row *R, payload event.Payload) error {
	e := t.event(ctx, row, payload)
	err := t.model.Update(ctx, tx, row, e.Record())
	if err == nil && t.model.Facts().Remembered {
		err = db.New().NotifyChange(ctx, tx)
	}
	return err
}

// Delete deletes a row and what belongs to it, with events. before, if not nil,
// may refuse or take out of other objects what refers to it; the change date of
// its row is already that of the deletion.
func (t *Table[R, M]) Delete(ctx context.Context, id string, payload event.Payload, before func(pgx.Tx, *R) error, conditions ...Condition[R]) (*object.Details, error) {
	var details *object.Details
	err := t.DB.InTx(ctx, func(tx pgx.Tx) error {
		row, err := t.read(ctx, tx, ForTake, id, conditions)
		if err == nil {
			err = t.mayChange(ctx, tx, row)
		}
		if err != nil {
			return err
		}
		t.model.Touch(row, t.Now())
		if before != nil {
			if err := before(tx, row); err != nil {
				return err
			}
		}
		details, err = t.deleteRow(ctx, tx, t.key(ctx, id), row, payload)
		return err
	})
	if t.model.Facts().Remembered {
		t.Invalidate()
	}
	return details, t.Refusal(err)
}

// deleteRow deletes a row whose last event says so, by which the triggers know that it does
// not just go along (sql/migrations/*_removals.sql).
func (t *Table[R, M]) deleteRow(ctx context.Context, tx pgx.Tx, key Key, row *R, payload event.Payload) (*object.Details, error) {
	if err := t.model.Record(payload, nil, row); err != nil {
		return nil, err
	}
	e := t.event(ctx, row, payload)
	if err := event.Deletes(ctx, tx, e.Cause); err != nil {
		return nil, err
	}
	sequence, err := t.model.Delete(ctx, tx, key, e.Record())
	if err == nil && t.model.Facts().Remembered {
		err = db.New().NotifyChange(ctx, tx)
	}
	return Details(t.model.Head(row).ID, sequence, e.At, e.Owner), err
}

// SetState moves an object to another state, which it must not be in yet; from, if given,
// are the only states it may come from. state is the State of its model.
func SetState[R any, M Model[R], S comparable](ctx context.Context, t *Table[R, M], state func(*R) *S, id string, to S, payload event.Payload, from ...S) (*object.Details, error) {
	return t.Change(ctx, id, payload, func(_ pgx.Tx, row *R) error {
		return Move(t.model.Facts().Kind, id, state(row), to, from...)
	})
}

// Move is what SetState does with the state of one object.
func Move[S comparable](kind, id string, state *S, to S, from ...S) error {
	if *state == to || len(from) > 0 && !slices.Contains(from, *state) {
		return fault.New(fault.FailedPrecondition, "STATE_UNCHANGED", "the %s %q is not in a state from which it can go there", kind, id)
	}
	*state = to
	return nil
}
