package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestREL063_WhatIsRememberedIsAskedAgainAfterItsAge(t *testing.T) {
	t.Parallel()
	loads := 0
	c := New[string, int](func(k string) string { return k })
	load := func(context.Context) (int, error) { loads++; return loads, nil }
	for range 3 {
		if got, err := c.Get(t.Context(), "k", load); err != nil || got != 1 {
			t.Errorf("got %d, %v; want the remembered 1", got, err)
		}
	}
	e := c.entries["k"]
	e.until = time.Now().Add(-time.Nanosecond)
	c.entries["k"] = e
	if got, err := c.Get(t.Context(), "k", load); err != nil || got != 2 {
		t.Errorf("after the age: got %d, %v; want 2", got, err)
	}
	c.Drop()
	if got, err := c.Get(t.Context(), "k", load); err != nil || got != 3 {
		t.Errorf("after a drop: got %d, %v; want 3", got, err)
	}
}

func TestREL006_AnErrorIsNotRemembered(t *testing.T) {
	t.Parallel()
	c := New[string, int](func(k string) string { return k })
	broken := errors.New("broken")
	if _, err := c.Get(t.Context(), "k", func(context.Context) (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error", err)
	}
	if got, err := c.Get(t.Context(), "k", func(context.Context) (int, error) { return 7, nil }); err != nil || got != 7 {
		t.Errorf("got %d, %v; want 7", got, err)
	}
}

func TestREL061_WhatWasKnownStaysGoodWhileNothingNewerCanBeRead(t *testing.T) {
	t.Parallel()
	var c Cache[string, int]
	loads, answer, broken := 0, 1, error(nil)
	load := func(context.Context) (int, error) { loads++; return answer, broken }
	get := func(good func(int) bool) (int, error) { return c.GetOrLast(t.Context(), "k", good, load) }

	broken = errors.New("broken")
	if _, err := get(nil); !errors.Is(err, broken) {
		t.Errorf("where nothing is known: got %v, want the error", err)
	}
	broken = nil
	for range 2 {
		if got, err := get(nil); got != 1 || err != nil || loads != 2 {
			t.Errorf("got %d, %v after %d loads; want the remembered 1", got, err, loads)
		}
	}
	c.Drop()
	answer, broken = 2, errors.New("broken")
	if got, err := get(nil); got != 1 || err != nil || loads != 3 {
		t.Errorf("in an outage: got %d, %v after %d loads; want the 1 that was known", got, err, loads)
	}
	if _, err := get(func(known int) bool { return known != 1 }); !errors.Is(err, broken) {
		t.Errorf("in an outage, what may not stay: got %v, want the error", err)
	}
	broken = nil
	if got, err := get(nil); got != 2 || err != nil {
		t.Errorf("afterwards: got %d, %v; want 2", got, err)
	}
}

func TestREL061_NobodyWaitsLongForWhatMayBeNewer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Cache[string, int]
		answers := make(chan int, 1)
		load := func(context.Context) (int, error) { return <-answers, nil }
		answers <- 1
		if got, err := c.GetOrLast(t.Context(), "k", nil, load); got != 1 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
		c.Drop()
		begun := time.Now()
		if got, err := c.GetOrLast(t.Context(), "k", nil, load); got != 1 || err != nil || time.Since(begun) != patience {
			t.Errorf("got %d, %v after %s; want the 1 that was known after %s", got, err, time.Since(begun), patience)
		}
		answers <- 2 // the load goes on for those who come later
		synctest.Wait()
		if got, err := c.GetOrLast(t.Context(), "k", nil, load); got != 2 || err != nil {
			t.Errorf("got %d, %v; want 2", got, err)
		}
	})
}

func TestREL006_WhoAskedFirstMayGoAwayWhileOthersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Cache[string, int]
		answers := make(chan int)
		load := func(ctx context.Context) (int, error) {
			select {
			case n := <-answers:
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		first, goAway := context.WithCancel(t.Context())
		gone, got := make(chan error, 1), make(chan int, 1)
		go func() { _, err := c.Get(first, "k", load); gone <- err }()
		synctest.Wait()
		go func() { n, _ := c.Get(t.Context(), "k", load); got <- n }()
		synctest.Wait()
		goAway()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("who went away got %v", err)
		}
		answers <- 1
		if n := <-got; n != 1 {
			t.Errorf("who waited got %d, want 1", n)
		}
	})
}

func TestSEC293_ACacheIsBounded(t *testing.T) {
	t.Parallel()
	c := New[int, int](func(k int) string { return string(rune(k)) })
	for k := range maxEntries + 10 {
		_, _ = c.Get(t.Context(), k, func(context.Context) (int, error) { return k, nil })
	}
	if len(c.entries) > maxEntries {
		t.Errorf("got %d entries, want at most %d", len(c.entries), maxEntries)
	}
}

// TestREL063_WhatIsRememberedGoesByTheClockThatIsMoved moves a clock, forth and back, while no time goes by.
func TestREL063_WhatIsRememberedGoesByTheClockThatIsMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loads, now := 0, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		c := New[string, int](func(k string) string { return k }).By(func() time.Time { return now })
		get := func(want int) {
			t.Helper()
			for _, ask := range []func() (int, error){
				func() (int, error) {
					return c.Get(t.Context(), "k", func(context.Context) (int, error) { loads++; return loads, nil })
				},
				func() (int, error) {
					return c.GetOrLast(t.Context(), "k", nil, func(context.Context) (int, error) { loads++; return loads, nil })
				},
			} {
				if got, err := ask(); err != nil || got != want {
					t.Errorf("got %d, %v; want %d", got, err, want)
				}
			}
		}
		get(1)
		now = now.Add(MaxAge / 2)
		get(1)
		now = now.Add(MaxAge / 2)
		if _, fresh := c.Fresh("k"); fresh {
			t.Error("it is fresh when the clock was moved by its age")
		}
		get(2)
		now = now.Add(-time.Hour)
		get(3)
		time.Sleep(MaxAge) // however the other clock stands still
		get(4)
	})
}
