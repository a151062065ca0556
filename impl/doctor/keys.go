package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/server"
)

// late is how long after its time a rotation may be: nodes look every minute.
const late = time.Hour

// keys looks at the master key, and at the signing keys of all instances.
func (d *doctor) keys(ctx context.Context, at *store.DB) {
	d.master(ctx, at)
	queries := db.New()
	instances, err := queries.InstancesWithKeys(ctx, at.Pool)
	if d.failed("signing keys", err) {
		return
	}
	overdue, oldest, soonest := 0, time.Duration(0), time.Time{}
	for _, id := range instances {
		keys, err := queries.SigningKeys(ctx, at.Pool, id)
		if d.failed("signing keys", err) {
			return
		}
		for _, key := range keys {
			if key.State != db.KeyStateActive { // since its due date
				continue
			}
			due := signing.RotationDue(key.DueDate)
			oldest = max(oldest, d.Now().Sub(key.DueDate))
			if soonest.IsZero() || due.Before(soonest) {
				soonest = due
			}
			if d.Now().After(due.Add(late)) {
				overdue++
				if overdue == 1 {
					d.warn("signing keys", "nodes rotate keys by themselves: is one running? Else: writ keys rotate --instance "+id, "the key %s of the instance %s should have been replaced %s ago", key.ID, id, d.Now().Sub(due).Round(time.Hour))
				}
			}
		}
	}
	switch {
	case overdue > 1:
		d.warn("signing keys", "is a node running?", "%d instances have keys that should have been replaced", overdue)
	case overdue == 0 && len(instances) == 0:
		d.ok("signing keys", "none yet; they are made when they are first asked for")
	case overdue == 0:
		d.ok("signing keys", "of %d instances, the oldest has signed for %s; the next rotation is on %s", len(instances), oldest.Round(time.Hour), soonest.UTC().Format(time.DateOnly))
	}
}

// master opens what is sealed.
func (d *doctor) master(ctx context.Context, at *store.DB) {
	if d.Sealer == nil {
		d.warn("master key", "name it: --master-key-file", "none is given, so nothing was opened")
		return
	}
	if err := server.CheckMasterKey(ctx, at, d.Sealer); errors.Is(err, server.ErrForeignKey) {
		d.fail("master key", "a node with it does not start", "%v", err)
		return
	}
	opened := 0
	for _, one := range storage.Sealed {
		n, err := one.Open(ctx, at.Pool, d.Sealer)
		if err != nil {
			do := "the key is another than the one it was sealed by: give that of the other nodes"
			if errors.Is(err, secret.ErrNoKey) {
				do = "give --master-key-file"
			}
			d.fail("master key", do, "it does not open %s: %v", one.What, err)
			return
		}
		opened += n
	}
	if key, ok := d.Sealer.(*secret.MasterKey); ok {
		if n, switched := key.Keys(); n > 1 {
			d.warn("master key", "finish the exchange: writ keys rotate-master --help", "it opens %d samples; the file holds %d keys, the newest seals: %t", opened, n, switched)
			return
		}
	}
	d.ok("master key", "opens what is sealed (%d samples)", opened)
}
