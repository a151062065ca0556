package delivery_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/execution"
)

// TestREL045_NodesDeliverEverythingInTheOrderOfItsObject lets two nodes deliver to an
// endpoint that fails every third time, while events come from transactions that commit
// out of order.
func TestREL045_NodesDeliverEverythingInTheOrderOfItsObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	flaky := w.receive(func(_ string, before int) (int, string) {
		return []int{http.StatusNoContent, http.StatusOK, http.StatusInternalServerError}[before%3], ""
	})
	steady := w.receive(fine)
	w.instance("a", "event.user.*", "flaky", flaky.URL, "steady", steady.URL)
	a, b := w.node(), w.node()
	w.until("somebody hears", func() bool { return w.count("SELECT count(*) FROM delivery_cursor WHERE is_heard") == 1 }, a)

	const writers, rounds = 8, 15
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for range rounds {
				if err := pgx.BeginFunc(t.Context(), w.db.Pool, func(tx pgx.Tx) error {
					w.append(tx, "a", fmt.Sprint("user", writer), &eventv1.HumanPasswordChanged{})
					time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	w.until("all is delivered", func() bool {
		w.move(time.Minute)
		select {
		case <-done:
			return w.count("SELECT count(*) FROM deliveries WHERE state = 2") == 2*writers*rounds
		default:
			return false
		}
	}, a, b)

	for name, r := range map[string]*receiver{"flaky": flaky, "steady": steady} {
		ids, last, n := map[string]string{}, map[string]int{}, 0
		for _, got := range r.requests() {
			if id := ids[got.sequence]; id != "" && id != got.id {
				t.Errorf("%s: the event %s was sent as %s and %s", name, got.sequence, id, got.id)
			}
			ids[got.sequence] = got.id
			sequence, err := strconv.Atoi(got.sequence)
			if err != nil || sequence < last[got.object] {
				t.Errorf("%s: %s got %d after %d (%v)", name, got.object, sequence, last[got.object], err)
			}
			last[got.object] = sequence
			if got.status < 300 {
				n++
			}
		}
		if len(ids) != writers*rounds || n != writers*rounds {
			t.Errorf("%s: %d events came, %d successes, want %d", name, len(ids), n, writers*rounds)
		}
	}
	if n := w.count("SELECT count(*) FROM deliveries d WHERE attempts <> (SELECT count(*) FROM delivery_attempts a WHERE a.instance_id = d.instance_id AND a.delivery = d.id)"); n != 0 {
		t.Errorf("%d deliveries have other attempts than they count", n)
	}
	if n := w.count("SELECT count(*) FROM delivery_attempts WHERE status = 500 AND error = 'the answer has the status 500' AND answer LIKE 'answer 500%'"); n == 0 {
		t.Error("no failed attempt says what went wrong")
	}
}

// TestREL047_ADeadOrHangingTargetDelaysOnlyItself has one endpoint that never answers and
// one that is not there, beside one that works.
func TestREL047_ADeadOrHangingTargetDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hanging := w.receive(func(string, int) (int, string) { return hold, "" })
	steady := w.receive(fine)
	w.instance("a", "event.user.*", "dead", "http://127.0.0.1:1/", "hanging", hanging.URL, "steady", steady.URL)
	n := w.node()
	var users []string
	for i := range 200 {
		users = append(users, fmt.Sprint("user", i))
	}
	w.happens("a", users...)
	w.until("the others are served", func() bool {
		return w.count("SELECT count(*) FROM deliveries WHERE target = 'steady' AND state = 2") == 200
	}, n)
	if got := w.count("SELECT count(*) FROM deliveries WHERE target <> 'steady' AND state = 2"); got != 0 {
		t.Errorf("%d were delivered to those who cannot be reached", got)
	}
	if got := len(hanging.requests()); got == 0 || got > 8 {
		t.Errorf("the hanging one holds %d calls", got)
	}
	// Its circuit is open: the rest was not even tried.
	w.until("the dead one rests", func() bool {
		return w.count("SELECT count(*) FROM delivery_queues WHERE target = 'dead' AND failures >= 5 AND leased_by IS NULL") == 1
	}, n)
	if got := w.count("SELECT count(*) FROM deliveries WHERE target = 'dead' AND attempts > 0"); got > 12 {
		t.Errorf("%d of 200 were tried at the dead one", got)
	}
	// More for the steady one passes them by, and what comes for the hanging one is sent
	// when it answers again.
	w.happens("a", "more")
	w.until("and served", func() bool {
		return w.count("SELECT count(*) FROM deliveries WHERE target = 'steady' AND state = 2") == 201
	}, n)
	hanging.release()
	w.until("the hanging one woke up", func() bool {
		return w.count("SELECT count(*) FROM deliveries WHERE target = 'hanging' AND state = 2") == 201
	}, n)
}

// TestAfterARestOneDeliveryTriesWhetherTheTargetIsBack opens the circuit of an endpoint
// and closes it.
func TestAfterARestOneDeliveryTriesWhetherTheTargetIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status := http.StatusBadGateway
	r := w.receive(func(string, int) (int, string) { return status, "" })
	w.instance("a", "event", "t", r.URL)
	n := w.node()
	resting := func() bool {
		return w.count("SELECT count(*) FROM delivery_queues WHERE failures >= 5 AND leased_by IS NULL AND due_at > $1", w.now()) == 1
	}
	for i := range 50 {
		w.happens("a", fmt.Sprint("user", i))
	}
	w.until("it rests", resting, n)
	before := len(r.requests())
	if before > 8 {
		t.Errorf("%d requests were needed to see that it is broken", before)
	}
	w.until("it is left alone", func() bool { return true }, n)
	if got := len(r.requests()); got != before {
		t.Errorf("while it rests it gets %d requests", got-before)
	}
	for try := 1; try <= 3; try++ {
		failures := w.count("SELECT failures FROM delivery_queues")
		w.move(10 * time.Minute)
		w.until("it is tried", func() bool { return w.count("SELECT failures FROM delivery_queues") > failures && resting() }, n)
		if got := len(r.requests()) - before; got != try {
			t.Errorf("after %d rests it got %d requests", try, got)
		}
	}
	status = http.StatusOK
	w.until("all is delivered", func() bool {
		w.move(time.Minute)
		return w.count("SELECT count(*) FROM deliveries WHERE state = 2") == 51 // with the event of the execution
	}, n)
}

// TestWhatADeliveryComesTo goes through the ends that a delivery has.
func TestWhatADeliveryComesTo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		limits   delivery.Limits
		answer   func(string, int) (int, string)
		want     string
		requests int
	}{
		{"at once", delivery.Limits{}, fine, "t 2 0: 1", 1},
		{"at the third attempt", delivery.Limits{}, func(_ string, before int) (int, string) {
			return []int{http.StatusFound, http.StatusBadRequest, http.StatusAccepted}[before], ""
		}, "t 2 0: 1", 3},
		{"too often", delivery.Limits{Attempts: 4, Age: 1000 * time.Hour}, func(string, int) (int, string) { return http.StatusTeapot, "" }, "t 4 1: 1", 4},
		{"too old", delivery.Limits{Attempts: 1000, Age: 10 * time.Hour}, func(string, int) (int, string) { return http.StatusTeapot, "" }, "t 4 2: 1", 0},
		{"gone", delivery.Limits{}, func(string, int) (int, string) { return http.StatusGone, "" }, "t 4 3: 1", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limits = test.limits
			r := w.receive(test.answer)
			w.instance("a", "event.user.human.password.changed", "t", r.URL)
			n := w.node()
			w.happens("a", "user")
			w.until(test.want, func() bool {
				w.move(time.Hour)
				return w.states() == test.want
			}, n)
			if got := len(r.requests()); test.requests != 0 && got != test.requests || got == 0 {
				t.Errorf("it took %d requests, want %d", got, test.requests)
			}
			if got := w.count("SELECT count(*) FROM delivery_attempts"); got != len(r.requests()) {
				t.Errorf("%d attempts are noted of %d", got, len(r.requests()))
			}
			if got := w.count("SELECT count(*) FROM deliveries WHERE next_attempt IS NOT NULL"); got != 0 {
				t.Error("what ended is still due")
			}
		})
	}
}

func TestRetryAfterIsHonouredWithinBounds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		asks     string
		from, to time.Duration // when it is tried next
	}{{"", 3 * time.Second, 7 * time.Second}, {"120", 2 * time.Minute, 3 * time.Minute}, {"100000000", 4 * time.Hour, 5 * time.Hour}} {
		t.Run(test.asks, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.receive(func(string, int) (int, string) { return http.StatusServiceUnavailable, test.asks })
			w.instance("a", "event.user.*", "t", r.URL)
			n, begin := w.node(), w.now()
			w.happens("a", "user")
			w.until("it failed", func() bool { return w.states() == "t 3 0: 1" }, n)
			var next time.Time
			if err := w.db.Pool.QueryRow(t.Context(), "SELECT next_attempt FROM deliveries").Scan(&next); err != nil {
				t.Fatal(err)
			}
			if next.Before(begin.Add(test.from)) || next.After(w.now().Add(test.to)) {
				t.Errorf("it is tried after %s", next.Sub(begin))
			}
		})
	}
}

// TestOneObjectWaitsAndOthersDoNot shows the order of an object whose first delivery
// fails.
func TestOneObjectWaitsAndOthersDoNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := true
	r := w.receive(func(object string, _ int) (int, string) {
		if object == "poison" && broken {
			return http.StatusInternalServerError, ""
		}
		return http.StatusOK, ""
	})
	w.instance("a", "event.user.*", "t", r.URL)
	n := w.node()
	w.happens("a", "poison", "poison", "poison", "fine", "fine")
	w.until("the others are served", func() bool {
		return w.count("SELECT count(*) FROM deliveries WHERE object_id = 'fine' AND state = 2") == 2 && w.count("SELECT count(*) FROM deliveries WHERE state = 3") == 1
	}, n)
	w.happens("a", "poison") // behind those
	for range 3 {
		w.move(time.Hour)
		w.until("it is tried", func() bool { return w.count("SELECT count(*) FROM deliveries WHERE next_attempt < $1", w.now()) == 0 }, n)
	}
	if got := w.count("SELECT count(*) FROM deliveries WHERE object_id = 'poison' AND attempts > 0"); got != 1 {
		t.Errorf("%d of the object were tried, want the oldest only", got)
	}
	broken = false
	w.until("all is delivered", func() bool {
		w.move(time.Hour)
		return w.states() == "t 2 0: 6"
	}, n)
	last := ""
	for _, got := range r.requests() {
		if got.object == "poison" {
			if len(got.sequence) < len(last) || len(got.sequence) == len(last) && got.sequence < last {
				t.Errorf("%s came after %s", got.sequence, last)
			}
			last = got.sequence
		}
	}
}

// TestREL025_ADeletedTargetGetsNothingMore deletes a target with deliveries in flight,
// waiting and failed.
func TestREL025_ADeletedTargetGetsNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(func(object string, _ int) (int, string) {
		if object == "slow" {
			return hold, ""
		}
		return http.StatusInternalServerError, ""
	})
	w.instance("a", "event.user.*", "t", r.URL)
	n := w.node()
	w.happens("a", "slow", "slow", "failing", "failing")
	w.until("one is in flight, one failed", func() bool {
		return len(r.requests()) == 2 && w.count("SELECT count(*) FROM deliveries WHERE state = 3") == 1
	}, n)
	w.exec("DELETE FROM execution_targets")
	w.exec("DELETE FROM targets")
	r.release()
	w.until("they ended", func() bool { return w.states() == "t 2 0: 1, t 4 4: 3" }, n)
	w.until("the queue is gone", func() bool { return w.count("SELECT count(*) FROM delivery_queues") == 0 }, n)
	if got := len(r.requests()); got != 2 {
		t.Errorf("it got %d requests, want the two of before", got)
	}
}

// TestREL046_ADyingNodeLosesNothingAndALateOneWritesNothing takes the queue of a node whose
// call hangs, as if it had died.
func TestREL046_ADyingNodeLosesNothingAndALateOneWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(func(_ string, before int) (int, string) {
		if before == 0 {
			return hold, ""
		}
		return http.StatusInternalServerError, ""
	})
	w.instance("a", "event.user.*", "t", r.URL)
	a, b := w.node(), w.node()
	w.happens("a", "user")
	w.until("a has it", func() bool { return len(r.requests()) == 1 }, a)
	for range 3 {
		w.until("b leaves it alone", func() bool { return true }, b)
	}
	if got := len(r.requests()); got != 1 {
		t.Errorf("another node sent it too: %d requests", got)
	}
	w.exec("UPDATE delivery_queues SET lease_end = now() - interval '1 second'")
	w.until("b took it over, and failed", func() bool { return w.states() == "t 3 0: 1" }, b)
	r.release() // now a has a success
	a.end()
	if got := w.states(); got != "t 3 0: 1" {
		t.Errorf("who lost the queue noted %s", got)
	}
	requests := r.requests()
	if len(requests) != 2 || requests[0].id != requests[1].id {
		t.Errorf("got %v", requests)
	}
}

// TestREL049_ANodeThatEndsGivesItsQueuesBack ends one in the middle.
func TestREL049_ANodeThatEndsGivesItsQueuesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(func(_ string, before int) (int, string) {
		if before == 3 {
			return hold, ""
		}
		return http.StatusOK, ""
	})
	w.instance("a", "event.user.*", "t", r.URL)
	a, b := w.node(), w.node()
	for i := range 100 {
		w.happens("a", fmt.Sprint("user", i))
	}
	w.until("it hangs", func() bool { return len(r.requests()) > 3 }, a)
	go func() { time.Sleep(50 * time.Millisecond); r.release() }()
	a.end()
	if got := w.count("SELECT count(*) FROM delivery_queues WHERE leased_by IS NOT NULL"); got != 0 {
		t.Error("it kept its queue")
	}
	w.until("the other one does the rest", func() bool { return w.states() == "t 2 0: 100" }, b)
	if got := len(r.requests()); got != 100 {
		t.Errorf("%d requests for 100 deliveries, though nobody died", got)
	}
}

// TestDeliveriesBeginWithTheExecution has events before there is one, and while there is
// none any more.
func TestDeliveriesBeginWithTheExecution(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(fine)
	w.exec("INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ('deaf', 'deaf', 'deaf', 1, now(), now())")
	n := w.node()
	w.happens("deaf", "before")
	w.instance("a", "event.user.*", "t", r.URL)
	w.happens("a", "one")
	w.happens("deaf", "other")
	w.until("it is delivered", func() bool { return w.states() == "t 2 0: 1" }, n)
	// Another one is more specific, on an event that does not happen; and calls nobody.
	w.execution("a", "event.user.human.password.changed")
	w.happens("a", "two")
	w.until("it is seen", func() bool {
		return w.count("SELECT count(*) FROM events e, delivery_cursor c WHERE (e.xid, e.sequence) > (c.xid, c.sequence)") == 0
	}, n)
	w.exec("DELETE FROM executions")
	w.append(w.db.Pool, "a", "event.user.*", &eventv1.ExecutionRemoved{})
	w.happens("a", "three")
	w.until("nobody hears any more", func() bool { return w.count("SELECT count(*) FROM delivery_cursor WHERE is_heard") == 0 }, n)
	w.happens("a", "four")
	if more, err := n.Pass(t.Context()); err != nil || more {
		t.Errorf("got %v, %v", more, err)
	}
	if got := w.states(); got != "t 2 0: 1" {
		t.Errorf("got %s", got)
	}
	// While nothing happens nothing is written.
	xid := func() (at string) {
		if err := w.db.Pool.QueryRow(t.Context(), "SELECT concat(xid, '/', sequence, '/', version) FROM delivery_cursor").Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	w.until("it is at the present", func() bool {
		return w.count("SELECT count(*) FROM events e, delivery_cursor c WHERE (e.xid, e.sequence) > (c.xid, c.sequence)") == 0
	}, n)
	before := xid()
	for range 3 {
		if _, err := n.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := xid(); after != before {
		t.Errorf("an idle node moved the cursor from %s to %s", before, after)
	}
}

// TestARestoredDatabaseDelivers has a cursor of a server with more transactions.
func TestARestoredDatabaseDelivers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(fine)
	w.instance("a", "event.user.*", "t", r.URL)
	n := w.node()
	w.happens("a", "one")
	w.until("it is delivered", func() bool { return w.states() == "t 2 0: 1" }, n)
	w.exec("UPDATE delivery_cursor SET xid = '999999999999'::xid8")
	w.until("it starts again", func() bool {
		return w.count("SELECT count(*) FROM delivery_cursor WHERE xid < '999999999999'::xid8") == 1
	}, n)
	w.happens("a", "two")
	w.until("and delivers", func() bool { return w.states() == "t 2 0: 2" }, n)
}

// TestDeliveriesGoWithTheirInstance deletes one with deliveries in all states, while a
// node has its queue.
func TestDeliveriesGoWithTheirInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(func(object string, _ int) (int, string) {
		return map[string]int{"slow": hold, "good": http.StatusOK, "bad": http.StatusInternalServerError}[object], ""
	})
	w.instance("a", "event.user.*", "t", r.URL)
	w.instance("b", "event.user.*", "t", r.URL)
	n := w.node()
	w.happens("a", "slow", "slow", "good", "bad")
	w.happens("b", "good")
	w.until("they came", func() bool { return w.count("SELECT count(*) FROM delivery_attempts") == 3 && len(r.requests()) == 4 }, n)
	w.exec("SET CONSTRAINTS ALL DEFERRED")
	w.exec("DELETE FROM execution_targets WHERE instance_id = 'a'")
	w.exec("DELETE FROM instances WHERE id = 'a'")
	w.append(w.db.Pool, "a", "good", &eventv1.HumanPasswordChanged{}) // of a transaction that was late
	w.append(w.db.Pool, "a", "a", &eventv1.InstanceRemoved{})
	w.happens("b", "good")
	r.release()
	w.until("b goes on", func() bool { return w.states() == "t 2 0: 2" }, n)
	for _, table := range []string{"deliveries", "delivery_queues", "delivery_attempts"} {
		if got := w.count("SELECT count(*) FROM " + table + " WHERE instance_id = 'a'"); got != 0 {
			t.Errorf("%d rows are left in %s", got, table)
		}
	}
}

// TestWhatIsGoneBeforeItsEventIsSeenIsReadAnew deletes an instance whose last event is
// seen while that of its removal is not: an older transaction is still running.
func TestWhatIsGoneBeforeItsEventIsSeenIsReadAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.instance("a", "event.user.*", "t", "http://127.0.0.1:1")
	w.instance("b", "event.user.*", "t", "http://127.0.0.1:1")
	behind := func(instanceID string) func() bool {
		return func() bool {
			return w.count(`SELECT count(*) FROM events e, delivery_cursor c WHERE e.instance_id = $1 AND e.event_type = 'user.human.password.changed'
				AND (e.xid, e.sequence) > (c.xid, c.sequence)`, instanceID) == 0
		}
	}
	n := w.node()
	w.happens("a", "u")
	w.until("a is remembered", behind("a"), n)
	w.exec("DELETE FROM execution_targets WHERE instance_id = 'a'")
	w.exec("DELETE FROM instances WHERE id = 'a'")
	w.happens("a", "late")
	older, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = older.Rollback(context.Background()) }()
	w.append(older, "a", "never", &eventv1.HumanPasswordChanged{})
	w.append(w.db.Pool, "a", "a", &eventv1.InstanceRemoved{})
	w.until("the late event is behind", behind("a"), n)
	if got := w.count("SELECT count(*) FROM deliveries WHERE instance_id = 'a'"); got != 0 {
		t.Errorf("there are %d deliveries of an instance that is gone", got)
	}

	// Who read all of it anew has nothing to forget: that is an error like any other.
	if err := older.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("all is behind", func() bool {
		return w.count("SELECT count(*) FROM events e, delivery_cursor c WHERE (e.xid, e.sequence) > (c.xid, c.sequence)") == 0
	}, n)
	other := w.node()
	fresh := other.Fresh
	other.Fresh = func(ctx context.Context, id string) (*execution.Table, error) {
		table, err := fresh(ctx, id)
		w.exec("DELETE FROM execution_targets WHERE instance_id = $1", id)
		w.exec("DELETE FROM instances WHERE id = $1", id)
		return table, err
	}
	w.happens("b", "late")
	for deadline := time.Now().Add(60 * time.Second); err == nil; _, err = other.Pass(t.Context()) {
		if behind("b")() || time.Now().After(deadline) {
			t.Fatal("the event was passed without an error")
		}
	}
	w.until("b is read anew", behind("b"), other)
}

// TestWhatIsKeptLongEnoughIsSwept sweeps at both sides of the retention.
func TestWhatIsKeptLongEnoughIsSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(func(object string, _ int) (int, string) {
		return map[string]int{"good": http.StatusOK, "gone": http.StatusGone, "bad": http.StatusInternalServerError}[object], ""
	})
	w.instance("a", "event.user.*", "t", r.URL)
	n := w.node()
	w.happens("a", "good", "gone", "bad")
	w.until("they came", func() bool { return w.states() == "t 2 0: 1, t 3 0: 1, t 4 3: 1" }, n)
	sweep := delivery.Sweep(w.db, w.now, delivery.Limits{Retention: time.Hour})
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{30 * time.Minute, "t 2 0: 1, t 3 0: 1, t 4 3: 1"}, {31 * time.Minute, "t 3 0: 1"}} {
		w.move(step.after)
		if _, err := sweep.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.states(); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
	if got := w.count("SELECT count(*) FROM delivery_attempts"); got != 1 {
		t.Errorf("%d attempts are left, want that of what failed", got)
	}
	if got := w.count("SELECT sum(n)::int FROM row_counts WHERE resource = 'deliveries'"); got != 1 {
		t.Errorf("%d are counted", got)
	}
}

// TestSEC221_AFloodOfOneTenantLeavesPlacesToOthers gives one tenant more targets than a
// node takes.
func TestSEC221_AFloodOfOneTenantLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hanging, steady := w.receive(func(string, int) (int, string) { return hold, "" }), w.receive(fine)
	w.instance("other", "event.user.*", "t", steady.URL)
	// Of each event as many targets as an execution calls.
	floods := []event.Payload{
		&eventv1.HumanPasswordChanged{}, &eventv1.UserLocked{}, &eventv1.UserUnlocked{}, &eventv1.UserDeactivated{}, &eventv1.UserReactivated{}, &eventv1.UserRemoved{},
	}
	for i, payload := range floods {
		var many []string
		for j := range execution.MaxTargets {
			many = append(many, fmt.Sprintf("t%d", i*execution.MaxTargets+j), hanging.URL)
		}
		if condition := "event." + event.Type(payload); i == 0 {
			w.instance("flood", condition, many...)
		} else {
			w.targets("flood", many...)
			w.execution("flood", condition, many...)
		}
	}
	n := w.node()
	for _, payload := range floods {
		w.append(w.db.Pool, "flood", "user", payload)
	}
	w.until("it has its share", func() bool { return w.count("SELECT count(*) FROM delivery_queues WHERE leased_by IS NOT NULL") >= 640 }, n)
	w.happens("other", "user")
	w.until("the other one is served", func() bool { return len(steady.requests()) == 1 }, n)
	if got := w.count("SELECT count(*) FROM delivery_queues WHERE instance_id = 'flood' AND leased_by IS NOT NULL"); got > 768 {
		t.Errorf("the flood has %d queues of 1024", got)
	}
	if strings.Contains(w.states(), "t0 2") {
		t.Error("the endpoint does not hang: this proves nothing")
	}
}

// TestREL035_NodesThatFanOutAtOnceSeeEveryEventOnce has them wait for one another's cursor.
func TestREL035_NodesThatFanOutAtOnceSeeEveryEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.instance("a", "event.user.*", "t", "http://127.0.0.1:1/")
	const nodes, events = 4, 300
	first := w.node()
	w.until("somebody hears", func() bool { return w.count("SELECT count(*) FROM delivery_cursor WHERE is_heard") == 1 }, first)
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for i := range events {
			w.happens("a", fmt.Sprint("user", i%10))
		}
	}()
	var passing sync.WaitGroup
	for range nodes {
		n := w.node()
		passing.Go(func() {
			for done := false; !done; {
				select {
				case <-writing:
					done = true
				default:
				}
				if _, err := n.Pass(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	passing.Wait()
	w.until("all is seen", func() bool {
		return w.count("SELECT count(*) FROM events e, delivery_cursor c WHERE (e.xid, e.sequence) > (c.xid, c.sequence)") == 0
	}, first)
	if n, of := w.count("SELECT count(*) FROM deliveries"), w.count("SELECT count(DISTINCT delivered_sequence) FROM deliveries"); n != events || of != events {
		t.Errorf("%d deliveries of %d events, want %d", n, of, events)
	}
	if n := w.count("SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE next_attempt IS NOT NULL GROUP BY object_id HAVING count(*) > 1) two"); n != 0 {
		t.Errorf("of %d objects two are due", n)
	}
}
