package event_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestREL035_AReaderSeesEveryEventExactlyOnce lets 32 writers append with
// random delays between taking a sequence and committing, some of them rolling
// back, while a reader follows the positions.
func TestREL035_AReaderSeesEveryEventExactlyOnce(t *testing.T) {
	t.Parallel()
	const writers, rounds = 32, 20
	ctx := t.Context()
	db := pgtest.Open(t, writers+2)

	var mu sync.Mutex
	committed := map[string]bool{}
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for round := range rounds {
				id := fmt.Sprintf("%d/%d", writer, round)
				errRolledBack := fmt.Errorf("rolled back")
				err := pgx.BeginFunc(ctx, db.Pool, func(tx pgx.Tx) error {
					for range 1 + rand.IntN(2) { // sometimes two events in one transaction
						if _, err := event.Append(ctx, tx, anEvent(id)); err != nil {
							return err
						}
						id += "+"
					}
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // commits out of order
					if rand.IntN(10) == 0 {
						return errRolledBack
					}
					return nil
				})
				if errors.Is(err, errRolledBack) {
					continue
				}
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
				mu.Lock()
				for ; len(id) > 0 && id[len(id)-1] == '+'; id = id[:len(id)-1] {
					committed[id[:len(id)-1]] = true
				}
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()

	seen := map[string]int{}
	var last event.Position
	finished := false
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		events, next, err := event.Read(ctx, db.Pool, last, 7)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		for _, e := range events {
			seen[e.AggregateID]++
		}
		last = next
		if len(events) == 0 {
			if finished && len(seen) >= len(committed) {
				break
			}
			select {
			case <-done:
				finished = true // what committed last is still to be read
			case <-time.After(time.Millisecond):
			}
			if finished {
				time.Sleep(time.Millisecond)
			}
		}
	}
	if !finished {
		t.Fatal("the writers did not finish")
	}
	for id := range committed {
		if seen[id] != 1 {
			t.Errorf("event %s was seen %d times, want once", id, seen[id])
		}
	}
	for id := range seen {
		if !committed[id] {
			t.Errorf("event %s was seen, but its transaction rolled back", id)
		}
	}
	if len(committed) < writers*rounds/2 {
		t.Errorf("only %d events were committed; the test proves little", len(committed))
	}
}

// TestREL035_OrderBySequenceAloneWouldLoseEvents is the control: it shows the
// failure that the reader's order prevents, so that the test above can fail.
func TestREL035_OrderBySequenceAloneWouldLoseEvents(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := pgtest.Open(t, 4)
	slow, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Rollback(ctx) }()
	early, err := event.Append(ctx, slow, anEvent("early"))
	if err != nil {
		t.Fatal(err)
	}
	late, err := event.Append(ctx, db.Pool, anEvent("late"))
	if err != nil {
		t.Fatal(err)
	}
	if early >= late {
		t.Fatalf("got sequences %d and %d, want the slow writer's to be lower", early, late)
	}
	if events, _, err := event.Read(ctx, db.Pool, event.Position{}, 10); err != nil || len(events) != 0 {
		t.Errorf("got %d events and %v while an older transaction runs, want none", len(events), err)
	}
	if err := slow.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	// Transaction IDs belong to the whole server, so transactions of other tests'
	// databases can hold the reader back for a moment.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		events, _, err := event.Read(ctx, db.Pool, event.Position{}, 10)
		if err == nil && len(events) == 2 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("got %d events and %v after it committed, want both", len(events), err)
		}
	}
}

func anEvent(id string) event.Event {
	return event.Event{
		InstanceID: "instance", ObjectID: id, Payload: &eventv1.TargetRemoved{}, Cause: event.Cause{Creator: "test", At: time.Now().UTC()},
		Owner: &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: "instance"},
	}
}

func TestTheCatalogueKnowsEventsGroupsAndFunctions(t *testing.T) {
	t.Parallel()
	for name, got := range map[string]bool{
		"event target.added":     event.Known.HasEvent("target.added"),
		"no event target":        !event.Known.HasEvent("target"),
		"no event target.add":    !event.Known.HasEvent("target.add"),
		"group target":           event.Known.HasGroup("target"),
		"group user.human":       event.Known.HasGroup("user.human"),
		"no group targ":          !event.Known.HasGroup("targ"),
		"no group target.added":  !event.Known.HasGroup("target.added"),
		"no empty group":         !event.Known.HasGroup(""),
		"function preuserinfo":   event.Known.HasFunction("preuserinfo"),
		"no function preuserinf": !event.Known.HasFunction("preuserinf"),
	} {
		if !got {
			t.Errorf("not so: %s", name)
		}
	}
}
