package relocate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// table is one that has rows of instances.
type table struct {
	name    string
	key     string   // the column that says the instance
	columns []string // that are not generated
	after   []string // the tables that it refers to
}

// stays are the tables that are not copied, with the reason.
var stays = map[string]string{
	"goose_db_version": "is of the database",
	"master_keys":      "is of the database",
	"row_counts":       "is counted anew by triggers, and verified",
	"moved_instances":  "says what has left a database",
	"delivery_cursor":  "is of the system; what it knows of events is of the numbers of its server",
	"delivery_ahead":   "goes with the cursor",
}

// readTables returns the tables to copy, those first that others refer to. A table that
// has no instance and does not say why it stays is an error.
func readTables(ctx context.Context, conn *pgx.Conn) ([]table, error) {
	rows, err := conn.Query(ctx, `SELECT c.relname,
			array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE a.attgenerated = ''),
			ARRAY(SELECT DISTINCT r.relname::text FROM pg_constraint k JOIN pg_class r ON r.oid = k.confrelid
				WHERE k.conrelid = c.oid AND k.contype = 'f' AND NOT k.condeferrable AND r.oid <> c.oid)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') GROUP BY c.oid, c.relname ORDER BY c.relname`)
	if err != nil {
		return nil, err
	}
	var all []table
	var t table
	if _, err := pgx.ForEachRow(rows, []any{&t.name, &t.columns, &t.after}, func() error {
		one := t
		t = table{}
		switch {
		case stays[one.name] != "":
			return nil
		case one.name == "instances":
			one.key = "id"
		case slices.Contains(one.columns, "instance_id"):
			one.key = "instance_id"
		default:
			return fmt.Errorf("the table %s has no instance, and does not say why it stays", one.name)
		}
		all = append(all, one)
		return nil
	}); err != nil {
		return nil, err
	}
	return inOrder(all)
}

// inOrder sorts tables behind those that they refer to.
func inOrder(all []table) ([]table, error) {
	sorted := make([]table, 0, len(all))
	done := map[string]bool{}
	for len(sorted) < len(all) {
		before := len(sorted)
		for _, t := range all {
			ready := !slices.ContainsFunc(t.after, func(name string) bool { return !done[name] })
			if !done[t.name] && ready {
				sorted, done[t.name] = append(sorted, t), true
			}
		}
		if len(sorted) == before {
			return nil, fmt.Errorf("tables refer to one another in a circle")
		}
	}
	return sorted, nil
}

// list returns the columns for SQL. All names are those of the catalog.
func (t *table) list() string {
	quoted := make([]string, len(t.columns))
	for i, column := range t.columns {
		quoted[i] = pgx.Identifier{column}.Sanitize()
	}
	return strings.Join(quoted, ", ")
}

// literal returns a text for SQL that takes no parameters.
func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'" // standard_conforming_strings is on
}
