package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestCommitsAreHeardByThoseWhoAsk(t *testing.T) {
	t.Parallel()
	db := pgtest.Open(t, 2)
	var first, second int
	stop := db.OnCommit(func() { first++ })
	defer db.OnCommit(func() { second++ })()
	do := func(name string, want [2]int, err error, fn func(pgx.Tx) error) {
		t.Helper()
		first, second = 0, 0
		if got := db.InTx(t.Context(), fn); !errors.Is(got, err) {
			t.Fatalf("%s: %v", name, got)
		}
		if got := [2]int{first, second}; got != want {
			t.Errorf("%s was heard %v times, want %v", name, got, want)
		}
	}
	nothing, wrong := func(pgx.Tx) error { return nil }, errors.New("wrong")
	do("a commit", [2]int{1, 1}, nil, nothing)
	do("what is rolled back", [2]int{}, wrong, func(pgx.Tx) error { return wrong })
	do("a transaction with another one inside", [2]int{1, 1}, nil, func(tx pgx.Tx) error {
		within := db.In(tx)
		within.Committed()
		return within.InTx(t.Context(), nothing)
	})
	stop()
	do("a commit after one stopped", [2]int{0, 1}, nil, nothing)
}
