package event_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// settled returns the IDs of the objects of the events of an instance below its bound, in order.
func settled(t *testing.T, conn db.DBTX, instance string) (ids []string) {
	t.Helper()
	below := uint64(0)
	if err := conn.QueryRow(t.Context(), "SELECT events_settled($1)", instance).Scan(&below); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "SELECT aggregate_id FROM events WHERE instance_id = $1 AND xid < $2 ORDER BY xid, sequence", instance, below)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestREL108_AnOpenTransactionHoldsBackItsInstanceOnly has transactions open in one instance,
// in another database, and in one that appends nothing.
func TestREL108_AnOpenTransactionHoldsBackItsInstanceOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	one, other := pgtest.Open(t, 6), pgtest.Open(t, 2)
	begin := func(of *store.DB) pgx.Tx {
		tx, err := of.Pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(ctx) })
		if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	appendTo := func(conn db.DBTX, instance, id string) {
		t.Helper()
		e := anEvent(id)
		e.InstanceID = instance
		if _, err := event.Append(ctx, conn, e); err != nil {
			t.Fatal(err)
		}
	}
	begin(other)
	begin(one) // which changes much and tells nothing yet, as a dry run
	slow, early := begin(one), begin(one)
	appendTo(slow, "a", "slow")
	appendTo(one.Pool, "a", "late")
	appendTo(one.Pool, "b", "theirs")
	if got := fmt.Sprint(settled(t, one.Pool, "a"), settled(t, one.Pool, "b")); got != "[] [theirs]" {
		t.Errorf("while a transaction of a is open, a and b read %s", got)
	}
	// A transaction may be older than what was read, and begin to tell now.
	appendTo(early, "b", "early")
	appendTo(one.Pool, "b", "after")
	if got := fmt.Sprint(settled(t, one.Pool, "b")); strings.Contains(got, "after") {
		t.Errorf("b reads %s, and something may come before", got)
	}
	if err := errors.Join(early.Commit(ctx), slow.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := db.New().PassTransaction(ctx, one.Pool); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(settled(t, one.Pool, "a"), settled(t, one.Pool, "b")); got != "[slow late] [theirs early after]" {
		t.Errorf("at last a and b read %s", got)
	}
}

// TestREL035_FollowersOfInstancesMissNothing has transactions that get their number early,
// write to two of three instances, late and some of it not, while each instance is followed by itself.
func TestREL035_FollowersOfInstancesMissNothing(t *testing.T) {
	t.Parallel()
	const writers, rounds = 16, 30
	ctx := t.Context()
	database := pgtest.Open(t, writers+4)
	var mu sync.Mutex
	committed := map[string]int{}
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for round := range rounds {
				kept := []string{}
				err := pgx.BeginFunc(ctx, database.Pool, func(tx pgx.Tx) error {
					if rand.IntN(2) == 0 { // its number is taken before others write
						if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
							return err
						}
						time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
					}
					for part := range 2 {
						e := anEvent(fmt.Sprintf("%d/%d/%d", writer, round, part))
						e.InstanceID = string(rune('a' + rand.IntN(3)))
						point, err := tx.Begin(ctx)
						if err != nil {
							return err
						}
						if _, err := event.Append(ctx, point, e); err != nil {
							return err
						}
						if rand.IntN(5) == 0 { // the lock goes back to the savepoint with it
							err = point.Rollback(ctx)
						} else {
							kept, err = append(kept, e.InstanceID+e.ObjectID), point.Commit(ctx)
						}
						if err != nil {
							return err
						}
						time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
					}
					return nil
				})
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
				mu.Lock()
				for _, id := range kept {
					committed[id]++
				}
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	seen := map[string]int{}
	var following sync.WaitGroup
	for _, instance := range []string{"a", "b", "c"} {
		following.Go(func() {
			var last event.Position
			for over := false; ; {
				var below uint64
				err := database.Pool.QueryRow(ctx, "SELECT events_settled($1)", instance).Scan(&below)
				rows, _ := database.Pool.Query(ctx, `SELECT aggregate_id, xid, sequence FROM events WHERE instance_id = $1 AND (xid, sequence) > ($2::xid8, $3::bigint) AND xid < $4
					ORDER BY xid, sequence LIMIT 5`, instance, last.Xid, last.Sequence, below)
				n, id := 0, ""
				if _, scanned := pgx.ForEachRow(rows, []any{&id, &last.Xid, &last.Sequence}, func() error {
					n++
					mu.Lock()
					defer mu.Unlock()
					seen[instance+id]++
					return nil
				}); err != nil || scanned != nil {
					t.Errorf("read: %v, %v", err, scanned)
					return
				}
				if over && n == 0 {
					return
				}
				select {
				case <-done:
					if err := db.New().PassTransaction(ctx, database.Pool); err != nil {
						t.Error(err)
					}
					over = n == 0
				default:
				}
			}
		})
	}
	following.Wait()
	if len(committed) < writers*rounds {
		t.Errorf("only %d events were committed: this proves little", len(committed))
	}
	for id := range committed {
		if seen[id] != 1 {
			t.Errorf("event %s was seen %d times, want once", id, seen[id])
		}
	}
	if len(seen) != len(committed) {
		t.Errorf("%d events were seen of %d", len(seen), len(committed))
	}
}
