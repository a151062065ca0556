package delivery

import (
	"context"
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

// Followed names deliveries that ended and that others follow.
type Followed struct{ instanceIDs, ids []string }

// Add adds a delivery.
func (f *Followed) Add(instanceID, id string) {
	f.instanceIDs, f.ids = append(f.instanceIDs, instanceID), append(f.ids, id)
}

// queues adds those of what follows to keys: they are locked together with the others.
func (f *Followed) queues(ctx context.Context, tx db.DBTX, keys map[Key]bool) error {
	if len(f.ids) == 0 {
		return nil
	}
	rows, err := db.New().FollowingQueues(ctx, tx, db.FollowingQueuesParams{InstanceIds: f.instanceIDs, Ids: f.ids})
	for _, row := range rows {
		keys[Key{row.InstanceID, row.Target}] = true
	}
	return err
}

// end lets what follows go, or gives it up, as what it follows ended. All queues are locked.
func (f *Followed) end(ctx context.Context, tx db.DBTX, now time.Time) error {
	if len(f.ids) == 0 {
		return nil
	}
	rows, err := db.New().EndFollowing(ctx, tx, db.EndFollowingParams{Now: now, InstanceIds: f.instanceIDs, Ids: f.ids})
	if err != nil || len(rows) == 0 {
		return err
	}
	var lanes Lanes
	keys := map[Key]bool{}
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
	return db.New().NotifyDeliveries(ctx, tx)
}

// End lets what follows go, or gives it up, in a transaction of its own.
func (f *Followed) End(ctx context.Context, s *store.DB, now time.Time) error {
	if len(f.ids) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := lockQueues(ctx, tx, map[Key]bool{}, f); err != nil {
			return err
		}
		return f.end(ctx, tx, now)
	})
}

// lockQueues locks queues and those of what follows some deliveries, and returns by which lease
// each is held.
func lockQueues(ctx context.Context, tx db.DBTX, keys map[Key]bool, followed *Followed) (map[Key]string, error) {
	if err := followed.queues(ctx, tx, keys); err != nil {
		return nil, err
	}
	var p db.LockDeliveryQueuesParams
	for _, key := range sorted(keys) {
		p.InstanceIds, p.Targets = append(p.InstanceIds, key.InstanceID), append(p.Targets, key.Target)
	}
	rows, err := db.New().LockDeliveryQueues(ctx, tx, p)
	leases := make(map[Key]string, len(rows))
	for _, row := range rows {
		leases[Key{row.InstanceID, row.Target}] = row.LeasedBy
	}
	return leases, err
}

const (
	// followEvery is how late it is seen that something held has nothing to wait for.
	followEvery = time.Minute
	followBatch = 1000
)

// Follow is the task of finding what is held though what it follows ended: a node died
// between the two, or is one of the release before.
func Follow(s *store.DB, now func() time.Time) background.Task {
	return background.Task{Name: "letting deliveries go that wait for nothing", Every: followEvery, Do: func(ctx context.Context) (bool, error) {
		rows, err := db.New().FollowingEnded(ctx, s.Pool, followBatch)
		if err != nil {
			return false, err
		}
		var followed Followed
		for _, row := range rows {
			followed.Add(row.InstanceID, row.ID)
		}
		return len(rows) == followBatch, followed.End(ctx, s, now())
	}}
}
