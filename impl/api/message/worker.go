package message

import (
	"context"
	"log/slog"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/store"
)

// Worker delivers queued messages. Nodes may run one each: none takes what
// another one has.
type Worker struct {
	DB     *store.DB
	Now    func() time.Time
	Logger *slog.Logger
	Sender Sender
	// Keep keeps the text of messages that were sent, with their codes; for
	// development only.
	Keep bool
}

const (
	// pollEvery is how long a message waits whose notification was lost, and by how
	// much a further attempt may be late.
	pollEvery   = 5 * time.Second
	batch       = 10
	sendTimeout = 20 * time.Second
	// lease is after when another worker takes over a message that is not done
	// with: longer than a batch may take.
	lease = batch*sendTimeout + time.Minute
	// attemptsLimit and the pauses between attempts give up after about a day.
	attemptsLimit = 12
	firstPause    = 30 * time.Second
	longestPause  = 4 * time.Hour
)

// Task is to deliver what is due.
func (w *Worker) Task() background.Task {
	return background.Task{Name: "delivering messages", Every: pollEvery, Do: func(ctx context.Context) (bool, error) {
		n, err := w.Deliver(ctx)
		return n == batch, err
	}}
}

// Deliver takes the messages that are due, at most a batch of them, and tries to
// send them. It returns how many it took.
func (w *Worker) Deliver(ctx context.Context) (int, error) {
	now := w.Now()
	taken, err := db.New().TakeMessages(ctx, w.DB.Pool, db.TakeMessagesParams{Now: now, LeaseEnd: now.Add(lease), PageLimit: batch})
	if err != nil {
		return 0, err
	}
	for i := range taken {
		if err := w.deliver(ctx, &taken[i]); err != nil {
			return len(taken), err
		}
	}
	return len(taken), nil
}

func (w *Worker) deliver(ctx context.Context, row *db.Message) error {
	m, err := outgoing(row)
	if err == nil {
		limit, cancel := context.WithTimeout(ctx, sendTimeout)
		err = w.Sender.Send(limit, m)
		cancel()
	}
	if err == nil {
		return db.New().MessageSent(ctx, w.DB.Pool, db.MessageSentParams{
			Now: w.Now(), Keep: w.Keep, InstanceID: row.InstanceID, ID: row.ID,
		})
	}
	dead := row.Attempts >= attemptsLimit
	w.Logger.WarnContext(ctx, "a message was not sent", "message", row.ID, "attempt", row.Attempts, "given_up", dead, "err", err)
	return db.New().MessageFailed(ctx, w.DB.Pool, db.MessageFailedParams{
		NextAttempt: w.Now().Add(background.Backoff(firstPause, longestPause, int(row.Attempts))), Dead: dead, Keep: w.Keep,
		InstanceID: row.InstanceID, ID: row.ID, Attempts: row.Attempts,
	})
}
