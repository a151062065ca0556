// Package delivery brings events to the targets of the executions that they trigger, at
// least once, and those of one object to one target in their order.
//
// A Fanout reads all events in the order of their commits and makes a delivery for each
// target, in the transaction that moves its cursor: what was committed is delivered,
// whatever dies when, and who causes an event pays nothing for who hears of it. A Worker
// takes the queues of targets that are due, each as a whole and for a while, and sends
// what is due of them. There may be one of both on each node.
//
//	event ─ Fanout ─→ pending ─→ delivered            (2xx)
//	                    │  ↑ ╲
//	                    ↓  │  ╲→ dead                 (410, too many attempts, too old,
//	                   failed ─↗                       or the target is gone)
//
// Of what a target has still to get of one object the oldest is due, and the others wait
// for it to be delivered or dead: a lane. Who changes the state of a delivery locks the
// row of its queue first; so lanes need no locks of their own.
package delivery

import (
	"cmp"
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/store"
)

// Limits are what the operator sets.
type Limits struct {
	Attempts  int           // after so many a delivery is dead
	Age       time.Duration // and so long after it was queued
	Retention time.Duration // how long what is delivered or dead is kept
}

// Defaults are the limits where the operator sets none.
var Defaults = Limits{Attempts: 20, Age: 72 * time.Hour, Retention: 7 * 24 * time.Hour}

// OrDefault returns the limits with those that are 0 set.
func (l Limits) OrDefault() Limits {
	return Limits{cmp.Or(l.Attempts, Defaults.Attempts), cmp.Or(l.Age, Defaults.Age), cmp.Or(l.Retention, Defaults.Retention)}
}

// Lane is what a target gets of one object.
type Lane struct{ InstanceID, Target, ObjectType, ObjectID string }

// Key names the queue of a target.
type Key struct{ InstanceID, Target string }

func (l Lane) key() Key { return Key{l.InstanceID, l.Target} }

// Lanes is a list of them as statements take it.
type Lanes struct{ rows db.ReleaseLanesParams }

// Add adds a lane.
func (l *Lanes) Add(lane Lane) { l.rows.Add(db.ReleaseLanesEntry(lane)) }

// Release makes the oldest due that is to be got in lanes of which nothing is.
func (l *Lanes) Release(ctx context.Context, tx db.DBTX, now time.Time) error {
	if len(l.rows.Targets) == 0 {
		return nil
	}
	l.rows.Now = now
	return db.New().ReleaseLanes(ctx, tx, l.rows)
}

// Sweep is the task of deleting deliveries that ended and were kept for long enough.
func Sweep(s *store.DB, now func() time.Time, limits Limits) background.Task {
	kept := limits.OrDefault().Retention
	return background.Sweeping("deliveries", now, func(ctx context.Context, now time.Time, batch int32) (int64, error) {
		return db.New().SweepDeliveries(ctx, s.Pool, db.SweepDeliveriesParams{Before: now.Add(-kept), Batch: batch})
	})
}
