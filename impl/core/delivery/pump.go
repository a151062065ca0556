package delivery

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/webhook"
)

// pump delivers what is due in the queue of one target while this node has it.
//
// How many calls of it run at once grows with each success and halves with each failure:
// an endpoint that hangs holds few places of the node. After some failures in a row the
// circuit is open: the queue rests, and then one delivery tries whether the endpoint
// answers again.
type pump struct {
	w        *Worker
	key      Key
	lease    string
	version  int64 // of the queue, before it was last read
	failures int
	width    int
	flying   map[string]bool // what was read and is not noted
	dry      bool            // the last time there was less to read than asked for
	gone     bool            // so is the target
	rest     time.Time       // until when the target asked to be left alone
	tried    bool

	calls  context.Context // of what is under way
	cancel context.CancelFunc
	done   chan *result
	poked  chan struct{}
	seen   atomic.Int64 // version, for others
	waits  atomic.Bool  // whether it wants to be poked

	stopOnce, lostOnce sync.Once
	stopped, isLost    chan struct{}
	ended              chan struct{}
}

const (
	firstWidth, maxWidth = 4, 64
	// circuitAfter failures in a row the queue rests, ever longer.
	circuitAfter             = 5
	firstRest, longestRest   = 5 * time.Second, 5 * time.Minute
	longestAsked             = time.Hour // that a target may ask for all of its deliveries
	firstPause, longestPause = 5 * time.Second, 4 * time.Hour
)

func newPump(w *Worker, key Key, lease string, version int64, failures int) *pump {
	p := &pump{
		w: w, key: key, lease: lease, version: version, failures: failures, width: firstWidth, flying: map[string]bool{},
		done: make(chan *result, maxWidth), poked: make(chan struct{}, 1),
		stopped: make(chan struct{}), isLost: make(chan struct{}), ended: make(chan struct{}),
	}
	if failures >= circuitAfter {
		p.width = 1
	}
	p.seen.Store(version)
	p.calls, p.cancel = context.WithCancel(context.Background())
	return p
}

// stop ends the pump when its calls are done, or cancels them after a while.
func (p *pump) stop() {
	p.stopOnce.Do(func() {
		close(p.stopped)
		time.AfterFunc(endLimit, p.cancel)
	})
}

// lost ends the pump at once: somebody else has the queue.
func (p *pump) lost() {
	p.lostOnce.Do(func() {
		close(p.isLost)
		p.cancel()
	})
}

func (p *pump) poke() {
	select {
	case p.poked <- struct{}{}:
	default:
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *pump) run() {
	defer p.cancel()
	for {
		if err := p.step(); err != nil {
			p.w.Logger.Warn("delivering events to a target", "instance", p.key.InstanceID, "target", p.key.Target, "err", store.Explain(err))
			p.cancel()
			for len(p.flying) > 0 {
				p.land(<-p.done)
			}
			return // the lease ends by itself, and a node takes it again
		}
		if len(p.flying) == 0 {
			if over, err := p.settle(); err != nil || over {
				if err != nil {
					p.w.Logger.Warn("giving a queue of deliveries back", "instance", p.key.InstanceID, "target", p.key.Target, "err", store.Explain(err))
				}
				return
			}
			continue
		}
		stopped, isLost := p.stopped, p.isLost
		if closed(stopped) {
			stopped = nil // known
		}
		if closed(isLost) {
			isLost = nil
		}
		select {
		case r := <-p.done:
			p.land(r)
			for more := true; more; {
				select {
				case r := <-p.done:
					p.land(r)
				default:
					more = false
				}
			}
			if len(p.flying) > 0 { // what ended may have made others due
				p.dry = false
			}
		case <-p.poked:
			ctx, done := p.w.statement(p.calls)
			if err := p.refresh(ctx); err == nil {
				p.dry = false
			}
			done()
		case <-stopped:
		case <-isLost:
		}
	}
}

// resting reports whether the target is to be left alone.
func (p *pump) resting() bool { return p.tried && p.failures >= circuitAfter || !p.rest.IsZero() }

// step reads what is due, if there is room for it, and begins to send it.
func (p *pump) step() error {
	room := p.width - len(p.flying)
	if p.dry || p.gone || p.resting() || room < max(1, p.width/2) || closed(p.stopped) || closed(p.isLost) {
		return nil
	}
	ctx, done := p.w.statement(p.calls)
	defer done()
	q := db.New()
	row, err := q.TargetsRead(ctx, p.w.DB.Pool, db.TargetsReadParams{InstanceID: p.key.InstanceID, ID: p.key.Target})
	if store.NoRow(err) {
		p.gone = true
		return nil
	}
	if err != nil {
		return err
	}
	target := p.w.Target(&row)
	flying := make([]string, 0, len(p.flying))
	for id := range p.flying {
		flying = append(flying, id)
	}
	room = p.w.reserve(room)
	p.waits.Store(true)
	ready, err := q.ReadyDeliveries(ctx, p.w.DB.Pool, db.ReadyDeliveriesParams{
		InstanceID: p.key.InstanceID, Target: p.key.Target, Now: p.w.Now(), Flying: flying, PageLimit: int32(room),
	})
	p.w.room.Add(int64(room - len(ready)))
	if err != nil {
		return err
	}
	p.dry = len(ready) < room
	p.waits.Store(p.dry)
	for i := range ready {
		p.flying[ready[i].ID] = true
		go p.attempt(target, &ready[i])
	}
	return nil
}

// statement returns the context of statements of a pump, of which few run at a time.
func (w *Worker) statement(ctx context.Context) (limited context.Context, done func()) {
	w.queries <- struct{}{}
	limited, cancel := context.WithTimeout(ctx, statementLimit)
	return limited, func() { cancel(); <-w.queries }
}

// reserve takes room in memory for so many deliveries, for one at least: so nobody waits,
// and there are as many too many as there are pumps at most.
func (w *Worker) reserve(n int) int {
	got := min(n, max(1, int(w.room.Load())))
	w.room.Add(-int64(got))
	return got
}

// land takes note of what was noted.
func (p *pump) land(r *result) {
	delete(p.flying, r.id)
	p.w.room.Add(1)
	switch {
	case !r.attempted:
	case r.state == delivered:
		p.failures, p.tried, p.width = 0, true, min(p.width+1, maxWidth)
	default:
		p.failures, p.tried, p.width = p.failures+1, true, max(p.width/2, 1)
		if r.rest > 0 {
			p.rest = p.w.Now().Add(min(r.rest, longestAsked))
		}
	}
}

// settle gives the queue back when there is nothing more to do, and reports whether that
// is so.
func (p *pump) settle() (over bool, err error) {
	switch {
	case closed(p.isLost):
		return true, nil
	case closed(p.stopped):
		return true, p.pause(p.w.Now())
	case p.gone:
		return p.end()
	case p.resting():
		until := p.w.Now()
		if p.failures >= circuitAfter {
			until = until.Add(background.Backoff(firstRest, longestRest, p.failures-circuitAfter+1))
		}
		if p.rest.After(until) {
			until = p.rest
		}
		return true, p.pause(until)
	case !p.dry:
		return false, nil
	}
	if p.release() {
		return true, nil
	}
	p.dry = false // something came
	ctx, done := p.w.statement(context.Background())
	defer done()
	return false, p.refresh(ctx)
}

// release has the queue given back together with others, and reports whether it was.
func (p *pump) release() bool {
	r := &result{pump: p, release: true}
	select {
	case p.w.results <- r:
		return (<-p.done).released
	case <-p.w.work.Done():
		return true // the lease ends by itself
	}
}

func (p *pump) pause(until time.Time) error {
	ctx, done := p.w.statement(context.Background())
	defer done()
	return db.New().PauseDeliveryQueue(ctx, p.w.DB.Pool, db.PauseDeliveryQueueParams{
		Failures: int32(p.failures), DueAt: until, InstanceID: p.key.InstanceID, Target: p.key.Target, Lease: p.lease,
	})
}

// refresh reads the version of the queue, before the queue is read again.
func (p *pump) refresh(ctx context.Context) error {
	version, err := db.New().HeldDeliveryQueue(ctx, p.w.DB.Pool, db.HeldDeliveryQueueParams{InstanceID: p.key.InstanceID, Target: p.key.Target, Lease: p.lease})
	if store.NoRow(err) {
		p.lost()
		return nil
	}
	if err != nil {
		return err
	}
	p.version = version
	p.seen.Store(version)
	return nil
}

// end ends what a target that is gone has still to get, and its queue.
func (p *pump) end() (over bool, err error) {
	ctx, done := p.w.statement(context.Background())
	defer done()
	q := db.New()
	for {
		ended, err := q.EndQueue(ctx, p.w.DB.Pool, db.EndQueueParams{
			Now: p.w.Now(), InstanceID: p.key.InstanceID, Target: p.key.Target, Lease: p.lease, Batch: 1000,
		})
		if err != nil {
			return true, err
		}
		if len(ended) == 0 {
			break
		}
		for _, row := range ended {
			if row.IsFollowed {
				p.w.followed.add(p.key.InstanceID, row.ID)
			}
		}
	}
	n, err := q.DeleteDeliveryQueue(ctx, p.w.DB.Pool, db.DeleteDeliveryQueueParams{
		InstanceID: p.key.InstanceID, Target: p.key.Target, Lease: p.lease, Version: p.version,
	})
	if err != nil || n > 0 {
		return true, err
	}
	return false, p.refresh(ctx)
}

// attempt sends a delivery, or gives it up unsent when it is too old.
func (p *pump) attempt(target *webhook.Target, row *db.ReadyDeliveriesRow) {
	w := p.w
	r := &result{
		pump: p, id: row.ID, number: row.AllAttempts + 1, followed: row.IsFollowed,
		lane: Lane{p.key.InstanceID, p.key.Target, row.ObjectType, row.ObjectID},
	}
	if r.date = w.Now(); !r.date.Before(row.QueuedDate.Add(w.limits.Age)) {
		r.state, r.reason = dead, tooOld
	} else {
		if w.gate.Enter(p.calls, p.key.InstanceID) != nil { // it ends
			p.done <- r
			return
		}
		r.date = w.Now()
		answer, err := w.Call(w.Telemetry.Continue(p.calls, row.Traceparent), target, &webhook.Message{ID: row.ID, Traceparent: webhook.Traceparent(row.Traceparent), Body: []byte(row.Body)})
		w.gate.Leave(p.key.InstanceID)
		if err != nil && p.calls.Err() != nil { // it was broken off, and says nothing of the target
			p.done <- r
			return
		}
		r.attempted = true
		r.judge(answer, err, int(row.Attempts)+1, row.QueuedDate, w.limits)
		w.Telemetry.Delivery(w.work, r.outcome())
	}
	select {
	case w.results <- r:
	case <-w.work.Done():
		p.done <- r
	}
}
