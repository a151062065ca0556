package background_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/background"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// A table is analyzed when it has twice the rows of before, not at each change.
func TestTablesThatGrowAreAnalyzed(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	on, err := store.Open(t.Context(), store.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(on.Close)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "ALTER TABLE revoked_tokens SET (autovacuum_enabled = false)"); err != nil {
		t.Fatal(err)
	}
	task := background.Statistics(on)
	// known adds rows and returns how many the planner knows of afterwards.
	known := func(from, to int) (rows int) {
		for _, sql := range []string{
			"INSERT INTO revoked_tokens SELECT 'i', n::text, now() FROM generate_series($1::int, $2::int) n",
			"SELECT pg_stat_force_next_flush() WHERE $1::int < $2::int",
		} {
			if _, err := conn.Exec(t.Context(), sql, from, to); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := task.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SELECT reltuples FROM pg_class WHERE relname = 'revoked_tokens'").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if rows := known(1, 40); rows != -1 {
		t.Errorf("of 40 rows it knows %d; so few need nothing", rows)
	}
	if rows := known(41, 300); rows != 300 {
		t.Errorf("of 300 rows it knows %d", rows)
	}
	if rows := known(301, 500); rows != 300 {
		t.Errorf("of 500 rows it knows %d; they have not doubled", rows)
	}
	if rows := known(501, 700); rows != 700 {
		t.Errorf("of 700 rows it knows %d", rows)
	}
}
