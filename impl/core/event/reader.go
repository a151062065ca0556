package event

import (
	"context"

	"github.com/writ-id/writ/gen/db"
)

// Position is a place in the commit order of all events. The zero Position is
// before the first event.
type Position struct {
	Xid      uint64
	Sequence int64
}

// Of returns the position behind an event that was read.
func Of(e *db.Event) Position { return Position{e.Xid, e.Sequence} }

// Bounds are where events end that nothing can come before any more (REL-035): of an
// instance to which nobody writes at Coming, of the others earlier. Statements that begin
// after they were read may read below them.
type Bounds struct {
	Coming  uint64
	Writers map[int64]uint64 // by event_key
}

// ReadBounds returns those of now.
func ReadBounds(ctx context.Context, tx db.DBTX) (Bounds, error) {
	rows, err := db.New().EventBounds(ctx, tx)
	b := Bounds{Writers: make(map[int64]uint64, len(rows))}
	for _, row := range rows {
		if row.InstanceKey < 0 {
			b.Coming = row.Below
		} else {
			b.Writers[row.InstanceKey] = row.Below
		}
	}
	return b, err
}

// All is the bound of the events of all instances.
func (b Bounds) All() uint64 {
	all := b.Coming
	for _, below := range b.Writers {
		all = min(all, below)
	}
	return all
}

// Read returns up to limit events of all instances after the position, in an order that
// agrees with the commit order, and the position behind them. Following the positions sees
// every event exactly once: events of transactions that still run, and of all that came
// after them, are left for a later call.
func Read(ctx context.Context, tx db.DBTX, after Position, limit int) ([]db.Event, Position, error) {
	bounds, err := ReadBounds(ctx, tx)
	if err != nil {
		return nil, after, err
	}
	return ReadBelow(ctx, tx, after, bounds.All(), limit)
}

// ReadBelow is Read up to a bound that is known.
func ReadBelow(ctx context.Context, tx db.DBTX, after Position, below uint64, limit int) ([]db.Event, Position, error) {
	events, err := db.New().ReadEvents(ctx, tx, db.ReadEventsParams{
		AfterXid: after.Xid, AfterSequence: after.Sequence, Below: below, PageLimit: int32(limit),
	})
	if err != nil || len(events) == 0 {
		return nil, after, err
	}
	return events, Of(&events[len(events)-1]), nil
}

// Before reports whether p is before another position.
func (p Position) Before(other Position) bool {
	return p.Xid < other.Xid || p.Xid == other.Xid && p.Sequence < other.Sequence
}
