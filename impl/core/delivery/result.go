package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/webhook"
)

// States and reasons, as they are stored.
const (
	delivered = int16(actionv3.DeliveryState_DELIVERY_STATE_DELIVERED)
	failed    = int16(actionv3.DeliveryState_DELIVERY_STATE_FAILED)
	dead      = int16(actionv3.DeliveryState_DELIVERY_STATE_DEAD)

	tooOften = int16(actionv3.DeadReason_DEAD_REASON_ATTEMPTS)
	tooOld   = int16(actionv3.DeadReason_DEAD_REASON_AGE)
	unwanted = int16(actionv3.DeadReason_DEAD_REASON_GONE)
)

// result is what came of a delivery; or, with release, that a pump is done with its queue.
type result struct {
	release, released bool

	pump          *pump
	id            string
	lane          Lane
	followed      bool // whether others wait for what comes of it
	state, reason int16
	next          time.Time     // of another attempt
	rest          time.Duration // that the target wants from all

	attempted     bool
	number        int32
	date          time.Time
	took          time.Duration
	status        int
	answer, error string
	headers       string // JSON
}

const (
	// maxAnswer is how much of an answer is kept, maxError of an error.
	maxAnswer, maxError = 4 << 10, 500
	// maxRecorded bounds one transaction.
	maxRecorded = 256
	// statementLimit is how long one may take.
	statementLimit = 20 * time.Second
)

// judge says what comes of an answer to an attempt, the how-manieth since the delivery
// was queued.
func (r *result) judge(answer *webhook.Answer, err error, attempt int, queued time.Time, limits Limits) {
	r.took, r.status, r.headers = answer.Took, answer.Status, headersOf(answer.Sent)
	r.answer = Storable(string(answer.Body[:min(len(answer.Body), maxAnswer)]), maxAnswer)
	switch {
	case err != nil:
		r.error = Storable(err.Error(), maxError)
	case answer.Status >= 200 && answer.Status <= 299:
		r.state = delivered
		return
	case answer.Status == http.StatusGone:
		r.state, r.reason, r.error = dead, unwanted, "the target wants no more of this: 410 Gone"
		return
	default:
		r.error = fmt.Sprintf("the answer has the status %d", answer.Status)
		if answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable {
			r.rest = answer.RetryAfter
		}
	}
	r.next = r.date.Add(max(background.Backoff(firstPause, longestPause, attempt), min(answer.RetryAfter, longestPause)))
	switch {
	case attempt >= limits.Attempts:
		r.state, r.reason = dead, tooOften
	case !r.next.Before(queued.Add(limits.Age)):
		r.state, r.reason = dead, tooOld
	default:
		r.state = failed
	}
}

// outcome is the name of what came of an attempt, for metrics.
func (r *result) outcome() string {
	switch r.state {
	case delivered:
		return "success"
	case dead:
		return "dead"
	}
	return "retry"
}

// headersOf returns headers as a JSON object of texts.
func headersOf(sent http.Header) string {
	flat := make(map[string]string, len(sent))
	for name, values := range sent {
		flat[name] = Storable(strings.Join(values, ", "), maxAnswer)
	}
	text, _ := json.Marshal(flat) // texts
	return string(text)
}

// Storable is what of a text the database can keep: UTF-8 without NUL, not too long.
func Storable(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// record notes what came of calls, all that wait in one transaction, until ctx ends.
func (w *Worker) record(ctx context.Context) {
	batch := make([]*result, 0, maxRecorded)
	for {
		select {
		case r := <-w.results:
			batch = append(batch[:0], r)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < maxRecorded; {
			select {
			case r := <-w.results:
				batch = append(batch, r)
			default:
				more = false
			}
		}
		w.recordAll(ctx, batch)
		for _, r := range batch {
			r.pump.done <- r
		}
	}
}

// recordAll writes a batch, again and again until the database takes it: what was
// delivered is not sent again because of an outage. What others have by then is theirs.
func (w *Worker) recordAll(ctx context.Context, batch []*result) {
	for failures := 1; ; failures++ {
		err := w.write(ctx, batch)
		if err == nil {
			for _, r := range batch {
				if r.followed && !r.release && r.state != failed {
					w.followed.add(r.lane.InstanceID, r.id)
				}
			}
			return
		}
		if failures&(failures-1) == 0 {
			w.Logger.WarnContext(ctx, "noting deliveries", "failures", failures, "err", store.Explain(err))
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(min(failures, 20))) * int64(50*time.Millisecond))):
		case <-ctx.Done():
			return
		}
	}
}

func (w *Worker) write(ctx context.Context, batch []*result) error {
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	keys := map[Key]bool{}
	for _, r := range batch {
		keys[r.pump.key] = true
	}
	return pgx.BeginFunc(ctx, w.DB.Pool, func(tx pgx.Tx) error {
		q := db.New()
		leases, err := lockQueues(ctx, tx, keys)
		if err != nil {
			return err
		}
		var ours []*result
		release := db.ReleaseDeliveryQueuesParams{Now: w.Now()}
		done := map[Key]*result{}
		for _, r := range batch {
			r.released = false // of a try before
			switch p := r.pump; {
			case leases[p.key] != p.lease:
				r.released = r.release // somebody else has it
			case r.release:
				done[p.key] = r
				release.Add(db.ReleaseDeliveryQueuesEntry{InstanceID: p.key.InstanceID, Target: p.key.Target, Lease: p.lease, Version: p.version, Failure: int32(p.failures)})
			default:
				ours = append(ours, r)
			}
		}
		if err := note(ctx, tx, w.Now(), ours); err != nil || len(done) == 0 {
			return err
		}
		released, err := q.ReleaseDeliveryQueues(ctx, tx, release)
		for _, row := range released {
			done[Key{row.InstanceID, row.Target}].released = true
		}
		return err
	})
}

// note writes results whose queues are locked.
func note(ctx context.Context, tx pgx.Tx, now time.Time, results []*result) error {
	if len(results) == 0 {
		return nil
	}
	ended := db.EndAttemptsParams{Now: now}
	ended.Grow(len(results))
	var made db.AddDeliveryAttemptsParams
	var lanes Lanes
	for _, r := range results {
		attempts := int32(0)
		if r.attempted {
			attempts = 1
			made.Add(db.AddDeliveryAttemptsEntry{
				InstanceID: r.lane.InstanceID, Delivery: r.id, Number: r.number, Date: r.date, Took: int64(r.took), Status: int32(r.status),
				Answer: r.answer, Error: r.error, Header: r.headers,
			})
		}
		ended.Add(db.EndAttemptsEntry{InstanceID: r.lane.InstanceID, ID: r.id, State: r.state, DeadReason: r.reason, Attempt: attempts, NextAttempt: r.next})
		if r.state != failed {
			lanes.Add(r.lane)
		}
	}
	q := db.New()
	if len(made.Deliveries) > 0 {
		if err := q.AddDeliveryAttempts(ctx, tx, made); err != nil {
			return err
		}
	}
	if err := q.EndAttempts(ctx, tx, ended); err != nil {
		return err
	}
	return lanes.Release(ctx, tx, now)
}
