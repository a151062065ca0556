package doctor

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/store"
)

const (
	oldestVersion = 150000 // of PostgreSQL: what CI and the migrations are held against
	clocksDiffer  = 2 * time.Second
	clocksApart   = time.Minute // tokens of one node are not good at another
	besides       = 4           // connections of a node that are in no pool: leases, notifications, a migration
)

// open opens the database as a node would; nil when that fails.
func (d *doctor) open(ctx context.Context) *store.DB {
	d.group = "database"
	db, err := store.Open(ctx, store.Config{URL: d.DatabaseURL, MaxConns: 2})
	if err != nil {
		d.fail("connection", "check --database-url, the network between, and that PostgreSQL runs", "%v", err)
		return nil
	}
	return db
}

// setting is a row of pg_settings, in its base unit.
type setting struct {
	name, value string
}

func (d *doctor) database(ctx context.Context, db *store.DB) {
	var version int
	var text string
	var now time.Time
	var standby, super bool
	var size int64
	before := time.Now()
	err := db.Pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), clock_timestamp(),
		pg_is_in_recovery(), (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), pg_database_size(current_database())`).Scan(&version, &text, &now, &standby, &super, &size)
	took := time.Since(before)
	if d.failed("connection", err) {
		return
	}
	switch {
	case standby:
		d.fail("connection", "name the primary in --database-url", "this is a standby, which takes no writes")
	case version < oldestVersion:
		d.fail("version", "upgrade it", "PostgreSQL %s is older than 15", text)
	default:
		d.ok("version", "PostgreSQL %s, %d MiB, answers in %s", text, size/mebibyte, took.Round(time.Millisecond/10))
	}
	d.clock("clock", "the database", now.Sub(d.Now()), took)
	if super && !d.Dev {
		d.warn("role", "serve as a role that owns the schema and no more; migrate as another if you can", "the role is a superuser")
	} else {
		d.ok("role", "as it should be")
	}
	d.settings(ctx, db, size)
	d.schema(ctx, db)
	d.pooler(ctx)
}

// clock judges how far another clock is ahead of ours, when its answer took so long.
func (d *doctor) clock(check, whose string, ahead, took time.Duration) {
	off := max(ahead.Abs()-took, 0)
	switch {
	case off > clocksApart:
		d.fail(check, "run NTP (chrony, systemd-timesyncd) on both", "the clock of %s differs by %s", whose, ahead.Round(time.Second))
	case off > clocksDiffer:
		d.warn(check, "run NTP (chrony, systemd-timesyncd) on both", "the clock of %s differs by %s", whose, ahead.Round(time.Second/10))
	default:
		d.ok(check, "agrees with that of %s", whose)
	}
}

// settings looks at those that lose data or keep a fleet from connecting.
func (d *doctor) settings(ctx context.Context, db *store.DB, size int64) {
	rows, err := db.Pool.Query(ctx, `SELECT name, setting FROM pg_settings WHERE name IN
		('fsync', 'full_page_writes', 'synchronous_commit', 'max_connections', 'superuser_reserved_connections', 'shared_buffers', 'block_size', 'server_encoding', 'wal_level')`)
	if d.failed("settings", err) {
		return
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s setting, err error) { return s, row.Scan(&s.name, &s.value) })
	if d.failed("settings", err) {
		return
	}
	is := map[string]string{}
	number := map[string]int64{}
	for _, one := range list {
		is[one.name] = one.value
		number[one.name], _ = strconv.ParseInt(one.value, 10, 64) // 0 for words
	}
	lost := slices.DeleteFunc([]string{"fsync", "full_page_writes"}, func(name string) bool { return is[name] != "off" })
	switch {
	case len(lost) > 0:
		d.fail("durability", "set "+strings.Join(lost, " and ")+" to on", "%s is off: a crash of the machine destroys the database", strings.Join(lost, " and "))
	case is["synchronous_commit"] == "off":
		d.warn("durability", "set synchronous_commit to on", "synchronous_commit is off: a crash forgets changes that were acknowledged, such as revoked tokens")
	default:
		d.ok("durability", "fsync, full_page_writes on; synchronous_commit %s; wal_level %s", is["synchronous_commit"], is["wal_level"])
	}
	if is["server_encoding"] != "UTF8" {
		d.fail("encoding", "make the database anew: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", "the encoding is %s", is["server_encoding"])
	}
	calls := d.Connections
	if calls <= 0 {
		calls = max(16, 4*runtime.GOMAXPROCS(0))
	}
	each := calls + max(4, calls/2) + besides
	there := number["max_connections"] - number["superuser_reserved_connections"]
	switch needed := int64(each * d.Nodes); {
	case d.Pooler != "":
		d.ok("max_connections", "%d; nodes connect through the pooler", there)
	case needed > there:
		d.fail("max_connections", "lower --max-connections, raise max_connections, or put PgBouncer before it (--pooler-url)", "%d nodes may take %d connections, the database has %d", d.Nodes, needed, there)
	default:
		d.ok("max_connections", "%d nodes may take %d of %d connections", d.Nodes, needed, there)
	}
	if buffers := number["shared_buffers"] * max(number["block_size"], 1); buffers < size/4 && buffers <= 128*mebibyte {
		d.warn("shared_buffers", "a quarter of the machine's memory is usual", "shared_buffers is %d MiB for a database of %d MiB", buffers/mebibyte, size/mebibyte)
	} else {
		d.ok("shared_buffers", "%d MiB for a database of %d MiB", buffers/mebibyte, size/mebibyte)
	}
}

// schema looks at the steps of the schema and what they stand on.
func (d *doctor) schema(ctx context.Context, db *store.DB) {
	var trigrams bool
	if err := db.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm')").Scan(&trigrams); !d.failed("extensions", err) {
		if trigrams {
			d.ok("extensions", "pg_trgm is there")
		} else {
			d.fail("extensions", "CREATE EXTENSION pg_trgm, as a role that may; it comes with PostgreSQL (postgresql-contrib)", "pg_trgm is missing")
		}
	}
	steps, err := store.Migrations(ctx, d.DatabaseURL)
	if d.failed("schema", err) {
		return
	}
	pending := slices.DeleteFunc(slices.Clone(steps), func(step store.Migration) bool { return !step.Applied.IsZero() })
	if len(pending) > 0 {
		d.fail("schema", "writ migrate up", "%d steps are pending, the first is %s", len(pending), pending[0].Name)
		return
	}
	d.ok("schema", "all %d steps are applied", len(steps))
}

// pooler connects through the pooler as a node would.
func (d *doctor) pooler(ctx context.Context) {
	if d.Pooler == "" {
		return
	}
	db, err := store.Open(ctx, store.Config{URL: d.DatabaseURL, Pooler: d.Pooler, MaxConns: 1})
	if err != nil {
		d.fail("pooler", "see the message; its pool_mode has to be transaction", "%v", err)
		return
	}
	db.Close()
	d.ok("pooler", "answers, and ends statements that take too long")
}
