// Package batch does together what many requests ask the database for at the same time:
// in one statement, so in one round trip and, where something is written, one commit. What
// is asked while all lanes are busy goes with the next statement, so nobody waits who is
// alone, and the more there are the less each costs.
package batch

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Do answers questions of a batch, each at its place. It is all or nothing: with an error
// none of them was answered, and nothing was written.
type Do[Q, A any] func(ctx context.Context, questions []Q) (answers []A, err error)

// Batcher gathers questions. It is safe for concurrent use.
type Batcher[Q, A any] struct {
	do          Do[Q, A]
	lanes, most int

	mu      sync.Mutex
	busy    int       // lanes
	began   time.Time // the statement that is the newest
	waiting []*entry[Q, A]
}

type entry[Q, A any] struct {
	question Q
	done     chan answer[A]
}

type answer[A any] struct {
	value A
	err   error
}

const (
	size  = 256              // of a batch
	limit = 10 * time.Second // of a statement
)

// Writer returns a Batcher that has one statement under way at a time.
func Writer[Q, A any](do Do[Q, A]) *Batcher[Q, A] { return &Batcher[Q, A]{do: do, lanes: 1, most: 1} }

// A Reader has a lane for two cores, as its statements are short, and some more when they
// are not: nobody waits for long behind a connection that hangs.
const (
	patience   = 20 * time.Millisecond
	moreOfRead = 3
)

// Reader returns a Batcher for what changes nothing.
func Reader[Q, A any](do Do[Q, A]) *Batcher[Q, A] {
	lanes := max(1, runtime.GOMAXPROCS(0)/2)
	return &Batcher[Q, A]{do: do, lanes: lanes, most: lanes + moreOfRead}
}

// Ask returns the answer to a question. Who goes away before it is there changes nothing
// for the others, and a question that was asked is not taken back.
func (b *Batcher[Q, A]) Ask(ctx context.Context, question Q) (A, error) {
	e := &entry[Q, A]{question, make(chan answer[A], 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, e)
	if b.busy < b.lanes || b.busy < b.most && time.Since(b.began) > patience {
		b.busy++
		b.began = time.Now()
		go b.work()
	}
	b.mu.Unlock()
	select {
	case a := <-e.done:
		return a.value, a.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// work is a lane: it answers until nobody waits.
func (b *Batcher[Q, A]) work() {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), size)
		if n == 0 {
			b.busy--
			b.mu.Unlock()
			return
		}
		batch := b.waiting[:n:n]
		if b.waiting = b.waiting[n:]; len(b.waiting) == 0 {
			b.waiting = nil
		}
		b.began = time.Now()
		b.mu.Unlock()
		b.answer(batch)
	}
}

// answer does a batch. When PostgreSQL refuses it each question is asked alone, so that none
// fails for another one's sake. A connection that is lost is not tried again: whether
// anything was written is unknown, and what counts once would seem to be used (REL-012).
func (b *Batcher[Q, A]) answer(batch []*entry[Q, A]) {
	questions := make([]Q, len(batch))
	for i, e := range batch {
		questions[i] = e.question
	}
	answers, err := b.try(questions)
	_, refused := errors.AsType[*pgconn.PgError](err)
	for i, e := range batch {
		switch {
		case refused && len(batch) > 1:
			e.reply(b.try(questions[i : i+1]))
		case err != nil:
			e.reply(nil, err)
		default:
			e.reply(answers[i:i+1], nil)
		}
	}
}

func (e *entry[Q, A]) reply(answers []A, err error) {
	a := answer[A]{err: err}
	if err == nil {
		a.value = answers[0]
	}
	e.done <- a
}

func (b *Batcher[Q, A]) try(questions []Q) ([]A, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return b.do(ctx, questions)
}
