package clock_test

import (
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/clock"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

// near reports whether two times are about the same: far less apart than a test moves
// a clock, far more than a machine stands still.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < 10*time.Minute }

func TestAClockIsFrozenSetAndAdvanced(t *testing.T) {
	t.Parallel()
	c := clock.New()
	if !near(c.Now(), time.Now()) {
		t.Fatalf("a new clock shows %s", c.Now())
	}
	apply := func(change clock.Change) {
		t.Helper()
		if err := c.Apply(change); err != nil {
			t.Fatal(err)
		}
	}
	apply(clock.Change{Advance: "1h"})
	if !near(c.Now(), time.Now().Add(time.Hour)) {
		t.Errorf("after an hour it shows %s", c.Now())
	}
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	apply(clock.Change{Set: &at, Frozen: yes()})
	time.Sleep(2 * time.Millisecond)
	if !c.Now().Equal(at) {
		t.Errorf("frozen it shows %s, want %s", c.Now(), at)
	}
	apply(clock.Change{Advance: "90s"})
	if want := at.Add(90 * time.Second); !c.Now().Equal(want) {
		t.Errorf("frozen and advanced it shows %s, want %s", c.Now(), want)
	}
	apply(clock.Change{Frozen: no()})
	time.Sleep(2 * time.Millisecond)
	if now := c.Now(); !near(now, at.Add(90*time.Second)) || now.Equal(at.Add(90*time.Second)) {
		t.Errorf("it should run on from where it was, it shows %s", now)
	}
	apply(clock.Change{Reset: true})
	if !near(c.Now(), time.Now()) {
		t.Errorf("reset it shows %s", c.Now())
	}
}

func TestWhoWaitsHearsOfAChange(t *testing.T) {
	t.Parallel()
	c := clock.New()
	changed := c.Changed()
	select {
	case <-changed:
		t.Fatal("nothing has changed yet")
	default:
	}
	if err := c.Apply(clock.Change{Advance: "1s"}); err != nil {
		t.Fatal(err)
	}
	<-changed // told before Apply returned, or never
}

func TestWhatIsWrongLeavesTheClockAlone(t *testing.T) {
	t.Parallel()
	c, far := clock.New(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, change := range []clock.Change{{Advance: "an hour"}, {Set: &far}} {
		before := c.Now()
		if err := c.Apply(change); err == nil || !near(c.Now(), before) {
			t.Errorf("%+v: got %v, and the clock shows %s", change, err, c.Now())
		}
	}
}
