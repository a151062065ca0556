package ledger

import (
	"context"
	"log/slog"
	"time"
)

// overdue does what could not be done while it was asked for, in order, until each has
// succeeded. It is bounded: when the database is away for long, each request that comes
// again finds out the same again.
type overdue struct {
	queue  chan func(context.Context) error
	logger *slog.Logger
}

const (
	maxOverdue   = 10_000
	overduePause = 500 * time.Millisecond
)

func newOverdue(logger *slog.Logger) *overdue {
	return &overdue{make(chan func(context.Context) error, maxOverdue), logger}
}

// add never waits.
func (o *overdue) add(do func(context.Context) error) {
	select {
	case o.queue <- do:
	default:
		o.logger.Error("too much is overdue; a revocation is dropped")
	}
}

// run works until ctx ends.
func (o *overdue) run(ctx context.Context) {
	for {
		select {
		case do := <-o.queue:
			for failed := false; ; failed = true {
				err := do(ctx)
				if err == nil || ctx.Err() != nil {
					break
				}
				if !failed {
					o.logger.WarnContext(ctx, "a revocation is overdue", "err", err)
				}
				select {
				case <-time.After(overduePause):
				case <-ctx.Done():
				}
			}
		case <-ctx.Done():
			return
		}
	}
}
