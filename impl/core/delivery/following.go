package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/store"
)

// Of an event the deliveries to targets behind one that interrupts the execution follow the one
// to that target, each the nearest: they are held, with next_attempt NULL, until it is
// delivered, and end when it is given up. A delivery waits only for such as have a lower
// position, in its lane or before it in its execution, so that none waits for itself.
//
// Many can follow one, so the transaction that notes results does not touch them: it would keep
// the results of all tenants. They are let go one head at a time, by turns of the
// instances, and what a node that died had still to do Follow finds.

// followed is the heads that ended, by instance, those first whose turn it is.
type followed struct {
	mu    sync.Mutex
	heads map[string][]string
	turns []string
	n     int
	some  chan struct{}
}

// maxFollowed bounds them; Follow finds the others.
const maxFollowed = 10_000

func newFollowed() *followed {
	return &followed{heads: map[string][]string{}, some: make(chan struct{}, 1)}
}

func (f *followed) add(instanceID, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == maxFollowed {
		return
	}
	f.n++
	if len(f.heads[instanceID]) == 0 {
		f.turns = append(f.turns, instanceID)
	}
	f.heads[instanceID] = append(f.heads[instanceID], id)
	select {
	case f.some <- struct{}{}:
	default:
	}
}

func (f *followed) take() (instanceID, id string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		return "", "", false
	}
	f.n--
	instanceID, f.turns = f.turns[0], f.turns[1:]
	ids := f.heads[instanceID]
	id, ids = ids[0], ids[1:]
	if len(ids) == 0 {
		delete(f.heads, instanceID)
	} else {
		f.heads[instanceID], f.turns = ids, append(f.turns, instanceID)
	}
	return instanceID, id, true
}

// follow ends what follows heads that ended, until ctx does.
func (w *Worker) follow(ctx context.Context) {
	for {
		instanceID, id, ok := w.followed.take()
		if !ok {
			select {
			case <-w.followed.some:
				continue
			case <-ctx.Done():
				return
			}
		}
		limited, done := w.statement(ctx)
		err := endFollowing(limited, w.DB, w.Now(), instanceID, id)
		done()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.Logger.WarnContext(ctx, "letting deliveries go that followed one; it is tried again within minutes", "instance", instanceID, "delivery", id, "err", store.Explain(err))
		}
	}
}

// endFollowing lets what follows a delivery go, or gives it up, as the delivery ended.
func endFollowing(ctx context.Context, s *store.DB, now time.Time, instanceID, id string) error {
	q := db.New()
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		var before db.FollowingQueuesParams
		before.Add(db.FollowingQueuesEntry{InstanceID: instanceID, ID: id})
		queues, err := q.FollowingQueues(ctx, tx, before)
		if err != nil {
			return err
		}
		keys := map[Key]bool{}
		for _, row := range queues {
			keys[Key{row.InstanceID, row.Target}] = true
		}
		if _, err := lockQueues(ctx, tx, keys); err != nil {
			return err
		}
		over := db.EndFollowingParams{Now: now}
		over.Add(db.EndFollowingEntry{InstanceID: instanceID, ID: id})
		rows, err := q.EndFollowing(ctx, tx, over)
		if err != nil || len(rows) == 0 {
			return err
		}
		var lanes Lanes
		clear(keys)
		for _, row := range rows {
			lane := Lane{row.InstanceID, row.Target, row.ObjectType, row.ObjectID}
			keys[lane.key()] = true
			lanes.Add(lane)
		}
		if err := lanes.Release(ctx, tx, now); err != nil {
			return err
		}
		if err := AddToQueues(ctx, tx, now, keys); err != nil {
			return err
		}
		return q.NotifyDeliveries(ctx, tx)
	})
}

// lockQueues locks queues, in the order in which everybody does, and returns by which lease each
// is held.
func lockQueues(ctx context.Context, tx db.DBTX, keys map[Key]bool) (map[Key]string, error) {
	var p db.LockDeliveryQueuesParams
	for _, key := range sorted(keys) {
		p.Add(db.LockDeliveryQueuesEntry{InstanceID: key.InstanceID, Target: key.Target})
	}
	rows, err := db.New().LockDeliveryQueues(ctx, tx, p)
	leases := make(map[Key]string, len(rows))
	for _, row := range rows {
		leases[Key{row.InstanceID, row.Target}] = row.LeasedBy
	}
	return leases, err
}

const (
	// followEvery is how late it is seen that something held has nothing to wait for, while
	// no more is held than heldPages pages of heldPage rows.
	followEvery         = time.Minute
	heldPages, heldPage = 10, 1000
)

// Follow is the task of finding what is held though what it follows ended: a node died
// between the two, or is one of the release before. It goes on where it was the last time.
func Follow(s *store.DB, now func() time.Time) background.Task {
	var after db.HeldDeliveriesParams
	return background.Task{Name: "letting deliveries go that wait for nothing", Every: followEvery, Alone: true, Do: func(ctx context.Context) (bool, error) {
		for range heldPages {
			after.Batch = heldPage
			rows, err := db.New().HeldDeliveries(ctx, s.Pool, after)
			if err != nil {
				return false, err
			}
			seen := map[string]bool{}
			for _, row := range rows {
				if row.Waits || seen[row.Follows] {
					continue
				}
				seen[row.Follows] = true
				if err := endFollowing(ctx, s, now(), row.InstanceID, row.Follows); err != nil {
					return false, err
				}
			}
			if len(rows) < heldPage {
				after = db.HeldDeliveriesParams{}
				return false, nil
			}
			last := rows[len(rows)-1]
			after.AfterInstanceID, after.AfterID = last.InstanceID, last.ID
		}
		return false, nil
	}}
}
