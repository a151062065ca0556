package transfer_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/sqltext"
	"github.com/writ-id/writ/impl/core/sqltext/sqltexttest"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// TestPostgreSQLTakesWhatMarksStagedItems prepares the statements of an import beside the
// tables that are there while one runs.
func TestPostgreSQLTakesWhatMarksStagedItems(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("staged.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	file := sqltext.Read(string(text))
	stage := []string{"BEGIN", file.SQL("NoteEvents")}
	for _, kind := range storage.Moved {
		stage = append(stage, kind.Stage)
	}
	for _, sql := range stage {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
	sqltexttest.Prepare(t, conn, file)
}
