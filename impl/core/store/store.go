// Package store opens PostgreSQL and runs transactions on it.
//
// State tables are the truth: reads come from them, so a caller always reads
// its own writes. What changes state appends its event in the same transaction
// (package event). The SQL itself is in sql/queries; package db is generated
// from it.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/writ-id/writ/impl/core/admission"
)

// Config says which database to open and how.
type Config struct {
	URL    string // a libpq URL or keyword string
	Pooler string // the same through a pooler in transaction mode, for commands and searches; none when empty
	// Statements hears of each statement; nil is nobody.
	Statements pgx.QueryTracer
	MaxConns   int // for commands and reads by key; 0: four for each core, at least 16
}

// DB holds the connections of a node.
type DB struct {
	// Pool serves commands and reads by key.
	Pool *pgxpool.Pool
	// Search serves searches. Its plans are always made for the values at hand
	// (plan_cache_mode), which is what lets one static statement serve every
	// filter and order; and big searches cannot take the connections of others.
	Search *pgxpool.Pool
	// Searches shares its connections among tenants.
	Searches *admission.Gate

	commits *commits
	tx      pgx.Tx          // of In
	direct  *pgx.ConnConfig // to the database itself, for what a session is needed for
}

// OnCommit has hear called after each commit of this node, which may have events, until stop
// is. It returns at once.
func (db *DB) OnCommit(hear func()) (stop func()) { return db.commits.subscribe(hear) }

// Committed says that something was committed on the pool that InTx did not see.
func (db *DB) Committed() {
	if db.tx == nil {
		db.commits.publish()
	}
}

// In returns a DB on which everything runs in tx, so that many commands are one: all of
// them happen or none.
func (db *DB) In(tx pgx.Tx) *DB {
	bound := *db
	bound.tx = tx
	return &bound
}

// Timeouts of every connection: no statement outlives its request by much, and
// nobody waits behind a lock for longer than a caller would (REL-013).
const (
	statementTimeout = 15 * time.Second
	lockTimeout      = 5 * time.Second
	idleTimeout      = 10 * time.Second // of a transaction
	maxConnAge       = 30 * time.Minute // after a fail-over no connection keeps the old host (REL-011)
	maxSearches      = 1000             // of one tenant that wait
	cancelAfter      = 250 * time.Millisecond
	deadAfter        = 5 * time.Second // when the database does not heed that either
)

// application is what the connections are called in the lists of the database.
const application = "writ"

// safe are the settings that keep these promises.
var safe = map[string]string{
	"statement_timeout": millis(statementTimeout), "lock_timeout": millis(lockTimeout), "idle_in_transaction_session_timeout": millis(idleTimeout),
}

// How the two pools plan. Statements by key are planned once, and may be planned
// while a table is still empty: that plan has to be good when it is full, so it
// reaches every row by an index and from there the next table.
var (
	byKey = map[string]string{
		"plan_cache_mode": "force_generic_plan", "random_page_cost": "1.1",
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	}
	byValue = map[string]string{"plan_cache_mode": "force_custom_plan"}
)

// Open opens both pools; it fails if the database does not answer.
func Open(ctx context.Context, c Config) (*DB, error) {
	conns := c.MaxConns
	if conns <= 0 {
		conns = max(16, 4*runtime.GOMAXPROCS(0))
	}
	direct, err := pgx.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	direct.RuntimeParams["application_name"] = application
	pool, err := c.open(ctx, conns, byKey)
	if err != nil {
		return nil, err
	}
	searches := max(4, conns/2)
	search, err := c.open(ctx, searches, byValue)
	if err != nil {
		pool.Close()
		return nil, err
	}
	err = pool.Ping(ctx)
	if err == nil && c.Pooler != "" {
		err = checkPooler(ctx, pool)
	}
	if err != nil {
		pool.Close()
		search.Close()
		return nil, Explain(err)
	}
	return &DB{Pool: pool, Search: search, Searches: admission.New(searches, maxSearches), commits: &commits{}, direct: direct}, nil
}

func (c Config) open(ctx context.Context, conns int, params map[string]string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(cmp.Or(c.Pooler, c.URL))
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = int32(conns)
	config.ConnConfig.Tracer = c.Statements
	config.AfterConnect = withTexts
	config.MaxConnLifetime = maxConnAge
	config.MaxConnLifetimeJitter = maxConnAge / 10
	set := config.ConnConfig.RuntimeParams
	set["application_name"] = application
	set["timezone"] = "UTC"
	if c.Pooler != "" {
		throughPooler(config.ConnConfig)
	} else {
		for name, value := range safe {
			set[name] = value
		}
		set["jit"] = "off"
		for name, value := range params {
			set[name] = value
		}
	}
	// Who goes away in the middle of a statement does not take its connection along: a
	// short one ends by itself, a longer one is cancelled. Else whoever begins and breaks
	// off calls, which HTTP/2 makes cheap, would have connections made all the time.
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, CancelRequestDelay: cancelAfter, DeadlineDelay: deadAfter}
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Close closes both pools after their running statements.
func (db *DB) Close() {
	db.Search.Close()
	db.Pool.Close()
}

// InTx runs fn in a transaction. When PostgreSQL aborts it for a conflict with
// another one (40001, 40P01) nothing has happened, so it is run again, a few
// times with jitter. A connection lost during commit is never retried: whether
// it happened is unknown (REL-012).
func (db *DB) InTx(ctx context.Context, fn func(pgx.Tx) error) error {
	if outer := db.tx; outer != nil { // a savepoint: the outer one commits and retries
		return pgx.BeginFunc(ctx, outer, fn)
	}
	return Retry(ctx, func() error { return db.inTx(ctx, fn) })
}

// Retry does what is all or nothing, again when PostgreSQL has aborted it for a conflict
// (InTx): a transaction, or a statement that is one.
func Retry(ctx context.Context, do func() error) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := do()
		if attempt == attempts || !isConflict(err) {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(attempt) * int64(5*time.Millisecond)))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// inTx runs fn in one transaction. What does not commit is rolled back also when its
// caller went away, so that the connection is good for the next.
func (db *DB) inTx(ctx context.Context, fn func(pgx.Tx) error) error {
	tx, err := db.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadAfter)
		defer cancel()
		_ = tx.Rollback(undo) // after a commit there is nothing to do; when it fails, pgx closes the connection
	}()
	if err := fn(tx); err != nil {
		return err
	}
	err = tx.Commit(ctx)
	if err == nil {
		db.Committed()
	}
	return err
}

// Conn returns what a command or a read by key runs on: the pool, or the
// transaction of In.
func (db *DB) Conn() Conn {
	if db.tx != nil {
		return db.tx
	}
	return db.Pool
}

// SearchConn is Conn for searches.
func (db *DB) SearchConn() Conn {
	if db.tx != nil {
		return db.tx
	}
	return db.Search
}

// Conn is a pool or a transaction.
type Conn interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

func isConflict(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == "40001" || refused.Code == "40P01")
}

// Violates reports whether err is a violation of the named constraint.
func Violates(err error, constraint string) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.ConstraintName == constraint
}

// NoRow reports whether a query found nothing.
func NoRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
