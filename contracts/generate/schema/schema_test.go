package schema_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/contracts/generate/schema"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestTheSchemaThatIsReadIsThatOfTheDatabase compares what package schema makes of the
// migrations with what PostgreSQL does, column by column and key by key.
func TestTheSchemaThatIsReadIsThatOfTheDatabase(t *testing.T) {
	t.Parallel()
	read, err := schema.Read("../../../sql/migrations")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, table := range read {
		for _, c := range table.Columns {
			generated := ""
			if c.Generated {
				generated = " generated"
			}
			got = append(got, table.Name+"."+c.Name+generated)
		}
		for _, k := range table.Keys {
			got = append(got, table.Name+" "+[]string{"p", "u", "f"}[k.Kind]+" "+k.Name+" "+k.To)
		}
	}
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `WITH own AS (
			SELECT c.oid, c.relname::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = 'public' AND c.relkind = 'r' AND c.relname <> 'goose_db_version')
		SELECT o.name || '.' || a.attname || CASE WHEN a.attgenerated <> '' OR a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) ~ '^\w+\(' THEN ' generated' ELSE '' END FROM own o
		JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
			LEFT JOIN pg_attrdef d ON d.adrelid = o.oid AND d.adnum = a.attnum
		UNION ALL SELECT o.name || ' ' || k.contype::text || ' ' || k.conname || ' ' || coalesce((SELECT f.relname FROM pg_class f WHERE f.oid = k.confrelid), '') FROM own o
		JOIN pg_constraint k ON k.conrelid = o.oid AND k.contype IN ('p', 'u', 'f')
		UNION ALL SELECT o.name || ' u ' || x.relname || ' ' FROM own o JOIN pg_index i ON i.indrelid = o.oid AND i.indisunique
		JOIN pg_class x ON x.oid = i.indexrelid WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u'))`)
	if err != nil {
		t.Fatal(err)
	}
	want, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the database has %q, which was not read", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%q was read, which the database does not have", line)
		}
	}
	if len(want) < 400 {
		t.Errorf("the database has %d columns and keys", len(want))
	}
}
