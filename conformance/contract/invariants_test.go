package contract

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/conformance/harness"
)

// REL-025: after everything the suite did, nothing in the database refers to what
// is not there. TestMain asks it of every server that the harness started, at
// the end; the tables and columns are found in the database itself.

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// checkInvariants returns what does not hold of a server's database.
func checkInvariants(server *harness.Server) error {
	url, err := server.DatabaseURL()
	if err != nil || url == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	broken, err := brokenInvariants(ctx, conn)
	if err == nil && len(broken) > 0 {
		err = fmt.Errorf("REL-025: %d invariants are broken:\n%s", len(broken), strings.Join(broken, "\n"))
	}
	return err
}

// invariant is a query that finds what must not be: texts.
type invariant struct{ name, sql string }

// column is a column of a table of the product.
type column struct{ table, name string }

// elsewhere are references whose objects may belong to another organization than
// what refers to them.
var elsewhere = map[column]bool{
	{"memberships", "user_id"}: true, // managers may come from elsewhere
	{"user_grants", "user_id"}: true, // so may the users of a project
	// Where these are, the query of user grants says.
	{"user_grants", "project_id"}: true, {"user_grants", "project_grant_id"}: true,
}

// ofParts are events that a part of an object adds to it: tokens and keys of a
// user do not change the user.
const ofParts = `\.(pat|key|metadata|otp|mfa|role|externalidp)\.`

// brokenInvariants returns a line for each thing that is wrong.
func brokenInvariants(ctx context.Context, db querier) (broken []string, err error) {
	invariants, err := invariantsOf(ctx, db)
	if err != nil {
		return nil, err
	}
	for _, invariant := range invariants {
		found, err := texts(ctx, db, "SELECT * FROM ("+invariant.sql+") wrong LIMIT 5")
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", invariant.name, err, invariant.sql)
		}
		for _, what := range found {
			broken = append(broken, invariant.name+": "+what)
		}
	}
	return broken, nil
}

func texts(ctx context.Context, db querier, sql string) ([]string, error) {
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// invariantsOf makes the queries for the tables that there are.
func invariantsOf(ctx context.Context, db querier) ([]invariant, error) {
	names, err := texts(ctx, db, `SELECT c.table_name || '.' || c.column_name
		FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND t.table_name NOT IN ('events', 'row_counts')
		ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	columns := map[column]bool{}
	var sorted []column
	for _, name := range names {
		table, name, _ := strings.Cut(name, ".")
		columns[column{table, name}] = true
		sorted = append(sorted, column{table, name})
	}
	var all []invariant
	add := func(name, sql string, args ...any) { all = append(all, invariant{name, fmt.Sprintf(sql, args...)}) }
	for _, c := range sorted {
		inInstance := columns[column{c.table, "instance_id"}]
		switch {
		case c.name == "instance_id":
			add(c.table+" of an instance that is gone", `SELECT DISTINCT c.instance_id::text FROM %s c
				WHERE c.instance_id <> '' AND NOT EXISTS (SELECT FROM instances i WHERE i.id = c.instance_id)`, c.table)
		case c.name == "sequence" && columns[column{c.table, "id"}] && inInstance:
			events := "events"
			if columns[column{c.table, "state_policy"}] { // contexts below say things of it, too
				events = "(SELECT *, first_value(owner_id) OVER (PARTITION BY instance_id, aggregate_id ORDER BY sequence) = owner_id AS own FROM events)"
				events = "(SELECT * FROM " + events + " all_events WHERE own)"
			}
			add(c.table+" without their last event", `SELECT c.id || ' has ' || c.sequence || ', the event ' || e.last FROM %s c
				JOIN (SELECT instance_id, aggregate_id, max(sequence) AS last FROM %s those WHERE event_type !~ '%s' GROUP BY 1, 2) e ON e.instance_id = c.instance_id AND e.aggregate_id = c.id
				WHERE e.last <> c.sequence`, c.table, events, ofParts)
		case strings.HasSuffix(c.name, "_id") && inInstance && c.name != "external_user_id": // of another provider
			parent := parentOf(columns, c)
			if parent == "" {
				continue
			}
			add(c.table+"."+c.name+" that dangles", `SELECT c.instance_id || ' ' || c.%[2]s FROM %[1]s c
				WHERE c.%[2]s <> '' AND NOT EXISTS (SELECT FROM %[3]s p WHERE p.instance_id = c.instance_id AND p.id = c.%[2]s)`, c.table, c.name, parent)
			if columns[column{c.table, "org_id"}] && columns[column{parent, "org_id"}] && !elsewhere[c] {
				add(c.table+" in another organization than their "+c.name, `SELECT c.%[2]s || ' is in ' || p.org_id || ', not in ' || c.org_id
					FROM %[1]s c JOIN %[3]s p ON p.instance_id = c.instance_id AND p.id = c.%[2]s WHERE p.org_id <> c.org_id`, c.table, c.name, parent)
			}
		}
	}
	add("organizations without exactly one primary domain", `SELECT o.id || ' has ' || count(d.id) FROM organizations o
		LEFT JOIN domains d ON d.instance_id = o.instance_id AND d.org_id = o.id AND d.is_primary GROUP BY o.instance_id, o.id HAVING count(d.id) <> 1`)
	add("instances without exactly one primary domain", `SELECT i.id || ' has ' || count(d.id) FROM instances i
		LEFT JOIN domains d ON d.instance_id = i.id AND d.org_id IS NULL AND d.is_primary GROUP BY i.id HAVING count(d.id) <> 1`)
	add("default organizations that are gone", `SELECT i.id || ' ' || i.default_org FROM instances i
		WHERE i.default_org <> '' AND NOT EXISTS (SELECT FROM organizations o WHERE o.instance_id = i.id AND o.id = i.default_org)`)
	if columns[column{"user_grants", "project_grant_id"}] && columns[column{"project_grants", "granted_org_id"}] {
		add("user grants in another organization than who may use the project", `SELECT u.id || ' is in ' || u.org_id FROM user_grants u
			JOIN projects p ON p.instance_id = u.instance_id AND p.id = u.project_id
			LEFT JOIN project_grants g ON g.instance_id = u.instance_id AND g.id = u.project_grant_id
			WHERE u.org_id <> CASE WHEN coalesce(u.project_grant_id, '') = '' THEN p.org_id ELSE g.granted_org_id END`)
		add("user grants by the grant of another project", `SELECT u.id || ' of ' || u.project_id FROM user_grants u
			JOIN project_grants g ON g.instance_id = u.instance_id AND g.id = u.project_grant_id WHERE g.project_id <> u.project_id`)
	}
	counted, err := texts(ctx, db, `SELECT DISTINCT r.relname::text FROM pg_trigger t JOIN pg_class r ON r.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid WHERE p.proname = 'count_rows'`)
	if err != nil {
		return nil, err
	}
	for _, table := range counted {
		add("row_counts of "+table, `SELECT instance_id || ' has ' || coalesce(r.n, 0) || ', counted ' || coalesce(c.n, 0)
			FROM (SELECT instance_id, count(*) AS n FROM %[1]s GROUP BY 1) r
			FULL JOIN (SELECT instance_id, sum(n) AS n FROM row_counts WHERE resource = '%[1]s' GROUP BY 1) c USING (instance_id)
			WHERE coalesce(r.n, 0) <> coalesce(c.n, 0)`, table)
	}
	for _, name := range []string{"state", "user_type", "org_id"} {
		add("row_counts of users by "+name, `SELECT instance_id || ' ' || value || ' has ' || coalesce(r.n, 0) || ', counted ' || coalesce(c.n, 0)
			FROM (SELECT instance_id, coalesce(%[1]s::text, '') AS value, count(*) AS n FROM users GROUP BY 1, 2) r
			FULL JOIN (SELECT instance_id, split_part(resource, '/', 3) AS value, sum(n) AS n FROM row_counts WHERE resource LIKE 'users/%[1]s/%%' GROUP BY 1, 2) c USING (instance_id, value)
			WHERE coalesce(r.n, 0) <> coalesce(c.n, 0)`, name)
	}
	if columns[column{"memberships", "object_id"}] {
		for level, parent := range map[int]string{3: "organizations", 4: "projects", 5: "project_grants"} {
			if columns[column{parent, "id"}] {
				add("memberships of level "+fmt.Sprint(level)+" on nothing", `SELECT m.id FROM memberships m WHERE m.level = %d
					AND NOT EXISTS (SELECT FROM %s p WHERE p.instance_id = m.instance_id AND p.id = m.object_id)`, level, parent)
			}
		}
	}
	return append(all, eventInvariants(columns)...), nil
}

// parentOf returns the table that a column refers to, by its name, or "".
func parentOf(columns map[column]bool, c column) string {
	name := strings.TrimSuffix(c.name, "_id")
	for ; name != ""; _, name, _ = strings.Cut(name, "_") { // granted_org is an org
		for _, table := range []string{name + "s", map[string]string{"org": "organizations", "include": "executions", "schema": "user_schemas"}[name]} {
			if columns[column{table, "id"}] && columns[column{table, "instance_id"}] {
				return table
			}
		}
	}
	return ""
}

// TestREL025_TheInvariantsSeeWhatIsBroken is the control of what TestMain asks: it
// breaks each invariant in a transaction that is rolled back.
func TestREL025_TheInvariantsSeeWhatIsBroken(t *testing.T) {
	s := newSuite(t)
	s.create(webhook("counted"))
	url, err := s.DatabaseURL()
	if err != nil || url == "" {
		t.Skip("the database is out of reach", err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, test := range []struct{ name, sql, want string }{
		{"nothing", "SELECT 1", ""},
		{"a membership of nobody", "UPDATE memberships SET user_id = 'gone' || id", "memberships.user_id that dangles"},
		{"a token of another organization", "UPDATE personal_access_tokens SET org_id = 'other' WHERE org_id IS NOT NULL", "personal_access_tokens in another organization than their user_id"},
		{"an object of no instance", "UPDATE targets SET instance_id = 'gone'", "targets of an instance that is gone"},
		{"a row that nobody counted", "DELETE FROM targets", "row_counts of targets"},
		{"an organization without a primary domain", "UPDATE domains SET is_primary = false", "organizations without exactly one primary domain"},
		{"an instance without a primary domain", "UPDATE domains SET is_primary = false", "instances without exactly one primary domain"},
		{"a default organization that is gone", "UPDATE instances SET default_org = 'gone'", "default organizations that are gone"},
		{"a number that is no event's", "UPDATE targets SET sequence = 1", "targets without their last event"},
		{"an event that names nothing", "UPDATE events SET payload = payload - 'name' WHERE event_type = 'target.added'", "target.added without name"},
		{"an event of another name", "UPDATE targets SET name = 'other'", "target.added with another name than its object"},
		{"a membership of no organization", "UPDATE memberships SET object_id = 'gone' WHERE level = 3", "memberships of level 3 on nothing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			tx, err := conn.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			for _, sql := range []string{"SET LOCAL session_replication_role = replica", test.sql} { // no foreign keys, no triggers
				if _, err := tx.Exec(ctx, sql); err != nil {
					t.Fatal(err)
				}
			}
			broken, err := brokenInvariants(ctx, tx)
			found := strings.Join(broken, "\n")
			if err != nil || test.want == "" && found != "" || !strings.Contains(found, test.want) {
				t.Errorf("got %v, %s, want %q", err, found, test.want)
			}
		})
	}
}
