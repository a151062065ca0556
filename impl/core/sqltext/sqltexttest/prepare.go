// Package sqltexttest holds files of statements to PostgreSQL.
package sqltexttest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/sqltext"
)

// Prepare has PostgreSQL parse and plan each statement of a file, on a migrated database.
func Prepare(t *testing.T, conn *pgx.Conn, file sqltext.File) {
	t.Helper()
	for name, statement := range file {
		if _, err := conn.Prepare(t.Context(), "", statement.Whole); err != nil {
			t.Errorf("%s: %v\n%s", name, err, statement.Whole)
		}
	}
}
