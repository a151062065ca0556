package contract

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/conformance/harness"
	"github.com/writ-id/writ/sql/distribution"
)

// What is in sql/queries is bound to instances by a test there. Searches are put together
// while they run, and functions and triggers have statements of their own: TestMain looks at
// all that the database ran for the suite.

// checkDistribution returns which statements that a server ran are of no instance.
func checkDistribution(server *harness.Server) error {
	url, err := server.DatabaseURL()
	if err != nil || url == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	statements, err := server.Statements(ctx)
	if err != nil {
		return err
	}
	if statements == nil {
		fmt.Fprintln(os.Stderr, "contract: statements are not looked at: this PostgreSQL has no pg_stat_statements")
		return nil
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tables, _, err := distribution.ReadTables(ctx, conn)
	if err != nil {
		return err
	}
	var wrong []string
	bound := 0
	for _, sql := range statements {
		loose, err := tables.Loose(sql)
		name := distribution.Name(sql)
		switch {
		case err != nil:
			wrong = append(wrong, err.Error())
		case len(loose) == 0:
			bound++
		case distribution.System[name] == "" && !slices.ContainsFunc(slices.Collect(maps.Keys(distribution.SystemTexts)), func(part string) bool { return strings.Contains(sql, part) }):
			wrong = append(wrong, fmt.Sprintf("%s (%s)", sql, strings.Join(loose, "; ")))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d statements are of no instance, %d are:\n%s", len(wrong), bound, strings.Join(wrong, "\n\n"))
	}
	return nil
}
