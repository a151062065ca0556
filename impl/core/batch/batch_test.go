package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// gate is a statement that goes on when it is let.
type gate struct {
	mu      sync.Mutex
	batches [][]int
	open    chan struct{}
}

func (g *gate) do(_ context.Context, questions []int) ([]int, error) {
	g.mu.Lock()
	g.batches = append(g.batches, slices.Clone(questions))
	g.mu.Unlock()
	<-g.open
	answers := make([]int, len(questions))
	for i, q := range questions {
		answers[i] = 10 * q
	}
	return answers, nil
}

// What is asked while a statement is under way goes with the next one, and everybody gets
// their own answer.
func TestWhatWaitsGoesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		b := Writer(g.do)
		var asked sync.WaitGroup
		ask := func(q int) {
			asked.Go(func() {
				if a, err := b.Ask(t.Context(), q); a != 10*q || err != nil {
					t.Errorf("the answer to %d is %d, %v", q, a, err)
				}
			})
			synctest.Wait()
		}
		ask(1)
		ask(2)
		ask(3)
		close(g.open)
		asked.Wait()
		if len(g.batches) != 2 || !slices.Equal(g.batches[0], []int{1}) || !slices.Equal(g.batches[1], []int{2, 3}) {
			t.Errorf("the statements were of %v", g.batches)
		}
	})
}

// Who goes away while a statement runs leaves the others theirs, and is not undone.
func TestWhoGoesAwayTakesNothingAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		b := Writer(g.do)
		ctx, cancel := context.WithCancel(t.Context())
		var asked sync.WaitGroup
		asked.Go(func() {
			if _, err := b.Ask(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("who went away got %v", err)
			}
		})
		synctest.Wait()
		asked.Go(func() {
			if a, err := b.Ask(t.Context(), 2); a != 20 || err != nil {
				t.Errorf("who stayed got %d, %v", a, err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(g.open)
		asked.Wait()
		if len(g.batches) != 2 {
			t.Errorf("the statements were of %v", g.batches)
		}
	})
}

// A question that the database refuses fails alone; a lost connection is not tried again.
func TestNoneFailsForAnother(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	tries := 0
	b := Writer(func(_ context.Context, questions []string) ([]string, error) {
		tries++
		switch {
		case slices.Contains(questions, "lost"):
			return nil, lost
		case slices.Contains(questions, "bad"):
			return nil, &pgconn.PgError{Code: "22021"}
		}
		return questions, nil
	})
	of := func(questions ...string) (errs []error) {
		var batch []*entry[string, string]
		for _, q := range questions {
			batch = append(batch, &entry[string, string]{q, make(chan answer[string], 1)})
		}
		b.answer(batch)
		for i, e := range batch {
			a := <-e.done
			if a.err == nil && a.value != questions[i] {
				t.Errorf("the answer to %q is %q", questions[i], a.value)
			}
			errs = append(errs, a.err)
		}
		return errs
	}
	if errs := of("a", "bad", "b"); errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("a, bad, b: %v", errs)
	}
	tries = 0
	if errs := of("a", "lost"); !errors.Is(errs[0], lost) || !errors.Is(errs[1], lost) || tries != 1 {
		t.Errorf("a lost connection: %v after %d tries", errs, tries)
	}
}

// Nobody waits for long behind a read that hangs.
func TestAReadThatHangsHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		b := Reader(func(_ context.Context, questions []int) ([]int, error) {
			if questions[0] < 0 {
				<-hang
			}
			return questions, nil
		})
		var asked sync.WaitGroup
		for i := range b.lanes {
			asked.Go(func() { _, _ = b.Ask(t.Context(), -1-i) })
			synctest.Wait()
		}
		done := make(chan int, 2)
		asked.Go(func() { a, _ := b.Ask(t.Context(), 1); done <- a })
		synctest.Wait()
		if len(done) != 0 {
			t.Error("a read that is short is not waited for")
		}
		time.Sleep(2 * patience)
		asked.Go(func() { a, _ := b.Ask(t.Context(), 2); done <- a })
		synctest.Wait()
		if len(done) != 2 {
			t.Errorf("%d of 2 were answered behind a read that hangs", len(done))
		}
		close(hang)
		asked.Wait()
	})
}
