package store_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// TestREL013_BehindAPoolerNothingRunsWithoutItsLimit opens a database through what passes no
// settings on, and through what has them of its own.
func TestREL013_BehindAPoolerNothingRunsWithoutItsLimit(t *testing.T) {
	t.Parallel()
	direct := pgtest.New(t)
	db, err := store.Open(t.Context(), store.Config{URL: direct, Pooler: direct, MaxConns: 1})
	if err == nil {
		db.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "SET idle_in_transaction_session_timeout = 10000; SET lock_timeout = 5000; SET statement_timeout = 15000") {
		t.Errorf("without limits: %v, want the settings that are missing", err)
	}
	pooler, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	query := pooler.Query()
	query.Set("options", "-c idle_in_transaction_session_timeout=10000 -c lock_timeout=5000 -c statement_timeout=15000")
	pooler.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	db, err = store.Open(t.Context(), store.Config{URL: direct, Pooler: pooler.String(), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Another transaction may get another connection, which knows of no statement of this one.
	for range 2 {
		var prepared int
		if err := db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE $1 <> ''", "x").Scan(&prepared); err != nil || prepared > 0 {
			t.Errorf("%d statements are prepared, %v", prepared, err)
		}
	}
}
