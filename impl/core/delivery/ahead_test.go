package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
)

// delivered returns of which objects a receiver got events, in order.
func (r *receiver) delivered() string {
	var objects []string
	for _, one := range r.requests() {
		objects = append(objects, one.object)
	}
	return strings.Join(objects, " ")
}

func (w *world) begin() pgx.Tx {
	w.Helper()
	tx, err := w.db.Pool.Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// TestREL108_ALongTransactionHoldsBackDeliveriesOfItsTenantOnly has one append and stay open
// while two tenants have events, one begins to hear them, and two nodes take turns.
func TestREL108_ALongTransactionHoldsBackDeliveriesOfItsTenantOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.receive(fine), w.receive(fine), w.receive(fine)
	w.instance("a", "event.user.*", "ta", a.URL)
	w.instance("b", "event.user.*", "tb", b.URL)
	w.exec("INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ('c', 'c', 'c', 1, now(), now())")
	one, two := w.node(), w.node()
	w.happens("a", "first")
	w.until("it hears", func() bool { return a.delivered() == "first" }, one, two)

	slow := w.begin()
	w.append(slow, "a", "slow", &eventv1.HumanPasswordChanged{})
	w.happens("a", "late")
	w.happens("c", "before")
	w.happens("b", "u1", "u2")
	w.until("b does not wait", func() bool { return len(b.requests()) == 2 }, one, two)
	w.exec(`INSERT INTO targets (instance_id, id, name, name_folded, target_type, url, timeout_nanos, sequence, creation_date, change_date)
		VALUES ('c', 'tc', 'tc', 'tc', 'rest_webhook', $1, 20000000000, 1, now(), now())`, c.URL)
	w.execution("c", "event.user.*", "tc", c.URL)
	w.happens("c", "after")
	w.happens("b", "u1", "u3")
	w.until("nor does who begins to hear", func() bool { return c.delivered() == "after" && len(b.requests()) == 4 }, two, one)
	if got := a.delivered(); got != "first" {
		t.Errorf("while a transaction of a is open, a got %s", got)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.happens("b", "u4")
	w.until("all is seen, and nobody is ahead", func() bool {
		return len(a.requests()) == 3 && len(b.requests()) == 5 && w.count("SELECT count(*) FROM delivery_ahead") == 0 && w.count("SELECT count(*) FROM delivery_cursor WHERE is_ahead") == 0
	}, one, two)
	w.happens("b", "u5")
	w.until("and it goes on", func() bool { return len(b.requests()) == 6 }, one, two)
	for name, r := range map[string]*receiver{"first late slow": a, "u1 u1 u2 u3 u4 u5": b, "after": c} {
		got := strings.Fields(r.delivered())
		if slices.Sort(got); strings.Join(got, " ") != name {
			t.Errorf("got %s, want %s", got, name)
		}
	}
	if n, of := w.count("SELECT count(*) FROM deliveries"), w.count("SELECT count(DISTINCT delivered_sequence) FROM deliveries"); n != of || n != 10 {
		t.Errorf("%d deliveries of %d events", n, of)
	}
}

// TestREL108_AFloodOfOneTenantIsNotBeforeTheEventsOfOthers has very many events of one committed
// at once, and then one of another, which is delivered before theirs are seen.
func TestREL108_AFloodOfOneTenantIsNotBeforeTheEventsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.receive(fine)
	w.instance("a", "event.user.*", "ta", "http://127.0.0.1:1")
	w.instance("b", "event.user.*", "tb", r.URL)
	n := w.node()
	w.happens("b", "first")
	w.until("it hears", func() bool { return r.delivered() == "first" }, n)
	const many = 20_000
	w.exec(`INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at)
		SELECT 'a', 'user', n::text, 'user.human.password.changed', '{}', 'test', 1, 'a', now() FROM generate_series(1, $1::int) n`, many)
	w.happens("b", "theirs")
	made := func(instanceID string) int {
		return w.count("SELECT count(*) FROM deliveries WHERE instance_id = $1", instanceID)
	}
	for made("b") < 2 {
		if _, err := n.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := made("a"); got > many/10 {
		t.Errorf("the event of b was seen behind %d of a", got)
	}
	for more := true; more; {
		var err error
		if more, err = n.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := made("a"), made("b"); a != many || b != 2 {
		t.Errorf("there are %d and %d deliveries, want %d and 2", a, b, many)
	}
	if got := w.count("SELECT count(*) FROM (SELECT 1 FROM deliveries GROUP BY instance_id, delivered_sequence HAVING count(*) > 1) twice"); got != 0 {
		t.Errorf("%d events are delivered twice", got)
	}
	if got := fmt.Sprint(w.count("SELECT count(*) FROM delivery_ahead"), w.count("SELECT count(*) FROM delivery_cursor WHERE is_ahead")); got != "0 0" {
		t.Errorf("at last there are ahead: %s", got)
	}
}
