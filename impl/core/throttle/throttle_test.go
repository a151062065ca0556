package throttle_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/throttle"
)

func TestSEC181_AnAddressHasSoManyTriesAndGetsThemBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limit := throttle.New(throttle.Limit{Times: 10, Per: 10 * time.Minute}, func() time.Time { return now })
	take := func(tenant, address string) bool { _, wait := limit.Take(tenant, address); return wait == 0 }
	for i := range 10 {
		if !take("a", "203.0.113.7") {
			t.Fatalf("the try %d is none", i)
		}
	}
	if _, wait := limit.Take("a", "203.0.113.7"); wait != time.Minute {
		t.Errorf("one more after %s", wait)
	}
	for _, other := range [][2]string{{"b", "203.0.113.7"}, {"a", "203.0.113.8"}, {"a", "2001:db8::1"}, {"a", ""}} {
		if !take(other[0], other[1]) {
			t.Errorf("%v pays for another", other)
		}
	}
	if now = now.Add(time.Minute); !take("a", "203.0.113.7") || take("a", "203.0.113.7") {
		t.Error("a minute brings one try")
	}
	now = now.Add(time.Hour)
	for range 100 { // who gets it right spends nothing
		back, wait := limit.Take("a", "203.0.113.7")
		if wait > 0 {
			t.Fatal("what was given back is gone")
		}
		back()
		back() // once
	}
	for i := range 11 { // a network of IPv6 is one source
		if got := take("a", fmt.Sprintf("2001:db8:0:5::%x", i)); got != (i < 10) {
			t.Errorf("IPv6, try %d: %v", i, got)
		}
	}
}

func TestParallelTriesDoNotPassTheLimit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	limit := throttle.New(throttle.Limit{Times: 10, Per: time.Hour}, func() time.Time { return now })
	var mu sync.Mutex
	let, all := 0, sync.WaitGroup{}
	for range 100 {
		all.Go(func() {
			if _, wait := limit.Take("a", "203.0.113.7"); wait == 0 {
				mu.Lock()
				defer mu.Unlock()
				let++
			}
		})
	}
	all.Wait()
	if let != 10 {
		t.Errorf("%d of 100 were let through, want 10", let)
	}
}

func TestManySourcesTakeNoMoreMemoryAndNobodyWhoSpentMuchIsForgotten(t *testing.T) {
	t.Parallel()
	now := time.Now()
	limit := throttle.New(throttle.Limit{Times: 4, Per: time.Hour}, func() time.Time { return now })
	for range 4 {
		limit.Take("a", "203.0.113.7")
	}
	for i := range 250_000 {
		limit.Take("a", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if n := throttle.Sources(limit); n > 100_000 {
		t.Errorf("%d are remembered", n)
	}
	if _, wait := limit.Take("a", "203.0.113.7"); wait == 0 {
		t.Error("who spent all is forgotten for those who spent one")
	}
}

func TestNoLimitIsNone(t *testing.T) {
	t.Parallel()
	none := throttle.New(throttle.Limit{}, time.Now)
	for range 1000 {
		back, wait := none.Take("a", "203.0.113.7")
		if back(); wait > 0 {
			t.Fatal("nobody is limited")
		}
	}
}
