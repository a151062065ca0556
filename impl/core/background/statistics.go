package background

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store"
)

// Statistics analyzes tables that grow. Statements are planned once (package store), and for
// a table that seems to be empty any index will do: what begins with the instance would then
// be read through until autovacuum comes, which is once a minute. Whoever has the tables may
// do it, and doubling is seen twenty times on the way to a million rows.
func Statistics(on *store.DB) Task {
	return Task{Name: "statistics", Every: 5 * time.Second, Alone: true, Do: func(ctx context.Context) (more bool, err error) {
		rows, _ := on.Pool.Query(ctx, grown, fewRows)
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, table := range tables {
			if _, err := on.Pool.Exec(ctx, "ANALYZE "+table); err != nil {
				return false, err
			}
		}
		return false, err
	}}
}

// grown finds tables that have more than twice the rows that they had when they were last
// analyzed, with their names as SQL has them.
const grown = `SELECT c.oid::regclass::text FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND pg_stat_get_live_tuples(c.oid) > 2 * greatest(c.reltuples, $1::int)`

// fewRows are read through as fast as they are looked up.
const fewRows = 50
