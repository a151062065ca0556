package ledger

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// overdue does what could not be done while it was asked for, until each has succeeded.
// Instances take turns, and what fails goes behind the rest of its instance. It is bounded, and
// of an instance holds a quarter: when the database is away for long, each request that comes
// again finds out the same again.
type overdue struct {
	what   string // in the log
	most   int
	logger *slog.Logger
	added  chan struct{}

	mu      sync.Mutex
	jobs    map[jobID]func(context.Context) error
	waiting map[string][]jobID // of an instance, the next one first
	turns   []string           // instances for which something waits, the next one first
}

// jobID says what a job is about: one about the same takes its place.
type jobID struct {
	instanceID string
	Use
	by any // whoever asks for it, while they proved nothing: they take nobody's place
}

// Bounds of what waits. A doubt may keep credentials (client.Credentials.Kept).
const (
	maxRevocations = 10_000
	maxDoubts      = 2_000
	overduePause   = 500 * time.Millisecond
)

func newOverdue(what string, most int, logger *slog.Logger) *overdue {
	return &overdue{
		what: what, most: most, logger: logger, added: make(chan struct{}, 1),
		jobs: map[jobID]func(context.Context) error{}, waiting: map[string][]jobID{},
	}
}

// add never waits.
func (o *overdue) add(id jobID, do func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.jobs[id] == nil {
		if len(o.jobs) >= o.most || len(o.waiting[id.instanceID]) >= o.most/4 {
			o.logger.Error("too much is overdue; something is dropped", "what", o.what, "instance", id.instanceID)
			return
		}
		o.queue(id)
	}
	o.jobs[id] = do
	select {
	case o.added <- struct{}{}:
	default:
	}
}

func (o *overdue) queue(id jobID) {
	if o.waiting[id.instanceID] == nil {
		o.turns = append(o.turns, id.instanceID)
	}
	o.waiting[id.instanceID] = append(o.waiting[id.instanceID], id)
}

// next takes the job out whose turn it is; how many instances wait counts its own.
func (o *overdue) next() (id jobID, do func(context.Context) error, instances int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.turns) == 0 {
		return id, nil, 0
	}
	instances = len(o.turns)
	instanceID := o.turns[0]
	o.turns = o.turns[1:]
	mine := o.waiting[instanceID]
	if len(mine) == 1 {
		delete(o.waiting, instanceID)
	} else {
		o.waiting[instanceID] = mine[1:]
		o.turns = append(o.turns, instanceID)
	}
	id = mine[0]
	do = o.jobs[id]
	delete(o.jobs, id)
	return id, do, instances
}

// again puts a job back that failed, unless one about the same came meanwhile.
func (o *overdue) again(id jobID, do func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.jobs[id] == nil {
		o.queue(id)
		o.jobs[id] = do
	}
}

// run works until ctx ends. It pauses when as many failed in a row as instances wait.
func (o *overdue) run(ctx context.Context) {
	for failed, told := 0, false; ctx.Err() == nil; {
		id, do, instances := o.next()
		if do == nil {
			failed, told = 0, false
			select {
			case <-o.added:
			case <-ctx.Done():
			}
			continue
		}
		err := do(ctx)
		if err == nil {
			failed = 0
			continue
		}
		o.again(id, do)
		if !told && ctx.Err() == nil {
			o.logger.WarnContext(ctx, "something is overdue", "what", o.what, "instance", id.instanceID, "err", err)
			told = true
		}
		if failed++; failed < instances {
			continue
		}
		failed = 0
		select {
		case <-time.After(overduePause):
		case <-ctx.Done():
		}
	}
}
