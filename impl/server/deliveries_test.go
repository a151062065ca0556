package server_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// eventually waits until it is so.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("it never came to that: %s", what)
		}
	}
}

// TestREL002_WhoCausesAnEventWaitsForNobody makes calls while the fan-out cannot go on and
// a target cannot be reached: they succeed at once, and what they caused is delivered to
// who can be reached when it goes on.
func TestREL002_WhoCausesAnEventWaitsForNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	fine := w.receiver("fine", `"restWebhook":{"url":%q}`, func(call) (int, string) { return http.StatusOK, "" })
	away := w.Create("owner", "/resources/v3alpha/targets", `{"name":"away","timeout":"5s","restWebhook":{"url":"http://127.0.0.1:1/"}}`)
	w.Create("owner", "/resources/v3alpha/executions", fmt.Sprintf(`{"condition":{"event":{"event":"project.added"}},"targets":[%q,%q]}`, away, fine.id))
	w.eventually("somebody hears", func() bool { return w.Value("SELECT count(*)::text FROM delivery_cursor WHERE is_heard") == "1" })

	ctx := context.WithoutCancel(t.Context())
	tx, err := w.DB.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "SELECT FROM delivery_cursor FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE delivery_queues, deliveries IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	const projects = 20
	for i := range projects {
		if got := w.Call(i%2, "a.example", "owner", http.MethodPost, "/resources/v3alpha/projects", fmt.Sprintf(`{"name":"p%d"}`, i)); got.Status != http.StatusCreated {
			t.Fatalf("got %d %s", got.Status, got.Body)
		}
	}
	if got := len(fine.calls()); got != 0 {
		t.Errorf("%d were delivered although nobody could: this proves nothing", got)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	w.eventually("all came", func() bool { return len(fine.calls()) == projects })
	seen := map[string]bool{}
	for _, c := range fine.calls() {
		seen[c.header.Get("Webhook-Id")] = true
		if c.member["event_type"] != "project.added" {
			t.Errorf("got %s", c.body)
		}
	}
	if len(seen) != projects {
		t.Errorf("%d deliveries, want %d", len(seen), projects)
	}
	if got := w.Value("SELECT count(*)::text FROM deliveries WHERE target = $1 AND state <> 2", away); got != fmt.Sprint(projects) {
		t.Errorf("%s wait for the target that cannot be reached, want %d", got, projects)
	}
}
