package distribution_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/sql/distribution"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// migrated returns a connection to a migrated database and its tables.
func migrated(t *testing.T) (*pgx.Conn, distribution.Tables, []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tables, others, err := distribution.ReadTables(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, tables, others
}

// TestEveryStatementIsBoundToAnInstance reads all of sql/queries. What is not bound says
// why in distribution.System; what needs no reason any more is not there.
func TestEveryStatementIsBoundToAnInstance(t *testing.T) {
	t.Parallel()
	_, tables, _ := migrated(t)
	files, err := filepath.Glob("../queries/*.sql")
	generated, globErr := filepath.Glob("../queries/generated/*.sql")
	if err != nil || globErr != nil || len(generated) == 0 {
		t.Fatal(err, globErr)
	}
	loose := map[string]bool{}
	for _, file := range append(files, generated...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.SplitAfter("\n"+string(text), "\n-- name: ")[1:] {
			name, _, _ := strings.Cut(part, " ")
			statement := "-- name: " + strings.TrimSuffix(part, "-- name: ")
			found, err := tables.Loose(distribution.Plain(statement))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if len(found) == 0 {
				continue
			}
			loose[name] = true
			if distribution.System[name] == "" {
				t.Errorf("%s (%s) is of no instance: %s; bind it, or say in distribution.System why it is of all", name, filepath.Base(file), strings.Join(found, "; "))
			}
		}
	}
	for name := range distribution.System {
		if !loose[name] {
			t.Errorf("%s is bound to an instance, or gone: distribution.System need not name it", name)
		}
	}
}

// TestWhatIsInTheSchemaIsBoundToAnInstance looks at tables, keys, views and functions.
func TestWhatIsInTheSchemaIsBoundToAnInstance(t *testing.T) {
	t.Parallel()
	conn, tables, others := migrated(t)
	if slices.Sort(others); !slices.Equal(others, distribution.Undistributed) {
		t.Errorf("%q have no instance, want %q", others, distribution.Undistributed)
	}
	lines := func(sql string) []string {
		rows, err := conn.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	listed := map[string]bool{}
	for _, names := range []map[string]string{distribution.Global, distribution.Anywhere} {
		for name := range names {
			listed[name] = true
		}
	}
	for what, sql := range map[string]string{
		"unique without the instance": `SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = 'public' AND i.indisunique AND c.relname NOT IN ('goose_db_version', 'master_keys') AND NOT EXISTS (
				SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attname = CASE WHEN c.relname = 'instances' THEN 'id' ELSE 'instance_id' END)`,
		"referring without the instance": `SELECT k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
			WHERE k.contype = 'f' AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (k.conkey) AND a.attname IN ('instance_id', 'of_instance'))`,
	} {
		for _, name := range lines(sql) {
			if !listed[name] {
				t.Errorf("%s is %s", name, what)
			}
			delete(listed, name)
		}
	}
	if len(listed) > 0 {
		t.Errorf("%v are bound to an instance, or gone", listed)
	}
	for _, view := range lines("SELECT format('%s %s', viewname, definition) FROM pg_views WHERE schemaname = 'public'") {
		name, definition, _ := strings.Cut(view, " ")
		if loose, err := tables.LooseView(definition); err != nil || len(loose) > 0 {
			t.Errorf("the view %s: %v, %v", name, loose, err)
		}
	}
}
