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

// Read returns up to limit events after the position, in an order that agrees
// with the commit order, and the position behind them. Following the positions
// sees every event exactly once: events of transactions that still run, and of
// all that began after them, are left for a later call (REL-035).
func Read(ctx context.Context, tx db.DBTX, after Position, limit int) ([]db.Event, Position, error) {
	events, err := db.New().ReadEvents(ctx, tx, db.ReadEventsParams{
		AfterXid: after.Xid, AfterSequence: after.Sequence, PageLimit: int32(limit),
	})
	if err != nil || len(events) == 0 {
		return nil, after, err
	}
	return events, Of(&events[len(events)-1]), nil
}
