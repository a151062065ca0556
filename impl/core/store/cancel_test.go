package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// Who goes away in the middle of a statement or transaction leaves the connection to
// the next, and no statement behind.
func TestREL013_ACancelledCallFreesItsConnectionAndLeavesItWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, 1)
	backend := func() (pid int) {
		if err := db.Pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	first := backend()
	leaving := func() context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		return ctx
	}
	for range 5 {
		_, _ = db.Pool.Exec(leaving(), "SELECT pg_sleep(0.1)") // it may end as if nothing was
		ctx := leaving()
		_ = db.InTx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "CREATE TABLE left_behind ()")
			<-ctx.Done()
			return errors.Join(err, ctx.Err())
		})
	}
	// A long one is cancelled, and not by its own limit.
	_, err := db.Pool.Exec(leaving(), "SELECT pg_sleep(14)")
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Message != "canceling statement due to user request" {
		t.Errorf("got %v", err)
	}
	if last := backend(); last != first {
		t.Error("the connection is another one")
	}
	var there bool
	if err := db.Pool.QueryRow(t.Context(), "SELECT to_regclass('left_behind') IS NOT NULL").Scan(&there); err != nil || there {
		t.Errorf("a transaction that was broken off is there: %v, %v", there, err)
	}
}
