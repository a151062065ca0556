package delivery_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/delivery"
)

// interrupting has targets interrupt their executions.
func (w *world) interrupting(instanceID string, targets ...string) {
	w.Helper()
	w.exec("UPDATE targets SET interrupt_on_error = true, sequence = sequence + 1 WHERE instance_id = $1 AND id = ANY ($2)", instanceID, targets)
}

const changed = "event.user.human.password.changed"

// TestREL045_ATargetBehindOneThatInterruptsWaitsForIt has the first of three targets fail
// twice: the two behind it get nothing before it has got the event, in the order of each object.
func TestREL045_ATargetBehindOneThatInterruptsWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var works atomic.Bool
	gate := w.receive(func(string, int) (int, string) {
		if works.Load() {
			return http.StatusOK, ""
		}
		return http.StatusBadGateway, ""
	})
	second, third, before := w.receive(fine), w.receive(fine), w.receive(fine)
	w.instance("a", changed, "before", before.URL, "gate", gate.URL, "second", second.URL, "third", third.URL)
	w.interrupting("a", "gate")
	n := w.node()
	w.happens("a", "ada", "ada", "ben")
	w.until("the gate failed", func() bool {
		w.move(delivery.Defaults.Age / 100)
		return len(gate.requests()) >= 4
	}, n)
	if len(second.requests())+len(third.requests()) != 0 || len(before.requests()) != 3 {
		t.Fatalf("while the gate fails %d and %d came behind it, %d before it: %s", len(second.requests()), len(third.requests()), len(before.requests()), w.states())
	}
	works.Store(true)
	w.until("all is delivered", func() bool {
		w.move(delivery.Defaults.Age / 100)
		return w.states() == "before 2 0: 3, gate 2 0: 3, second 2 0: 3, third 2 0: 3"
	}, n)
	for name, r := range map[string]*receiver{"second": second, "third": third} {
		last := map[string]string{}
		for _, got := range r.requests() {
			if got.sequence <= last[got.object] {
				t.Errorf("%s: %s got %s after %s", name, got.object, got.sequence, last[got.object])
			}
			last[got.object] = got.sequence
		}
	}
	if n := w.count("SELECT count(*) FROM deliveries WHERE is_held OR next_attempt IS NOT NULL OR (follows IS NOT NULL) <> (target IN ('second', 'third'))"); n != 0 {
		t.Errorf("%d deliveries follow what they should not, or wait still", n)
	}
}

// TestREL045_AnExecutionThatIsInterruptedCallsNobodyElse gives deliveries up in each way; what
// comes behind them is not sent, whatever it follows, and holds up nothing that comes later.
func TestREL045_AnExecutionThatIsInterruptedCallsNobodyElse(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"too often": http.StatusTeapot, "gone": http.StatusGone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limits = delivery.Limits{Attempts: 2}
			gate := w.receive(func(object string, _ int) (int, string) {
				if object == "bad" {
					return status, ""
				}
				return http.StatusOK, ""
			})
			second, third := w.receive(fine), w.receive(fine)
			w.instance("a", changed, "gate", gate.URL, "second", second.URL, "third", third.URL)
			w.interrupting("a", "gate", "second") // the third follows the second
			w.execution("a", "event.user.*", "third", third.URL)
			n := w.node()
			w.happens("a", "bad", "good")
			w.until("the execution stopped", func() bool {
				w.move(delivery.Defaults.Age / 100)
				return w.count("SELECT count(*) FROM deliveries WHERE object_id = 'bad' AND state = 4") == 3 && w.count("SELECT count(*) FROM deliveries WHERE state IN (1, 3)") == 0
			}, n)
			if got := w.count("SELECT count(*) FROM deliveries WHERE object_id = 'bad' AND dead_reason = 5 AND attempts = 0 AND NOT is_held"); got != 2 {
				t.Errorf("%d of two say that they were interrupted: %s", got, w.states())
			}
			for name, r := range map[string]*receiver{"second": second, "third": third} {
				if got := r.requests(); len(got) != 1 || got[0].object != "good" {
					t.Errorf("the %s target got %+v", name, got)
				}
			}
		})
	}
}

// TestREL045_ATargetThatIsDeletedInterruptsWhatIsBehindIt deletes the gate while events wait.
func TestREL045_ATargetThatIsDeletedInterruptsWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := w.receive(func(string, int) (int, string) { return http.StatusBadGateway, "" })
	second := w.receive(fine)
	w.instance("a", changed, "gate", gate.URL, "second", second.URL)
	w.interrupting("a", "gate")
	n := w.node()
	w.happens("a", "ada", "ada", "ben")
	w.until("the gate failed", func() bool { return len(gate.requests()) > 0 }, n)
	w.exec("DELETE FROM execution_targets WHERE target_id = 'gate'")
	w.exec("DELETE FROM targets WHERE id = 'gate'")
	w.until("all is over", func() bool {
		w.move(delivery.Defaults.Age / 100)
		return w.states() == "gate 4 4: 3, second 4 5: 3"
	}, n)
	if got := second.requests(); len(got) != 0 {
		t.Errorf("the second target got %+v", got)
	}
}

// TestREL045_ExecutionsThatWaitForEachOtherEnd has two executions name the same targets in
// opposite orders, all of them interrupting and failing now and then, on two nodes.
func TestREL045_ExecutionsThatWaitForEachOtherEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limits = delivery.Limits{Attempts: 3}
	var calls [3]atomic.Int64
	targets := make([]string, 0, 6)
	for i := range calls {
		r := w.receive(func(string, int) (int, string) {
			if n := calls[i].Add(1); n%5 < 3 { // three in a row are the end
				return http.StatusInternalServerError, ""
			}
			return http.StatusOK, ""
		})
		targets = append(targets, fmt.Sprint("t", i), r.URL)
	}
	w.instance("a", changed, targets...)
	w.execution("a", "event.user.human.changed", targets[4], targets[5], targets[2], targets[3], targets[0], targets[1])
	w.interrupting("a", "t0", "t1", "t2")
	a, b := w.node(), w.node()
	const rounds = 20
	for i := range rounds {
		user := fmt.Sprint("user", i%3)
		w.happens("a", user)
		w.changes("a", user)
	}
	w.until("all ended", func() bool {
		w.move(delivery.Defaults.Age / 100)
		return w.count("SELECT count(*) FROM deliveries WHERE state IN (2, 4)") == 2*3*rounds
	}, a, b)
	// What follows another was sent after that was delivered, and only then.
	if n := w.count(`SELECT count(*) FROM deliveries d JOIN deliveries h ON h.instance_id = d.instance_id AND h.id = d.follows
		WHERE (h.state = 2) <> (d.all_attempts > 0) OR (h.state = 4) <> (d.dead_reason = 5)
			OR (SELECT min(a.date) FROM delivery_attempts a WHERE a.delivery = d.id) < (SELECT max(a.date) FROM delivery_attempts a WHERE a.delivery = h.id)`); n != 0 {
		t.Errorf("%d deliveries did not follow: %s", n, w.states())
	}
	if w.count("SELECT count(*) FROM deliveries WHERE dead_reason = 5") == 0 || w.count("SELECT count(*) FROM deliveries WHERE follows IS NOT NULL AND state = 2") == 0 {
		t.Errorf("nothing is shown: %s", w.states())
	}
}

// TestREL046_WhatNobodyLetGoIsFound has a node that knows nothing of it end what another
// delivery follows.
func TestREL046_WhatNobodyLetGoIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := w.receive(func(string, int) (int, string) { return http.StatusBadGateway, "" })
	second, third := w.receive(fine), w.receive(fine)
	w.instance("a", changed, "gate", gate.URL, "second", second.URL, "third", third.URL)
	w.interrupting("a", "gate", "second")
	n := w.node()
	w.happens("a", "ada", "ben")
	w.until("the gate failed", func() bool { return w.count("SELECT count(*) FROM deliveries WHERE state = 3") == 2 }, n)
	n.end()
	w.exec("UPDATE deliveries SET state = 2, next_attempt = NULL WHERE target = 'gate' AND object_id = 'ada'")
	w.exec("UPDATE deliveries SET state = 4, dead_reason = 1, next_attempt = NULL WHERE target = 'gate' AND object_id = 'ben'")
	task := delivery.Follow(w.db, w.now)
	if more, err := task.Do(t.Context()); more || err != nil {
		t.Fatal(more, err)
	}
	w.until("it is delivered", func() bool {
		return w.states() == "gate 2 0: 1, gate 4 1: 1, second 2 0: 1, second 4 5: 1, third 2 0: 1, third 4 5: 1"
	}, w.node())
}

// TestREL046_WhatIsReplayedWhileItIsSentEndsOnce replays an event while a call of what follows is under
// way: that reaches its target, and the replay of the gate, which fails, does not say otherwise.
func TestREL046_WhatIsReplayedWhileItIsSentEndsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answers := func(list ...int) *receiver {
		return w.receive(func(_ string, before int) (int, string) { return list[before], "" })
	}
	gate, second := answers(http.StatusOK, http.StatusGone), answers(http.StatusBadGateway, hold)
	w.instance("a", changed, "gate", gate.URL, "second", second.URL)
	w.interrupting("a", "gate")
	n := w.node()
	w.happens("a", "ada")
	w.until("the second target fails", func() bool { return w.states() == "gate 2 0: 1, second 3 0: 1" }, n)
	w.move(time.Hour)
	w.until("it is called again", func() bool { return len(second.requests()) == 2 }, n)
	if err := pgx.BeginFunc(t.Context(), w.db.Pool, func(tx pgx.Tx) error {
		var ids []string
		if err := tx.QueryRow(t.Context(), "SELECT array_agg(id) FROM deliveries").Scan(&ids); err != nil {
			return err
		}
		if replayed, err := db.New().ReplayDeliveries(t.Context(), tx, db.ReplayDeliveriesParams{Now: w.now(), InstanceID: "a", Ids: ids}); replayed != 2 || err != nil {
			return fmt.Errorf("%d are replayed: %w", replayed, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := w.count("SELECT count(*) FROM deliveries WHERE is_held"); got != 1 {
		t.Fatalf("%d are held: %s", got, w.states())
	}
	second.release()
	w.until("the answer is noted", func() bool { return w.states() == "gate 1 0: 1, second 2 0: 1" })
	if err := delivery.AddToQueues(t.Context(), w.db.Pool, w.now(), map[delivery.Key]bool{{InstanceID: "a", Target: "gate"}: true}); err != nil {
		t.Fatal(err)
	}
	w.exec("UPDATE deliveries SET next_attempt = $1 WHERE state = 1", w.now())
	w.until("the gate is gone", func() bool {
		return w.count("SELECT count(*) FROM deliveries WHERE target = 'gate' AND state = 4") == 1
	}, n)
	n.end()
	task := delivery.Follow(w.db, w.now)
	if _, err := task.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.states(); got != "gate 4 3: 1, second 2 0: 1" {
		t.Errorf("got %s", got)
	}
}

// TestAFanOutSeesThatATargetInterrupts changes a target between two events.
func TestAFanOutSeesThatATargetInterrupts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(fine)
	w.instance("a", changed, "first", r.URL, "second", r.URL)
	n := w.node()
	w.happens("a", "ada")
	w.until("it is delivered", func() bool { return w.states() == "first 2 0: 1, second 2 0: 1" }, n)
	w.interrupting("a", "first")
	w.targetChanges("a", "first")
	w.happens("a", "ada")
	w.until("and again", func() bool { return w.states() == "first 2 0: 2, second 2 0: 2" }, n)
	if got := w.count("SELECT count(*) FROM deliveries WHERE follows IS NOT NULL"); got != 1 {
		t.Errorf("%d of two follow", got)
	}
}
