package delivery

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/telemetry"
	"github.com/writ-id/writ/impl/core/webhook"
)

// Worker delivers. Make it with NewWorker.
type Worker struct {
	Config

	limits  Limits
	gate    *admission.Gate // of calls
	room    atomic.Int64
	queries chan struct{} // places for the statements of pumps: calls need connections too
	results chan *result
	// followed is what ended and has others behind it.
	followed *followed
	work     context.Context // ends when nothing is noted any more
	stop     context.CancelFunc

	mu     sync.Mutex
	pumps  map[Key]*pump
	hungry bool // whether there may be more that had no place
	freed  int  // places since
	ending bool
	all    sync.WaitGroup // pumps
}

// Config holds what a Worker needs.
type Config struct {
	DB     *store.DB
	Now    func() time.Time
	NewID  func() string
	Logger *slog.Logger
	Limits Limits
	// Target makes a target of its row.
	Target func(*db.Target) *webhook.Target
	// Call calls it.
	Call func(context.Context, *webhook.Target, *webhook.Message) (*webhook.Answer, error)
	// Lease is how long the queues of a node that died wait for another one; 0 is
	// DefaultLease.
	Lease time.Duration
	// Wake is that of the task; nil where nobody runs it.
	Wake background.Wake
	// Telemetry hears of attempts; nil is nobody.
	Telemetry *telemetry.Telemetry
}

const (
	// DefaultLease is short, as leases are renewed, and longer than a database that does
	// not answer for a moment.
	DefaultLease = 15 * time.Second
	// maxPumps is how many queues a node has at a time, and maxCalls how many calls run;
	// no instance has more than three quarters of either (SEC-221).
	maxPumps, maxCalls = 1024, 256
	// maxRows bounds the deliveries in memory.
	maxRows = 1024
	// takeLimit bounds one transaction.
	takeLimit = 128
	// endLimit is how long calls may take when the node ends. What is not done then another
	// node does again.
	endLimit = 5 * time.Second
)

// NewWorker returns a Worker that delivers while it runs.
func NewWorker(c Config) *Worker {
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	w := &Worker{
		Config: c, limits: c.Limits.OrDefault(), gate: admission.New(maxCalls, maxRows+maxPumps), results: make(chan *result), followed: newFollowed(),
		queries: make(chan struct{}, max(1, c.DB.Pool.Config().MaxConns/4)), pumps: map[Key]*pump{},
	}
	w.room.Store(maxRows)
	w.work, w.stop = context.WithCancel(context.Background())
	return w
}

// Task is to take the queues that are due. Only its deliveries need Run.
func (w *Worker) Task() background.Task {
	return background.Task{Name: "delivering events", Every: pollEvery, Wake: w.Wake, Do: w.Take}
}

// Run notes what came of calls, and keeps the queues that the node has, until ctx ends and
// they are given back.
func (w *Worker) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { w.record(w.work) })
	all.Go(func() { w.renew(w.work) })
	all.Go(func() { w.follow(w.work) })
	<-ctx.Done()
	time.AfterFunc(2*endLimit, w.stop) // a database that does not answer keeps nobody
	w.mu.Lock()
	w.ending = true
	for _, p := range w.pumps {
		p.stop()
	}
	w.mu.Unlock()
	w.all.Wait()
	w.stop()
	all.Wait()
}

// Take takes queues that are due and starts to deliver what is due of them. It reports
// whether there may be more.
func (w *Worker) Take(ctx context.Context) (more bool, err error) {
	if err := w.poke(ctx); err != nil {
		return false, err
	}
	w.mu.Lock()
	free, full, ending := maxPumps-len(w.pumps), w.full(), w.ending
	limit := min(free, takeLimit)
	w.hungry, w.freed = limit <= 0 || len(full) > 0, 0
	w.mu.Unlock()
	if limit <= 0 || ending {
		return false, nil
	}
	taken, err := db.New().LeaseDeliveryQueues(ctx, w.DB.Pool, db.LeaseDeliveryQueuesParams{
		Lease: w.NewID(), Seconds: w.Lease.Seconds(), Now: w.Now(), FullInstances: full, PageLimit: int32(limit),
	})
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range taken {
		key := Key{row.InstanceID, row.Target}
		before := w.pumps[key]
		if before != nil { // this node lost it and got it again: its calls may still run
			before.lost()
		}
		p := newPump(w, key, *row.LeasedBy, row.Version, int(row.Failures))
		w.pumps[key] = p
		w.all.Go(func() {
			if before != nil {
				<-before.ended
			}
			p.run()
			w.ended(p)
		})
	}
	return len(taken) == limit, nil
}

// full returns the instances that have their share of the queues that a node has, and
// could have more than it with another transaction.
func (w *Worker) full() []string {
	count, full := map[string]int{}, []string{}
	for key := range w.pumps {
		if count[key.InstanceID]++; count[key.InstanceID] == maxPumps/4*3-takeLimit {
			full = append(full, key.InstanceID)
		}
	}
	return full
}

func (w *Worker) ended(p *pump) {
	w.mu.Lock()
	if w.pumps[p.key] == p {
		delete(w.pumps, p.key)
	}
	w.freed++
	wake := w.hungry && (w.freed >= takeLimit/2 || len(w.pumps) == 0)
	if wake {
		w.hungry = false
	}
	w.mu.Unlock()
	close(p.ended)
	if wake {
		w.Wake.Now()
	}
}

// poke tells pumps that wait for calls, though they could send more, what came meanwhile.
func (w *Worker) poke(ctx context.Context) error {
	var leases []string
	w.mu.Lock()
	for _, p := range w.pumps {
		if p.waits.Load() {
			leases = append(leases, p.lease)
		}
	}
	w.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	queues, err := db.New().HeldDeliveryQueues(ctx, w.DB.Pool, leases)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queues {
		if p := w.pumps[Key{q.InstanceID, q.Target}]; p != nil && p.lease == *q.LeasedBy && p.seen.Load() != q.Version {
			p.poke()
		}
	}
	return nil
}

// renew keeps the leases, and stops the pumps whose queues somebody else has by now.
func (w *Worker) renew(ctx context.Context) {
	ticker := time.NewTicker(w.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := w.renewAll(ctx); err != nil {
			w.Logger.WarnContext(ctx, "keeping queues of deliveries", "err", store.Explain(err))
		}
	}
}

func (w *Worker) renewAll(ctx context.Context) error {
	held := map[string]*pump{}
	w.mu.Lock()
	for _, p := range w.pumps {
		held[p.lease] = p
	}
	w.mu.Unlock()
	if len(held) == 0 {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, w.Lease/3)
	defer cancel()
	kept, err := db.New().RenewDeliveryLeases(limit, w.DB.Pool, db.RenewDeliveryLeasesParams{
		Seconds: w.Lease.Seconds(), Leases: slices.Collect(maps.Keys(held)),
	})
	if err != nil {
		return err
	}
	for _, lease := range kept {
		delete(held, *lease)
	}
	for _, p := range held {
		p.lost() // unless it has given it back itself
	}
	return nil
}
