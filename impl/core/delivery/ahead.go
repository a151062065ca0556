package delivery

import (
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/event"
)

// One place for all instances is what a fan-out of the release before knows, too, and what
// costs least. But a transaction that runs long keeps it, and so does who has very many
// events: then the instances that hear events go ahead of it, each to a place of its own, until it has
// caught up (REL-108). An instance is seen in its own order either way.

// share is how many events of one instance are read ahead at once.
const share = 50

// ahead is what of that a pass does.
type ahead struct {
	f      *Fanout
	places map[string]event.Position // of the instances of the events that were read
	events []db.Event                // further ones
	moved  bool
	more   bool
}

// ahead reads events of instances that are ahead, or are to be from now on; seen is what was
// read behind the cursor.
func (f *Fanout) ahead(ctx context.Context, tx pgx.Tx, already bool, cursor event.Position, bounds event.Bounds, seen []db.Event) (*ahead, error) {
	q := db.New()
	if err := q.GoAhead(ctx, tx, db.GoAheadParams{Xid: cursor.Xid, Sequence: cursor.Sequence, IsAhead: already}); err != nil {
		return nil, err
	}
	a := &ahead{f: f, places: map[string]event.Position{}}
	p := db.ReadEventsAheadParams{Xid: cursor.Xid, Sequence: cursor.Sequence, Below: bounds.Coming, Share: share, PageLimit: eventsLimit}
	for key, below := range bounds.Writers {
		p.Add(db.ReadEventsAheadEntry{InstanceKey: key, Below: strconv.FormatUint(below, 10)})
	}
	var err error
	if a.events, err = q.ReadEventsAhead(ctx, tx, p); err != nil {
		return nil, err
	}
	var ids []string
	for _, list := range [][]db.Event{seen, a.events} {
		for i := range list {
			if !slices.Contains(ids, list[i].InstanceID) {
				ids = append(ids, list[i].InstanceID)
			}
		}
	}
	rows, err := q.InstancesAhead(ctx, tx, ids)
	for _, row := range rows {
		a.places[row.InstanceID] = event.Position{Xid: row.Xid, Sequence: row.Sequence}
	}
	return a, err
}

// saw reports whether an event was seen ahead of the cursor.
func (a *ahead) saw(e *db.Event) bool {
	if a == nil {
		return false
	}
	place, is := a.places[e.InstanceID]
	return is && !place.Before(event.Of(e))
}

// follow adds the deliveries of what was read ahead, and reports whether anybody is ahead of
// the cursor then, which is to be next.
func (a *ahead) follow(ctx context.Context, tx pgx.Tx, b *batch, next event.Position) (bool, error) {
	q := db.New()
	counts, moved := map[string]int{}, map[string]event.Position{}
	limit := len(b.rows.Ids) + rowsLimit
	for i := range a.events {
		e := &a.events[i]
		if counts[e.InstanceID]++; counts[e.InstanceID] == share || i+1 == eventsLimit {
			a.more = true
		}
		if !next.Before(event.Of(e)) { // it was just seen
			continue
		}
		if err := a.f.add(ctx, tx, b, e); err != nil {
			return false, err
		}
		moved[e.InstanceID] = event.Of(e)
		if len(b.rows.Ids) >= limit {
			a.more = true
			break
		}
	}
	var p db.MoveAheadParams
	for id, place := range moved {
		a.moved = true
		p.Add(db.MoveAheadEntry{InstanceID: id, Xid: strconv.FormatUint(place.Xid, 10), Sequence: place.Sequence})
	}
	if a.moved {
		if err := q.MoveAhead(ctx, tx, p); err != nil {
			return false, err
		}
	}
	caught, err := q.EndAhead(ctx, tx, db.EndAheadParams{Xid: next.Xid, Sequence: next.Sequence})
	return !caught, err
}
