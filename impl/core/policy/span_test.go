package policy

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-id/writ/impl/core/admission"
)

func TestSEC221_WhoWaitsForSomebodyElseHasNoPlaceAndItsTimeStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := admission.New(2, 10) // one place for each tenant
		ctx, end := Begin(t.Context())
		defer end()
		ctx = context.WithValue(ctx, callKey{}, &Call{})
		r := &Request{place: place{gate: gate, tenant: "a"}}
		if err := r.place.enter(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(CallTimeout - time.Second)
		if err := r.Outside(ctx, time.Hour, func(ctx context.Context) error {
			if !gate.Try("a") {
				t.Error("its place is nobody's")
			}
			time.Sleep(time.Hour)
			gate.Leave("a")
			return ctx.Err()
		}); err != nil {
			t.Fatal(err)
		}
		if gate.Try("a") {
			t.Error("who came back has no place")
		}
		time.Sleep(CallTimeout - time.Second)
		if ctx.Err() != nil {
			t.Errorf("the work after it had no time of its own: %v", ctx.Err())
		}
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		time.Sleep(2 * time.Second)
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("work without an end: %v, %v", ctx.Err(), child.Err())
		}
		if err := r.Outside(ctx, time.Hour, func(ctx context.Context) error { return ctx.Err() }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what is over goes on: %v", err)
		}
	})
}

func TestREL013_WorkEndsWithWhoAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, gone := context.WithCancel(t.Context())
		ctx, end := Begin(asked)
		defer end()
		var ended atomic.Bool
		stop := context.AfterFunc(ctx, func() { ended.Store(true) })
		defer stop()
		err := (&Request{}).Outside(ctx, time.Hour, func(ctx context.Context) error {
			gone()
			<-ctx.Done()
			return ctx.Err()
		})
		synctest.Wait()
		if !errors.Is(err, context.Canceled) || !ended.Load() {
			t.Errorf("got %v", err)
		}
	})
}
