// Package relocate moves an instance from one database to another, with all that it has:
// users and their sessions, keys and tokens, grants, settings, events and what is still to be
// delivered. Nothing of it is interpreted: each table is copied by its instance.
//
//	freeze   nothing of the instance is written any more (freeze.go)
//	copy     all tables, of one snapshot, in one transaction there (copy.go)
//	verify   each table has the same rows on both sides
//	switch   the source says that it is served elsewhere, then the target commits
//
// An error before the switch leaves the source serving and the target without the
// instance, and so does the death of the mover. Between the two commits of the switch the
// instance is served by nobody; who moves it again goes on from there. The source keeps its
// rows until Forget is called. A rehearsal does all but freeze and switch.
package relocate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
)

// Config says what to move. Progress may be nil, all else is required.
type Config struct {
	From, To string // URLs of databases, not of poolers
	Instance string
	Rehearse bool
	// Opener opens what is sealed; Sealer seals it anew. They may be the same.
	Opener, Sealer secret.Sealer
	Sealed         []Sealed
	// Patience is how long is waited for transactions of others and for deliveries.
	Patience time.Duration
	Progress func(step string)
}

// Sealed are the columns of a table that the master key seals (storage.Sealed).
type Sealed struct {
	Table               string
	Key, Bound, Columns []string
}

// Report is what a move came to.
type Report struct {
	Tables []Table
	// Differs are the tables in which the systems have not the same rows: what the instance
	// does not say itself, it inherits from that of the target.
	Differs []string
	Frozen  time.Duration // how long nothing was written, 0 of a rehearsal
	Took    time.Duration
}

// Table is what was copied of one.
type Table struct {
	Name        string
	Rows, Bytes int64
	Took        time.Duration
}

// What the callers tell apart.
var (
	ErrNoInstance = errors.New("the database has no such instance")
	ErrThere      = errors.New("the target has the instance already")
)

// mover is one move.
type mover struct {
	Config
	from, to *pgx.Conn
	hold     *pgx.Conn // freezes the source
	tables   []table
	marked   bool // the source said before that the instance has moved
	frozen   time.Time
}

// Move moves an instance, or rehearses it.
func Move(ctx context.Context, c Config) (report *Report, err error) {
	began := time.Now()
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	m := &mover{Config: c}
	defer m.close()
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	thaw := func() {}
	if !c.Rehearse {
		thaw = func() { m.thaw(context.WithoutCancel(ctx)) }
		if err := m.freeze(ctx); err != nil {
			thaw()
			return nil, err
		}
	}
	report = &Report{}
	if err := m.move(ctx, report, &thaw); err != nil {
		thaw()
		return nil, err
	}
	report.Took = time.Since(began)
	if !m.frozen.IsZero() {
		report.Frozen = time.Since(m.frozen)
	}
	return report, nil
}

// move copies, verifies and switches. Once the source said that the instance has moved, thaw
// does nothing any more.
func (m *mover) move(ctx context.Context, report *Report, thaw *func()) error {
	source, err := m.from.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = source.Rollback(context.WithoutCancel(ctx)) }()
	target, err := m.to.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = target.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := target.Exec(ctx, "SET CONSTRAINTS ALL DEFERRED"); err != nil {
		return err
	}
	for i := range m.tables {
		copied, err := m.copy(ctx, &m.tables[i])
		if err != nil {
			return fmt.Errorf("copying %s: %w", m.tables[i].name, err)
		}
		report.Tables = append(report.Tables, *copied)
	}
	if _, err := target.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return err
	}
	m.Progress("verifying")
	if report.Differs, err = m.differs(ctx); err != nil {
		return err
	}
	if err := m.verify(ctx); err != nil {
		return err
	}
	if err := m.reseal(ctx); err != nil {
		return err
	}
	if err := m.arrive(ctx); err != nil || m.Rehearse {
		return err
	}
	return m.change(ctx, target, thaw)
}

// change says at the source that the instance has moved, by the connection that freezes it:
// if that was lost, something may have been written. Then the target commits.
func (m *mover) change(ctx context.Context, target pgx.Tx, thaw *func()) error {
	m.Progress("switching")
	ctx = context.WithoutCancel(ctx) // from here on it is one step
	to := m.to.Config()
	if _, err := m.hold.Exec(ctx, `INSERT INTO moved_instances (instance_id, moved_to, date) VALUES ($1, $2, now()) ON CONFLICT DO NOTHING`,
		m.Instance, fmt.Sprintf("%s/%s", to.Host, to.Database)); err != nil {
		return err
	}
	*thaw = func() {}
	if err := target.Commit(ctx); err != nil {
		return m.undecided(ctx, err)
	}
	for _, conn := range []*pgx.Conn{m.hold, m.to} {
		_, _ = conn.Exec(ctx, "SELECT pg_notify('writ_changed', '')") // it only shortens the second for which nodes remember
	}
	return nil
}

// undecided finds out what became of a commit whose answer was lost.
func (m *mover) undecided(ctx context.Context, cause error) error {
	to, err := connect(ctx, m.To)
	if err != nil {
		return fmt.Errorf("whether the target has the instance is unknown, and the source serves it no more: move it again when the target answers: %w", cause)
	}
	defer to.Close(ctx)
	there, err := has(ctx, to, m.Instance)
	switch {
	case err == nil && there:
		return nil
	case err == nil && !m.marked:
		if _, err = m.hold.Exec(ctx, "DELETE FROM moved_instances WHERE instance_id = $1", m.Instance); err == nil {
			m.thaw(ctx)
			return cause
		}
	}
	return fmt.Errorf("the target has not got the instance, and the source serves it no more: move it again, or call it off: %w", cause)
}

// open connects, and refuses what cannot be moved.
func (m *mover) open(ctx context.Context) (err error) {
	for _, one := range []struct {
		conn **pgx.Conn
		url  string
	}{{&m.from, m.From}, {&m.hold, m.From}, {&m.to, m.To}} {
		if *one.conn, err = connect(ctx, one.url); err != nil {
			return err
		}
	}
	var versions [2]int64
	for i, conn := range []*pgx.Conn{m.from, m.to} {
		if err := conn.QueryRow(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied").Scan(&versions[i]); err != nil {
			return fmt.Errorf("the version of the schema: %w", err)
		}
	}
	if versions[0] != versions[1] {
		return fmt.Errorf("the schema of the source has version %d, that of the target %d: they have to be the same", versions[0], versions[1])
	}
	if there, err := has(ctx, m.from, m.Instance); err != nil || !there {
		return errors.Join(err, only(!there, ErrNoInstance))
	}
	if there, err := has(ctx, m.to, m.Instance); err != nil || there {
		return errors.Join(err, only(there, ErrThere))
	}
	if err := m.from.QueryRow(ctx, "SELECT EXISTS (SELECT FROM moved_instances WHERE instance_id = $1)", m.Instance).Scan(&m.marked); err != nil {
		return err
	}
	m.tables, err = readTables(ctx, m.from)
	return err
}

func (m *mover) close() {
	for _, conn := range []*pgx.Conn{m.from, m.to, m.hold} {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}
}

func only(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// connect opens a connection on which texts of values are the same everywhere, and nothing
// ends what takes long.
func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	for name, value := range map[string]string{
		"application_name": "writ move-instance", "timezone": "UTC", "datestyle": "ISO, MDY", "intervalstyle": "postgres", "bytea_output": "hex",
		"extra_float_digits": "1", "client_encoding": "UTF8", "standard_conforming_strings": "on", "search_path": "public", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	return conn, store.Explain(err)
}

func has(ctx context.Context, conn *pgx.Conn, instance string) (there bool, err error) {
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM instances WHERE id = $1)", instance).Scan(&there)
	return there, err
}
