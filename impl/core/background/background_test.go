package background

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// start runs tasks on the clock of the bubble until the returned function is called,
// which waits for their end.
func start(s *Scheduler) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

func quiet() *Scheduler { return &Scheduler{Logger: slog.New(slog.DiscardHandler)} }

func TestATaskIsDoneAtOnceAndThenAfterPausesThatDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		s := quiet()
		s.Add(Task{Name: "it", Every: time.Minute, Do: func(context.Context) (bool, error) {
			at = append(at, time.Now())
			return false, nil
		}})
		begun := time.Now()
		end := start(s)
		time.Sleep(10 * time.Minute)
		end()
		if len(at) < 9 || !at[0].Equal(begun) {
			t.Fatalf("in ten minutes it was done at %v", at)
		}
		pauses := map[time.Duration]bool{}
		for i := 1; i < len(at); i++ {
			pause := at[i].Sub(at[i-1])
			if pauses[pause] = true; pause < 54*time.Second || pause > 66*time.Second {
				t.Errorf("a pause of %s, want a minute give or take a tenth", pause)
			}
		}
		if len(pauses) == 1 {
			t.Error("all pauses are the same, so nodes that start together stay together")
		}
	})
}

func TestThereIsNoPauseWhileThereIsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left, deleted := int64(12_000), []int64{}
		s := quiet()
		s.Add(unguarded(Sweeping("rows", time.Now, func(_ context.Context, _ time.Time, batch int32) (int64, error) {
			n := min(left, int64(batch))
			left -= n
			deleted = append(deleted, n)
			return n, nil
		})))
		end := start(s)
		synctest.Wait()
		end()
		if len(deleted) != 3 || left != 0 {
			t.Errorf("without a pause %v were swept and %d are left", deleted, left)
		}
	})
}

// unguarded is a task without the lock, which takes a database.
func unguarded(t Task) Task {
	t.Alone = false
	return t
}

func TestWhatFailsIsTriedEverLaterAndToldAFewTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Scheduler{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		var at []time.Time
		var runs atomic.Int32
		var broken atomic.Bool
		broken.Store(true)
		s.Add(Task{Name: "it", Every: 10 * time.Second, Do: func(context.Context) (bool, error) {
			at = append(at, time.Now())
			runs.Add(1)
			if broken.Load() {
				return true, errors.New("an outage")
			}
			return false, nil
		}})
		end := start(s)
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		broken.Store(false)
		failed := int(runs.Load())
		time.Sleep(longestPause + time.Minute)
		end()
		for i, want := range []time.Duration{20, 40, 80, 160, 300, 300} {
			if got := at[i+1].Sub(at[i]).Seconds() / float64(want); got < 0.9 || got > 1.1 {
				t.Errorf("after failure %d it was tried again %s later, want about %ds", i+1, at[i+1].Sub(at[i]), want)
			}
		}
		if told := strings.Count(log.String(), "it fails"); failed < 12 || told != 4 {
			t.Errorf("%d failures were told %d times, want the 1st, 2nd, 4th and 8th:\n%s", failed, told, &log)
		}
		if strings.Count(log.String(), "it works again") != 1 {
			t.Errorf("that it works again is not told once:\n%s", &log)
		}
		if next := at[failed+1].Sub(at[failed]); next > 11*time.Second {
			t.Errorf("working again it pauses for %s", next)
		}
	})
}

func TestAWakeAndAMovedClockEndThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var moves atomic.Pointer[chan struct{}]
		move := func() {
			next := make(chan struct{})
			if last := moves.Swap(&next); last != nil {
				close(*last)
			}
		}
		move()
		var runs, others atomic.Int32
		s := quiet()
		s.Moved = func() <-chan struct{} { return *moves.Load() }
		wake := NewWake()
		s.Add(Task{Name: "it", Every: time.Hour, Wake: wake, Do: func(context.Context) (bool, error) { runs.Add(1); return false, nil }})
		s.Add(Task{Name: "another", Every: time.Hour, Do: func(context.Context) (bool, error) { others.Add(1); return false, nil }})
		end := start(s)
		synctest.Wait()
		wake.Now()
		wake.Now()
		synctest.Wait()
		if n := runs.Swap(0); n < 2 || n > 3 || others.Load() != 1 {
			t.Errorf("woken it ran %d times and the other one %d times", n, others.Load())
		}
		move()
		synctest.Wait()
		if runs.Load() != 1 || others.Load() != 2 {
			t.Errorf("when the clock moved they ran %d and %d times", runs.Load(), others.Load())
		}
		end()
	})
}

func TestREL070_TheEndWaitsForWhatIsUnderWayButNotForGood(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		takes   time.Duration
		wantErr error
	}{
		{"a part that ends by itself is not broken off", endLimit - time.Second, nil},
		{"one that does not is", time.Hour, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, ended, runs := quiet(), errors.New("it is not over"), 0
				s.Add(Task{Name: "it", Every: time.Second, Do: func(ctx context.Context) (bool, error) {
					runs++
					select {
					case <-time.After(test.takes):
						ended = nil
					case <-ctx.Done():
						ended = ctx.Err()
					}
					return true, ended
				}})
				end := start(s)
				synctest.Wait()
				begun := time.Now()
				end()
				if !errors.Is(ended, test.wantErr) || runs != 1 {
					t.Errorf("after %d runs got %v, want %v", runs, ended, test.wantErr)
				}
				if took := time.Since(begun); took != min(test.takes, endLimit) {
					t.Errorf("the end took %s", took)
				}
			})
		})
	}
}
