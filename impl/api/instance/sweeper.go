package instance

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/store"
)

// SweepEvents deletes events that are older than their instances keep them at a time:
// of each instance a batch at most. It returns how many that were of the one that had
// most.
func SweepEvents(ctx context.Context, s *store.DB, now time.Time, batch int32) (int64, error) {
	queries := db.New()
	instances, err := queries.InstancesWithRetention(ctx, s.Pool)
	if err != nil {
		return 0, err
	}
	most := int64(0)
	for _, instance := range instances {
		before := now.Add(-time.Duration(instance.AuditLogRetentionNanos))
		n, err := queries.SweepEvents(ctx, s.Pool, db.SweepEventsParams{InstanceID: instance.ID, Before: before, Batch: batch})
		if err != nil {
			return most, err
		}
		most = max(most, n)
	}
	return most, nil
}
