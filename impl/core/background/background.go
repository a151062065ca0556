// Package background runs what a node does unasked: sweeping, tending keys, sending
// messages. What all of it needs is here: pauses that differ between nodes, one node
// at a time where several would be in each other's way, failures told once and tried
// again ever later, and an orderly end.
package background

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/writ-id/writ/impl/core/store"
)

// Task is done again and again.
type Task struct {
	// Name says what is done, for the log and for the lock of one that is done alone.
	Name string
	// Every is the pause after there was nothing more to do, give or take a tenth.
	Every time.Duration
	// Alone is set for what one node does at a time; the others leave it out.
	Alone bool
	// Wake, if not nil, makes it run without delay.
	Wake Wake
	// Do does a part, and reports whether there may be more at once. A part is short:
	// the node ends after it.
	Do func(context.Context) (more bool, err error)
}

// Wake makes a task run without delay. It belongs to whoever has the task, and may be used
// before that is scheduled; a nil Wake wakes nobody.
type Wake chan struct{}

// NewWake returns a Wake for one task.
func NewWake() Wake { return make(Wake, 1) }

// Now makes the task run.
func (w Wake) Now() {
	select {
	case w <- struct{}{}:
	default: // it is about to run anyway
	}
}

// Scheduler runs tasks. It is safe for concurrent use once it runs.
type Scheduler struct {
	DB     *store.DB // for tasks that are done alone
	Logger *slog.Logger
	// Moved, if not nil, returns a channel that is closed when the clock is moved: then
	// everything may be due.
	Moved func() <-chan struct{}

	tasks []*Task
	// leading lets a node hold one lock at a time, and so one connection for them.
	leading sync.Mutex
}

const (
	// longestPause is how late what failed is tried again, at most, unless it is not
	// done more often anyway.
	longestPause = 5 * time.Minute
	// endLimit is how long parts that are under way may take when the node ends.
	endLimit = 5 * time.Second
)

// Add adds a task before Run.
func (s *Scheduler) Add(t Task) { s.tasks = append(s.tasks, &t) }

// Run runs the tasks until ctx ends and the parts under way are done.
func (s *Scheduler) Run(ctx context.Context) {
	parts, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endLimit, cancel) })
	defer stop()
	var all sync.WaitGroup
	for _, t := range s.tasks {
		all.Go(func() { s.run(ctx, parts, t) })
	}
	all.Wait()
}

func (s *Scheduler) run(ctx, parts context.Context, t *Task) {
	for failures := 0; ctx.Err() == nil; {
		var moved <-chan struct{}
		if s.Moved != nil { // before the part reads the clock
			moved = s.Moved()
		}
		more, err := s.part(parts, t)
		if err != nil {
			if failures++; failures&(failures-1) == 0 { // an outage is told a few times
				s.Logger.WarnContext(parts, t.Name+" fails", "failures", failures, "err", store.Explain(err))
			}
		} else {
			if failures > 0 {
				s.Logger.InfoContext(parts, t.Name+" works again", "failures", failures)
			}
			if failures = 0; more {
				continue
			}
		}
		timer := time.NewTimer(pause(t.Every, failures))
		select {
		case <-timer.C:
		case <-t.Wake:
		case <-moved:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// part does a part of a task.
func (s *Scheduler) part(ctx context.Context, t *Task) (more bool, err error) {
	if !t.Alone {
		return t.Do(ctx)
	}
	s.leading.Lock()
	defer s.leading.Unlock()
	_, err = s.DB.Lead(ctx, t.Name, func(ctx context.Context) error {
		more, err = t.Do(ctx)
		return err
	})
	return more, err
}

// pause returns how long to wait: twice as long after each failure, and not the same
// on every node.
func pause(every time.Duration, failures int) time.Duration {
	wait := every
	for range failures {
		wait = min(2*wait, max(every, longestPause))
	}
	return wait + time.Duration((rand.Float64()-0.5)/5*float64(wait))
}

// Backoff returns how long to wait after so many failures in a row, from 1: twice as long
// each time, give or take a fifth, so that what failed together is not tried together.
func Backoff(first, longest time.Duration, failures int) time.Duration {
	wait := first
	for i := 1; i < failures && wait < longest; i++ {
		wait *= 2
	}
	wait = min(wait, longest)
	return wait + time.Duration((rand.Float64()-0.5)/2.5*float64(wait))
}

// Sweeping is the task of deleting in batches what was over before now. sweep deletes
// a batch at most and returns how many rows that were, of the table that had most.
func Sweeping(what string, now func() time.Time, sweep func(ctx context.Context, before time.Time, batch int32) (int64, error)) Task {
	const batch = 5000 // rows of one transaction, so that none is long
	return Task{Name: "sweeping " + what, Every: time.Minute, Alone: true, Do: func(ctx context.Context) (bool, error) {
		n, err := sweep(ctx, now(), batch)
		return n >= batch, err
	}}
}
