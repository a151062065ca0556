package admission_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-id/writ/impl/core/admission"
)

// line lets visitors enter one after the other and notes who came in.
type line struct {
	*testing.T
	gate *admission.Gate
	mu   sync.Mutex
	came []string
	out  []string
}

func (l *line) visit(tenants string) {
	for _, tenant := range strings.Split(tenants, "") {
		go func() {
			if err := l.gate.Enter(l.Context(), tenant); err != nil {
				l.Errorf("%s: %v", tenant, err)
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.came, l.out = append(l.came, tenant), append(l.out, tenant)
		}()
		synctest.Wait()
	}
}

// next lets n of those who are in leave, the first that came first.
func (l *line) next(n int) {
	for range n {
		l.mu.Lock()
		first := l.out[0]
		l.out = l.out[1:]
		l.mu.Unlock()
		l.gate.Leave(first)
		synctest.Wait()
	}
}

func TestSEC221_TenantsEnterByTurns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		places   int
		visitors string
		leave    int
		want     string
	}{
		{"one alone, in order", 3, "aaaa", 2, "aaaa"},
		{"a flood and one more", 3, "aaaaaaaab", 1, "aaba"},
		{"two floods", 3, "aaaaabbbb", 6, "aabababab"},
		{"three", 2, "aaaabbc", 5, "ababca"},
		{"of two places one is kept", 2, "aaab", 0, "ab"},
		{"a single place is made two", 1, "aaab", 0, "ab"},
		{"a place is kept for others", 4, "aaaaa", 0, "aaa"},
		{"and given to them at once", 4, "aaaaab", 0, "aaab"},
		{"whoever has their share waits", 4, "aaaaab", 1, "aaaba"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &line{T: t, gate: admission.New(test.places, 100)}
				l.visit(test.visitors)
				l.next(test.leave)
				if got := strings.Join(l.came, ""); !strings.HasPrefix(got, test.want) || len(got) > len(test.want) {
					t.Errorf("got %s, want %s", got, test.want)
				}
				l.next(len(test.visitors) - test.leave)
				if len(l.came) != len(test.visitors) {
					t.Errorf("%d of %d came in", len(l.came), len(test.visitors))
				}
			})
		})
	}
}

func TestSEC221_AFullLineIsFullForItsTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{T: t, gate: admission.New(1, 2)}
		l.visit("aaa")
		if err := l.gate.Enter(t.Context(), "a"); !errors.Is(err, admission.ErrFull) {
			t.Errorf("got %v", err)
		}
		l.visit("b")
		// Who goes away takes no turn.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.gate.Enter(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		l.next(4)
		if got := strings.Join(l.came, ""); got != "abaa" {
			t.Errorf("got %s, want abaa", got)
		}
	})
}

// Whatever happens, no more are in than there are places, and in the end nobody is.
func TestPlacesAreNeitherLostNorMade(t *testing.T) {
	t.Parallel()
	const places = 5
	gate, in := admission.New(places, 50), atomic.Int64{}
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(200))*time.Microsecond)
				tenant := []string{"", "a", "b", "c"}[rand.IntN(4)]
				if rand.IntN(2) == 0 && gate.Try(tenant) || gate.Enter(ctx, tenant) == nil {
					if n := in.Add(1); n > places {
						t.Errorf("%d are in", n)
					}
					time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
					in.Add(-1)
					gate.Leave(tenant)
				}
				cancel()
			}
		})
	}
	group.Wait()
	for range places - places/4 {
		if err := gate.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := gate.Enter(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
}
