package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
)

// growing are the tables with more rows the more a tenant is used: no statement may read
// all of them, or all of a tenant.
var growing = []string{"browser_tries", "deliveries", "events", "oauth_grants", "one_time_codes", "revoked_tokens", "sessions", "used_assertions", "user_codes", "user_grants", "user_metadata", "users"}

// TestNoStatementReadsAllOfATenant plans every statement of sql/queries as the pool has
// it planned, for tables of a thousand rows and of a million. Of empty tables the planner
// cannot tell one index from another: what it chooses then is only told, with -v. Such a plan
// lasts until autovacuum analyzes the table for the first time.
func TestNoStatementReadsAllOfATenant(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for name, value := range store.ByKey {
		if _, err := conn.Exec(t.Context(), "SELECT set_config($1, $2, false)", name, value); err != nil {
			t.Fatal(err)
		}
	}
	statements := queries(t)
	if len(statements) < 300 {
		t.Fatalf("%d statements were found; sqlc's constants are named otherwise", len(statements))
	}
	used := map[string]bool{}
	for _, size := range []struct {
		rows int
		by   []string
	}{{0, nil}, {1_000, []string{fill, "VACUUM ANALYZE"}}, {1_000_000, []string{multiply}}} {
		rows := size.rows
		for _, sql := range size.by {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(statements)) {
			for _, scan := range scans(t, conn, name, statements[name]) {
				_, known := readsAll[name]
				switch {
				case rows == 0:
					t.Logf("empty tables: %s reads %s", name, scan)
				case known:
					used[name] = true
				default:
					t.Errorf("%d rows: %s reads %s", rows, name, scan)
				}
			}
		}
	}
	for _, control := range []string{
		"SELECT id FROM users WHERE instance_id = $1 AND nick_name = $2",
		"SELECT id FROM sessions ORDER BY description LIMIT 10",
	} {
		if len(scans(t, conn, "control", control)) == 0 {
			t.Errorf("%s reads nothing whole, so this test sees nothing", control)
		}
	}
	for name := range readsAll {
		if !used[name] {
			t.Errorf("%s is excused and does not read all of a tenant", name)
		}
	}
}

// readsAll are the statements that may, and why.
var readsAll = map[string]string{
	"forgetInstance": "all of an instance goes",
}

// queries returns the constants that sqlc generates, by name.
func queries(t *testing.T) map[string]string {
	files, err := filepath.Glob("../../../gen/db/*.sql.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			constants, ok := declared.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok || len(value.Values) != 1 {
					continue
				}
				literal, ok := value.Values[0].(*ast.BasicLit)
				if !ok {
					continue
				}
				if text, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(text, "-- name: ") && !strings.Contains(text, "\nSET ") { // settings have no plan
					all[value.Names[0].Name] = text
				}
			}
		}
	}
	return all
}

// fill gives every table a thousand rows of one instance that differ in all their texts.
const fill = `DO $$ DECLARE c record; BEGIN
	FOR c IN SELECT conrelid::regclass AS t, conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace LOOP
		EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.t, c.conname);
	END LOOP;
	SET LOCAL session_replication_role = replica;
	FOR c IN SELECT a.attrelid::regclass AS t, string_agg(quote_ident(a.attname), ',') AS names, string_agg(CASE
			WHEN a.attname = 'instance_id' THEN '''one'''
			WHEN y.typcategory = 'A' THEN '''{}''' WHEN y.typname = 'jsonb' THEN '''{}''' WHEN y.typname = 'bytea' THEN 'sha256(n::text::bytea)'
			WHEN y.typname = 'xid8' THEN 'n::text::xid8' WHEN y.typname = 'int2' THEN 'n % 4' WHEN y.typcategory = 'N' THEN 'n'
			WHEN y.typcategory = 'B' THEN 'n % 2 = 0' WHEN y.typcategory = 'D' THEN 'now() + n * interval ''1 second'''
			WHEN y.typcategory = 'T' THEN '''1s''' ELSE 'md5(n::text)' END, ',') AS vals
		FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid JOIN pg_type y ON y.oid = a.atttypid
		WHERE r.relkind = 'r' AND r.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' GROUP BY 1 LOOP
		EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM generate_series(1, 1000) n ON CONFLICT DO NOTHING', c.t, c.names, c.vals);
	END LOOP;
END $$`

// multiply makes the planner believe in a thousand times as many: it takes the rows for each
// page from here, and the pages from the files.
const multiply = "UPDATE pg_class SET reltuples = reltuples * 1000 WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"

// plan is a node of EXPLAIN.
type plan struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	Order    string `json:"Order By"`
	Parent   string `json:"Parent Relationship"`
	Plans    []plan `json:"Plans"`
}

// scans returns what a statement reads whole of the growing tables.
func scans(t *testing.T, conn *pgx.Conn, name, sql string) (found []string) {
	ctx := context.WithoutCancel(t.Context())
	if _, err := conn.Exec(ctx, "PREPARE planned AS "+sql); err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	defer func() { _, _ = conn.Exec(ctx, "DEALLOCATE planned") }()
	var parameters int
	if err := conn.QueryRow(ctx, "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'planned'").Scan(&parameters); err != nil {
		t.Fatal(err)
	}
	call := "EXPLAIN (FORMAT JSON, COSTS off) EXECUTE planned"
	if parameters > 0 {
		call += "(" + strings.TrimSuffix(strings.Repeat("NULL,", parameters), ",") + ")"
	}
	var text []byte
	if err := conn.QueryRow(ctx, call).Scan(&text); err != nil {
		t.Errorf("%s: %v", name, err)
		return nil
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	for _, one := range plans {
		one.Plan.walk(false, func(p plan) {
			found = append(found, fmt.Sprintf("%s by %s of %s, %q", p.Relation, p.Type, p.Index, p.Cond))
		})
	}
	return found
}

// walk tells of the scans that are neither narrowed by another column than the tenant nor
// stop at a limit.
func (p plan) walk(limited bool, tell func(plan)) {
	switch p.Type {
	case "Limit":
		limited = true
	case "Sort", "Incremental Sort", "Aggregate", "Hash", "HashAggregate", "SetOp", "WindowAgg", "Materialize":
		limited = false
	}
	isScan := strings.HasSuffix(p.Type, "Scan") && slices.Contains(growing, p.Relation) && p.Type != "Bitmap Heap Scan" && p.Type != "Tid Scan"
	if isScan && !limited && !narrowed.MatchString(strings.ReplaceAll(p.Cond, "instance_id", "")) {
		tell(p)
	}
	for _, child := range p.Plans {
		child.walk(limited && child.Parent != "InitPlan" && child.Parent != "SubPlan", tell)
	}
}

// narrowed finds a column that a condition compares.
var narrowed = regexp.MustCompile(`[a-z_]+[a-z)]*(::\w+)?\)? (=|<|>|<=|>=|@>|&&|~~|IS|%|\?)`)
