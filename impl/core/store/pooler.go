package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A pooler in transaction mode (PgBouncer) gives each transaction another connection to
// the database. So nothing is left on one: statements are described once, but not
// prepared, and locks and settings are those of transactions (Lead, writ.actor). Such a
// statement is planned for its values each time it runs, so the settings of byKey and
// byValue are not needed.
//
// What a connection is told when it is made, a pooler does not pass on. It, or the role,
// has to have the settings that nothing may run without.

func throughPooler(config *pgx.ConnConfig) {
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
}

// checkPooler fails unless statements that come through the pooler end in time.
func checkPooler(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, "SELECT name FROM pg_settings WHERE name = ANY($1) AND setting = '0'", slices.Collect(maps.Keys(safe)))
	if err != nil {
		return err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(missing) == 0 {
		return err
	}
	slices.Sort(missing)
	var settings []string
	for _, name := range missing {
		settings = append(settings, fmt.Sprintf("SET %s = %s", name, safe[name]))
	}
	return fmt.Errorf("behind the pooler nothing ends statements that take too long: add to the connect_query of its database (PgBouncer), or to the role by ALTER ROLE: %s",
		strings.Join(settings, "; "))
}
