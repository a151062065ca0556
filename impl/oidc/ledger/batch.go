package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// batcher writes what many requests have to write in one statement and one commit:
// those that wait while a commit is under way go with the next one. The more at
// once, the less each costs. It is durable before add returns.
type batcher[T any] struct {
	queue chan *entry[T]
	write func(ctx context.Context, batch []T) error
}

type entry[T any] struct {
	value T
	done  chan error
}

const (
	batchSize  = 256
	batchLimit = 10 * time.Second // of a statement
)

func newBatcher[T any](write func(ctx context.Context, batch []T) error) *batcher[T] {
	return &batcher[T]{make(chan *entry[T], batchSize), write}
}

// add returns when the value is committed.
func (b *batcher[T]) add(ctx context.Context, value T) error {
	e := &entry[T]{value, make(chan error, 1)}
	select {
	case b.queue <- e:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes until ctx ends.
func (b *batcher[T]) run(ctx context.Context) {
	batch := make([]*entry[T], 0, batchSize)
	for {
		select {
		case e := <-b.queue:
			batch = append(batch[:0], e)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < batchSize; {
			select {
			case e := <-b.queue:
				batch = append(batch, e)
			default:
				more = false
			}
		}
		b.flush(ctx, batch)
	}
}

// flush writes a batch. When PostgreSQL refuses it each is tried alone, so that none
// fails for another one's sake. A connection that is lost is not tried again: whether
// it was written is unknown, and what counts once would seem to be used (REL-012).
func (b *batcher[T]) flush(ctx context.Context, batch []*entry[T]) {
	write := func(values []T) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchLimit)
		defer cancel()
		return b.write(ctx, values)
	}
	values := make([]T, len(batch))
	for i, e := range batch {
		values[i] = e.value
	}
	err := write(values)
	_, refused := errors.AsType[*pgconn.PgError](err)
	for i, e := range batch {
		if refused && len(batch) > 1 {
			e.done <- write(values[i : i+1])
		} else {
			e.done <- err
		}
	}
}

// told returns write, which tells of its commits: there are events among them.
func told[T any](s *Ledger, write func(context.Context, []T) error) func(context.Context, []T) error {
	return func(ctx context.Context, batch []T) error {
		err := write(ctx, batch)
		if err == nil {
			s.DB.Committed()
		}
		return err
	}
}
