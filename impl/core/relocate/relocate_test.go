package relocate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/relocate"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// second returns the URL of a migrated database on a PostgreSQL of its own.
func second(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "writ-cell-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server, err := postgres.Start(t.Context(), postgres.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	url := server.URL("postgres")
	if _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// world is two databases, of which one has instances.
type world struct {
	*testing.T
	from, to   *pgx.Conn
	config     relocate.Config
	key, other *secret.MasterKey
}

func newWorld(t *testing.T, target string) *world {
	t.Helper()
	w := &world{T: t}
	var err error
	if w.key, err = secret.NewMasterKey(); err != nil {
		t.Fatal(err)
	}
	if w.other, err = secret.NewMasterKey(); err != nil {
		t.Fatal(err)
	}
	w.config = relocate.Config{
		From: pgtest.New(t), To: target, Instance: "a'1", Opener: w.key, Sealer: w.other, Patience: 20 * time.Second,
		Sealed: []relocate.Sealed{{Table: "targets", Key: []string{"instance_id", "id"}, Bound: []string{"instance_id", "id"}, Columns: []string{"signing_key", "old_signing_key"}}},
	}
	w.from, w.to = w.connect(w.config.From), w.connect(w.config.To)
	for _, id := range []string{"a'1", "b"} {
		exec := func(sql string, args ...any) { w.exec(w.from, sql, append([]any{id}, args...)...) }
		exec("INSERT INTO instances (id, name, name_folded, default_org, sequence, creation_date, change_date) VALUES ($1, $1, $1, 'o', 1, now(), now())")
		exec("INSERT INTO organizations (instance_id, id, name, name_folded, sequence, creation_date, change_date) SELECT $1, 'o' || n, 'org ' || n, 'org ' || n, n, now(), now() FROM generate_series(1, 50) n")
		sealed, err := w.key.Seal([]byte("key of "+id), secret.Place("targets", id, "t"))
		if err != nil {
			t.Fatal(err)
		}
		exec(`INSERT INTO targets (instance_id, id, name, name_folded, target_type, url, timeout_nanos, sequence, creation_date, change_date, signing_key)
			VALUES ($1, 't', 't', 't', 'rest_webhook', 'http://127.0.0.1:1', 1, 1, now(), now(), $2)`, sealed)
		exec("INSERT INTO executions (instance_id, id, condition_type, sequence, creation_date, change_date) VALUES ($1, 'event', 'event', 1, now(), now())")
		exec("INSERT INTO execution_targets (instance_id, execution_id, position, target_id) VALUES ($1, 'event', 0, 't')")
		for n := range 5 { // each of a transaction of its own
			exec("INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at) VALUES ($1, 'org', $2, 'org.changed', '{}', 'test', 2, 'o1', now())", fmt.Sprint("o", n))
		}
	}
	w.passed()
	return w
}

func (w *world) connect(url string) *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), url)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (w *world) exec(conn *pgx.Conn, sql string, args ...any) {
	w.Helper()
	if _, err := conn.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) text(conn *pgx.Conn, sql string, args ...any) (text string) {
	w.Helper()
	if err := conn.QueryRow(w.Context(), sql, args...).Scan(&text); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return text
}

// passed lets the fan-out of the source be done with all events.
func (w *world) passed() {
	w.exec(w.from, "UPDATE delivery_cursor SET is_heard = true, (xid, sequence, position) = (SELECT xid, sequence, 77 FROM events ORDER BY xid DESC, sequence DESC LIMIT 1)")
}

func (w *world) write(conn *pgx.Conn, instance string) error {
	_, err := conn.Exec(w.Context(), "UPDATE organizations SET name = name || '.' WHERE instance_id = $1 AND id = 'o1'", instance)
	return err
}

// rows returns how many rows of the instance each table of a database has.
func (w *world) rows(conn *pgx.Conn) map[string]string {
	w.Helper()
	rows, err := conn.Query(w.Context(), "SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.column_name = 'instance_id'")
	if err != nil {
		w.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.Fatal(err)
	}
	counts := map[string]string{"instances": w.text(conn, "SELECT count(*)::text FROM instances WHERE id = $1", w.config.Instance)}
	for _, name := range names {
		counts[name] = w.text(conn, "SELECT count(*)::text FROM "+name+" WHERE instance_id = $1", w.config.Instance)
	}
	for name, n := range counts {
		if n == "0" {
			delete(counts, name)
		}
	}
	return counts
}

func (w *world) triggers(conn *pgx.Conn) string {
	return w.text(conn, "SELECT count(*)::text FROM pg_trigger WHERE tgname LIKE 'moving%'")
}

// unharmed fails the test unless the source serves as before and the target has nothing.
func (w *world) unharmed() {
	w.Helper()
	if err := w.write(w.from, w.config.Instance); err != nil {
		w.Errorf("the source does not serve: %v", err)
	}
	if n := w.triggers(w.from); n != "0" {
		w.Errorf("%s triggers are left", n)
	}
	if got := w.rows(w.to); len(got) > 0 {
		w.Errorf("the target has %v", got)
	}
	if got := w.text(w.from, "SELECT count(*)::text FROM moved_instances"); got != "0" {
		w.Error("the source says that it moved")
	}
}

// TestAnInstanceMovesWhole rehearses, moves and forgets, between two servers.
func TestAnInstanceMovesWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, second(t))
	cursor := "SELECT concat(xid, ' ', sequence, ' ', version, ' ', is_heard) FROM delivery_cursor"
	before := w.text(w.to, cursor)
	sequence := w.text(w.to, "SELECT last_value::text FROM events_sequence")

	rehearsal := w.config
	rehearsal.Rehearse = true
	w.exec(w.from, `INSERT INTO features (instance_id, flags, sequence, change_date) VALUES ('', '{"x": true}', 1, now())`)
	report, err := relocate.Move(t.Context(), rehearsal)
	if err != nil || fmt.Sprint(report.Differs) != "[features]" || len(report.Tables) < 30 || report.Frozen != 0 {
		t.Fatalf("got %+v, %v", report, err)
	}
	w.unharmed()
	if got := w.text(w.to, cursor); got != before || w.text(w.to, "SELECT last_value::text FROM events_sequence") != sequence {
		t.Errorf("the rehearsal changed the target: %s, want %s", got, before)
	}

	if _, err := relocate.Move(t.Context(), w.config); err != nil {
		t.Fatal(err)
	}
	want, got := w.rows(w.from), w.rows(w.to)
	delete(want, "moved_instances")
	delete(got, "row_counts") // as many totals, in other slots
	delete(want, "row_counts")
	if fmt.Sprint(got) != fmt.Sprint(want) || want["events"] != "5" || want["organizations"] != "50" {
		t.Errorf("the target has %v, want %v", got, want)
	}
	if got := w.text(w.to, "SELECT sum(n)::text FROM row_counts WHERE instance_id = $1 AND resource = 'organizations'", "a'1"); got != "50" {
		t.Errorf("%s organizations are counted, want 50", got)
	}
	// Deliveries of what happened were made at the source.
	if got := w.text(w.to, "SELECT count(*)::text FROM events e, delivery_cursor c WHERE (e.xid, e.sequence) > (c.xid, c.sequence)"); got != "0" {
		t.Errorf("the target would deliver %s events again", got)
	}
	order := "SELECT string_agg(sequence::text, ',' ORDER BY xid, sequence) || ' ' || count(DISTINCT xid) FROM events WHERE instance_id = $1"
	if got, want := w.text(w.to, order, "a'1"), w.text(w.from, order, "a'1"); got != want {
		t.Errorf("the order of events is %s, want %s", got, want)
	}
	if got := w.text(w.to, "SELECT (nextval('events_sequence') > (SELECT max(sequence) FROM events))::text"); got != "true" {
		t.Error("numbers of events are given twice")
	}
	if got := w.text(w.to, "SELECT concat(is_heard, ' ', version > 0) FROM delivery_cursor"); got != "t t" {
		t.Errorf("the fan-out of the target does not know: %s", got)
	}
	var sealed []byte
	if err := w.to.QueryRow(t.Context(), "SELECT signing_key FROM targets").Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	if open, err := w.other.Open(sealed, secret.Place("targets", "a'1", "t")); err != nil || string(open) != "key of a'1" {
		t.Errorf("the key of the target's master key: %q, %v", open, err)
	}

	if err := w.write(w.from, "a'1"); err == nil || store.Fault(err) == nil || store.Fault(err).Reason != "INSTANCE_MOVING" {
		t.Errorf("what moved is written: %v", err)
	}
	if err := w.write(w.from, "b"); err != nil {
		t.Errorf("another instance: %v", err)
	}
	if _, err := relocate.Move(t.Context(), w.config); !errors.Is(err, relocate.ErrThere) {
		t.Errorf("a second move: %v", err)
	}
	if err := relocate.CallOff(t.Context(), w.config.From, w.config.To, "a'1", time.Second); !errors.Is(err, relocate.ErrThere) {
		t.Errorf("calling off what has moved: %v", err)
	}
	if err := relocate.Forget(t.Context(), w.config.From, "b", time.Second); !errors.Is(err, relocate.ErrNotMoved) {
		t.Errorf("forgetting what is served: %v", err)
	}
	if err := relocate.Forget(t.Context(), w.config.From, "a'1", time.Second); err != nil {
		t.Fatal(err)
	}
	if got := w.rows(w.from); len(got) > 0 || w.triggers(w.from) != "0" {
		t.Errorf("%v is left, and %s triggers", got, w.triggers(w.from))
	}
	if got := w.text(w.from, "SELECT count(*)::text FROM organizations WHERE instance_id = 'b'"); got != "50" {
		t.Errorf("another instance has %s organizations", got)
	}
}

// TestAMoveThatFailsLeavesEverything lets each step fail.
func TestAMoveThatFailsLeavesEverything(t *testing.T) {
	t.Parallel()
	target := pgtest.New(t)
	w := newWorld(t, target)
	fails := func(what, want string, prepare, undo func(*relocate.Config)) {
		t.Helper()
		config := w.config
		config.Patience = time.Second
		prepare(&config)
		_, err := relocate.Move(t.Context(), config)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", what, err, want)
		}
		if undo != nil {
			undo(&config)
		}
		w.unharmed()
	}
	at := func(conn *pgx.Conn, sql string) func(*relocate.Config) {
		return func(*relocate.Config) { w.exec(conn, sql) }
	}
	fails("an instance that is not there", "no such instance", func(c *relocate.Config) { c.Instance = "c" }, nil)
	fails("a wrong master key", "what is sealed in targets", func(c *relocate.Config) { c.Opener = w.other }, nil)
	fails("another schema", "have to be the same", at(w.to, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"),
		at(w.to, "DELETE FROM goose_db_version WHERE version_id = 99999"))
	fails("a table that nobody knows", "does not say why it stays", at(w.from, "CREATE TABLE surplus (id int)"), at(w.from, "DROP TABLE surplus"))
	fails("a name that is taken", "instances_name_key",
		at(w.to, "INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ('x', 'a''1', '', 1, now(), now())"), at(w.to, "DELETE FROM instances"))
	fails("rows that change on the way", "verifying organizations", at(w.to, `CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.name = NEW.name || '!'; RETURN NEW; END $$;
		CREATE TRIGGER change BEFORE INSERT ON organizations FOR EACH ROW EXECUTE FUNCTION change()`), at(w.to, "DROP FUNCTION change CASCADE"))
	fails("events that nobody passes", "does a node of the source run?", at(w.from, "UPDATE delivery_cursor SET xid = '3'"), func(*relocate.Config) { w.passed() })

	other := w.connect(w.config.From)
	fails("a transaction that does not end", "freezing organizations", func(*relocate.Config) {
		w.exec(other, "BEGIN")
		if err := w.write(other, "b"); err != nil {
			t.Fatal(err)
		}
	}, func(*relocate.Config) { w.exec(other, "ROLLBACK") })
}

// TestNothingIsWrittenOfWhatIsFrozen looks from within a move: at a transaction that began
// before, at one that comes then, and at what workers take.
func TestNothingIsWrittenOfWhatIsFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.New(t))
	w.exec(w.from, "INSERT INTO delivery_queues (instance_id, target, due_at, version, failures) SELECT id, 't', now(), 1, 0 FROM instances")
	before, other := w.connect(w.config.From), w.connect(w.config.From)
	w.exec(before, "BEGIN")
	if err := w.write(before, "a'1"); err != nil {
		t.Fatal(err)
	}
	copying := false
	w.config.Progress = func(step string) {
		switch step {
		case "freezing":
			time.AfterFunc(50*time.Millisecond, func() { _, _ = before.Exec(context.Background(), "COMMIT") })
		case "copying organizations":
			copying = true
			if err := w.write(other, "a'1"); store.Fault(err) == nil || store.Fault(err).Reason != "INSTANCE_MOVING" {
				t.Errorf("what is frozen is written: %v", err)
			}
			for _, sql := range []string{"DELETE FROM organizations WHERE instance_id = 'a''1' AND id = 'o2'", "INSERT INTO row_counts VALUES ('a''1', 'x', 0, 0)"} {
				if _, err := other.Exec(t.Context(), sql); err == nil {
					t.Errorf("what is frozen is written: %s", sql)
				}
			}
			if err := w.write(other, "b"); err != nil {
				t.Errorf("another instance: %v", err)
			}
			if got := w.text(other, "WITH u AS (UPDATE delivery_queues SET lease_end = now() RETURNING instance_id) SELECT string_agg(instance_id, ',') FROM u"); got != "b" {
				t.Errorf("a worker gets the queues of %s, want b", got)
			}
			if got := w.text(other, "SELECT count(*)::text FROM organizations WHERE instance_id = 'a''1'"); got != "50" {
				t.Errorf("%s organizations can be read", got)
			}
		}
	}
	if _, err := relocate.Move(t.Context(), w.config); err != nil || !copying {
		t.Fatal(err, copying)
	}
	if got := w.text(w.to, "SELECT name FROM organizations WHERE id = 'o1'"); got != "org 1." {
		t.Errorf("a write that was answered is lost: %q", got)
	}
}

// TestWhoMovesMayDie ends the connections of a mover, before and in the switch.
func TestWhoMovesMayDie(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.New(t))
	killed := w.config
	killed.Progress = func(step string) {
		if step == "verifying" {
			w.exec(w.from, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'writ move-instance'")
		}
	}
	if _, err := relocate.Move(t.Context(), killed); err == nil {
		t.Fatal("a move without connections succeeded")
	}
	if err := w.write(w.from, "a'1"); err != nil { // its triggers are there, and do nothing
		t.Errorf("the source does not serve: %v", err)
	}

	// The source says that it moved, and the target has nothing: as if the mover had died there.
	w.exec(w.from, "INSERT INTO moved_instances VALUES ('a''1', 'elsewhere', now())")
	if err := w.write(w.from, "a'1"); err == nil {
		t.Error("what moved is written")
	}
	if err := relocate.CallOff(t.Context(), w.config.From, w.config.To, "a'1", time.Second); err != nil {
		t.Fatal(err)
	}
	w.unharmed()
	w.exec(w.from, "INSERT INTO moved_instances VALUES ('a''1', 'elsewhere', now())")
	if _, err := relocate.Move(t.Context(), w.config); err != nil {
		t.Fatalf("going on: %v", err)
	}
	if got := w.rows(w.to); got["organizations"] != "50" {
		t.Errorf("the target has %v", got)
	}
}
