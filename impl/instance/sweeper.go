package instance

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/resource"
	"github.com/writ-id/writ/impl/store"
)

// Sweeper deletes the events that are older than their instances keep them.
type Sweeper struct {
	resource.Env
	Logger *slog.Logger
	// More sweeps what else is over by a time, in batches; it returns how many rows that
	// were.
	More func(ctx context.Context, before time.Time, batch int32) (int64, error)
	// Moved, if not nil, returns a channel that is closed when the clock is moved:
	// then there may be something to sweep at once.
	Moved func() <-chan struct{}
}

const (
	sweepInterval = time.Minute
	sweepBatch    = 5000 // rows of one transaction, so that none is long
)

// Run sweeps until ctx ends; of several nodes one does.
func (s *Sweeper) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	var moved <-chan struct{}
	for {
		if s.Moved != nil {
			moved = s.Moved()
		}
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "sweeping old events", "err", store.Explain(err))
		}
		select {
		case <-ticker.C:
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep deletes what is too old now and returns how many events that were.
func (s *Sweeper) Sweep(ctx context.Context) (int64, error) {
	queries := db.New()
	var swept int64
	if s.More != nil {
		for {
			n, err := s.More(ctx, s.Now(), sweepBatch)
			swept += n
			if err != nil {
				return swept, err
			}
			if n < sweepBatch {
				break
			}
		}
	}
	instances, err := queries.InstancesWithRetention(ctx, s.DB.Pool)
	if err != nil {
		return swept, err
	}
	for _, instance := range instances {
		before := s.Now().Add(-time.Duration(instance.AuditLogRetentionNanos))
		for {
			var n int64
			err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
				leads, err := queries.TryLeadSweep(ctx, tx)
				if err != nil || !leads {
					return err
				}
				n, err = queries.SweepEvents(ctx, tx, db.SweepEventsParams{InstanceID: instance.ID, Before: before, Batch: sweepBatch})
				return err
			})
			swept += n
			if err != nil {
				return swept, err
			}
			if n < sweepBatch {
				break
			}
		}
	}
	return swept, nil
}
