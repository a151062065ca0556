package ledger

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"testing"
)

// TestSEC221_OneInstanceFillsNoQueue: what is overdue of one instance leaves places for
// others, and while it cannot be done, theirs is; what is told twice takes one place.
func TestSEC221_OneInstanceFillsNoQueue(t *testing.T) {
	t.Parallel()
	o := newOverdue("a job", 40, slog.New(slog.NewTextHandler(io.Discard, nil)))
	away := func(context.Context) error { return errors.New("away") }
	of := func(instanceID string, i int) jobID {
		return jobID{instanceID: instanceID, Use: Use{GrantID: strconv.Itoa(i)}}
	}
	for i := range 1000 {
		o.add(of("a", i), away)
	}
	if n := len(o.jobs); n != 10 {
		t.Errorf("one instance has %d of 40 places, want 10", n)
	}
	for range 1000 {
		o.add(of("b", 0), away)
	}
	if n := len(o.jobs); n != 11 {
		t.Errorf("one thing told often takes %d places, want 1", n-10)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan string, 2)
	for _, instanceID := range []string{"a", "b"} { // behind what fails, of the same instance too
		id := of(instanceID, 0)
		o.add(jobID{id.instanceID, id.Use, "another"}, func(context.Context) error { done <- instanceID; return nil })
	}
	o.add(of("c", 0), func(context.Context) error { done <- "c"; return nil })
	ended := make(chan struct{})
	go func() { o.run(ctx); close(ended) }()
	if first, second := <-done, <-done; first != "c" || second != "b" {
		t.Errorf("done were %s and %s, want c and b: a has its share", first, second)
	}
	stop()
	<-ended
	if n := len(o.jobs); n != 11 {
		t.Errorf("%d wait still, want 11", n)
	}
}
