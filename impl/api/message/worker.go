package message

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/writ-id/writ/gen/db"
	messagev3 "github.com/writ-id/writ/gen/proto/writ/message/v3alpha"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/courier"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/store"
)

// Worker delivers queued messages. Nodes may run one each: none takes what another one has.
// A provider that is slow holds places of its organization's share, and nobody else's.
type Worker struct {
	DB     *store.DB
	Now    func() time.Time
	Logger *slog.Logger
	Sender Sender
	// Keep keeps the text of messages that were sent, with their codes; for
	// development only.
	Keep bool
	// Wake is that of the task; nil where nobody runs it.
	Wake background.Wake

	mu     sync.Mutex
	flying map[owner]int // messages under way, by instance and by organization
	n      int
	hungry bool // whether there may be more that had no place
	all    sync.WaitGroup
}

const (
	// pollEvery is how long a message waits whose notification was lost, and by how
	// much a further attempt may be late.
	pollEvery = 5 * time.Second
	// places is how many messages a node sends at a time; no instance has more than three
	// quarters of them, no organization more than half. A batch is taken at once.
	places, ofInstance, ofOrg, batch = 32, 24, 16, 8

	sendTimeout = 20 * time.Second
	// lease is after when another worker takes over a message that is not done with.
	lease = sendTimeout + time.Minute
	// attemptsLimit and the pauses between attempts give up after about a day.
	attemptsLimit = 12
	firstPause    = 30 * time.Second
	longestPause  = 4 * time.Hour
	// endLimit is how long sending may take when the node ends.
	endLimit   = 5 * time.Second
	errorLimit = 500
	// noteLimit is how long noting what came of it may.
	noteLimit = 10 * time.Second
)

// Task is to deliver what is due.
func (w *Worker) Task() background.Task {
	return background.Task{Name: "delivering messages", Every: pollEvery, Wake: w.Wake, Do: func(ctx context.Context) (bool, error) {
		n, err := w.Take(ctx)
		return n == batch, err
	}}
}

// Wait waits until what is under way is done, or cancelled after a while.
func (w *Worker) Wait() { w.all.Wait() }

// Deliver takes messages that are due, tries to send them and waits for what comes of it. It
// returns how many it took.
func (w *Worker) Deliver(ctx context.Context) (int, error) {
	n, err := w.Take(ctx)
	w.Wait()
	return n, err
}

// Take takes messages that are due, as many as there are places for, and begins to send
// them. It returns how many it took.
func (w *Worker) Take(ctx context.Context) (int, error) {
	limit, instances, orgs := w.room()
	if limit == 0 {
		return 0, nil
	}
	now := w.Now()
	taken, err := db.New().TakeMessages(ctx, w.DB.Pool, db.TakeMessagesParams{
		Now: now, LeaseEnd: now.Add(lease), FullInstances: instances, FullOrgs: orgs, PageLimit: int32(limit),
	})
	if err != nil {
		return 0, err
	}
	// What the node ends amidst, it lets go on for a moment.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endLimit, cancel) })
	var these sync.WaitGroup
	for i := range taken {
		row := &taken[i]
		w.begin(row, 1)
		these.Add(1)
		w.all.Go(func() {
			defer these.Done()
			w.deliver(sending, row)
			w.begin(row, -1)
		})
	}
	w.all.Go(func() { these.Wait(); stop(); cancel() })
	return len(taken), nil
}

// room returns how many messages may be taken, and who has their share.
func (w *Worker) room() (limit int, instances, orgs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	instances, orgs = []string{}, []string{}
	for of, n := range w.flying {
		switch {
		case of.org != "" && n > ofOrg-batch:
			orgs = append(orgs, of.instance+"/"+of.org)
		case of.org == "" && n > ofInstance-batch:
			instances = append(instances, of.instance)
		}
	}
	limit = min(places-w.n, batch)
	w.hungry = limit < batch || len(instances)+len(orgs) > 0
	return limit, instances, orgs
}

// owner is an instance, or an organization in it.
type owner struct{ instance, org string }

// begin counts a message that is under way, or with -1 is not any more.
func (w *Worker) begin(row *db.Message, by int) {
	w.mu.Lock()
	if w.flying == nil {
		w.flying = map[owner]int{}
	}
	for _, of := range []owner{{row.InstanceID, ""}, {row.InstanceID, row.OrgID}} {
		if w.flying[of] += by; w.flying[of] == 0 {
			delete(w.flying, of)
		}
	}
	w.n += by
	wake := by < 0 && w.hungry
	if wake {
		w.hungry = false
	}
	w.mu.Unlock()
	if wake {
		w.Wake.Now()
	}
}

// deliver tries to send a message, and notes what came of it.
func (w *Worker) deliver(ctx context.Context, row *db.Message) {
	end := db.EndMessageAttemptParams{
		InstanceID: row.InstanceID, ID: row.ID, Attempts: row.Attempts, Number: row.AllAttempts, Date: w.Now(), NextAttempt: row.NextAttempt,
		State: messagev3.MessageState_MESSAGE_STATE_PENDING,
	}
	if row.ExpirationDate != nil && !end.Date.Before(*row.ExpirationDate) {
		end.State, end.DeadReason, end.Blank = messagev3.MessageState_MESSAGE_STATE_DEAD, messagev3.MessageDeadReason_MESSAGE_DEAD_REASON_EXPIRED, !w.Keep
		w.note(ctx, row, &end)
		return
	}
	m, err := outgoing(row)
	begin := time.Now()
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, sendTimeout)
		end.Provider, err = w.Sender.Send(limited, m)
		cancel()
		if err != nil && ctx.Err() != nil { // it was broken off, and says nothing of the provider
			return
		}
	}
	end.Attempted, end.TookNanos, end.Now = true, int64(time.Since(begin)), w.Now()
	if err == nil {
		end.State, end.IsSent, end.Blank = messagev3.MessageState_MESSAGE_STATE_SENT, true, !w.Keep
		w.note(ctx, row, &end)
		return
	}
	problem, said := errors.AsType[*courier.Problem](err)
	if !said { // it may have addresses in it, which are for the log
		problem = &courier.Problem{What: "the message could not be handed over"}
	}
	end.Error, end.Status = delivery.Storable(problem.Error(), errorLimit), int32(problem.Code)
	pause := background.Backoff(firstPause, longestPause, int(row.Attempts))
	end.NextAttempt = end.Now.Add(max(pause, min(problem.RetryAfter, longestPause)))
	switch {
	case problem.Final:
		end.DeadReason = messagev3.MessageDeadReason_MESSAGE_DEAD_REASON_REFUSED
	case row.Attempts >= attemptsLimit:
		end.DeadReason = messagev3.MessageDeadReason_MESSAGE_DEAD_REASON_ATTEMPTS
	case row.ExpirationDate != nil && !end.NextAttempt.Before(*row.ExpirationDate):
		end.DeadReason, end.Blank = messagev3.MessageDeadReason_MESSAGE_DEAD_REASON_EXPIRED, !w.Keep
	}
	if end.DeadReason != messagev3.MessageDeadReason_MESSAGE_DEAD_REASON_UNSPECIFIED {
		end.State = messagev3.MessageState_MESSAGE_STATE_DEAD
	}
	w.Logger.WarnContext(ctx, "a message was not sent", "message", row.ID, "instance", row.InstanceID, "provider", end.Provider,
		"attempt", row.Attempts, "given_up", end.DeadReason != 0, "err", err)
	w.note(ctx, row, &end)
}

// note notes what came of a message, also when the node ends meanwhile. What is not noted
// is tried again after the lease.
func (w *Worker) note(ctx context.Context, row *db.Message, end *db.EndMessageAttemptParams) {
	if end.Now.IsZero() {
		end.Now = end.Date
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	if err := db.New().EndMessageAttempt(ctx, w.DB.Pool, *end); err != nil {
		w.Logger.WarnContext(ctx, "noting what came of a message", "message", row.ID, "err", store.Explain(err))
	}
}

// Sweep is the task of deleting messages that were sent or given up and kept for long enough.
func Sweep(s *store.DB, now func() time.Time, kept time.Duration) background.Task {
	return background.Sweeping("messages", now, func(ctx context.Context, now time.Time, batch int32) (int64, error) {
		return db.New().SweepMessages(ctx, s.Pool, db.SweepMessagesParams{Before: now.Add(-kept), Batch: batch})
	})
}
