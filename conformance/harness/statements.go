package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
)

// The servers and the suite have roles of their own, so that it is known whose statements
// the database ran.
const serverRole, suiteRole = "writ", "suite"

// statistics returns what makes `writ dev` count statements, nothing where PostgreSQL does
// not bring the module for it.
func statistics() []string {
	for _, place := range []string{"/usr/lib/postgresql/*/lib/", "/opt/homebrew/lib/postgresql*/", "/usr/local/lib/postgresql*/"} {
		if found, _ := filepath.Glob(place + "pg_stat_statements.*"); len(found) > 0 { // fails only on a malformed pattern
			return []string{"--postgres-setting", "shared_preload_libraries=pg_stat_statements", "--postgres-setting", "pg_stat_statements.track=all",
				"--postgres-setting", "pg_stat_statements.max=20000"}
		}
	}
	return nil
}

// observe prepares the database of s for the suite.
func (s *Server) observe() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	url, err := s.databaseURL(serverRole)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN", suiteRole))
	if err == nil && statistics() != nil {
		_, err = conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements; SELECT pg_stat_statements_reset()")
	}
	return err
}

// Statements returns each statement that servers on the database of s ran until now, also
// within functions, with parameters for its values; nothing where that is not known.
func (s *Server) Statements(ctx context.Context) ([]string, error) {
	url, err := s.DatabaseURL()
	if url == "" || err != nil || statistics() == nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT query FROM pg_stat_statements WHERE userid = $1::regrole ORDER BY calls DESC", serverRole)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.Compact(all), err
}
