package load

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ownDatabase holds the floor's table and the view of the statements, so that the
// product's database is as the product made it.
const ownDatabase = "load"

// preloadStatements makes the next start of a PostgreSQL load pg_stat_statements,
// which the product does not, and makes the database of the benchmark.
func preloadStatements(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+ownDatabase); err != nil {
		return err
	}
	var available bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_stat_statements')").Scan(&available); err != nil {
		return err
	}
	if !available {
		return errors.New("this PostgreSQL has no pg_stat_statements (postgresql-contrib)")
	}
	_, err = conn.Exec(ctx, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
	return err
}

// statements counts what the product sends to its database. It counts only
// during a measurement of its own: the counting costs CPU.
type statements struct{ conn *pgx.Conn }

func newStatements(ctx context.Context, database string) (*statements, error) {
	conn, err := pgx.Connect(ctx, strings.Replace(database, "dbname=postgres", "dbname="+ownDatabase, 1))
	if err != nil {
		return nil, err
	}
	s := &statements{conn}
	if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return nil, err
	}
	return s, s.track(ctx, "none")
}

func (s *statements) version(ctx context.Context) (version string, err error) {
	err = s.conn.QueryRow(ctx, "SELECT split_part(current_setting('server_version'), ' ', 1)").Scan(&version)
	return version, err
}

// track says what is counted, and returns when every process knows.
func (s *statements) track(ctx context.Context, what string) error {
	for _, sql := range []string{"ALTER SYSTEM SET pg_stat_statements.track = '" + what + "'", "SELECT pg_reload_conf()"} {
		if _, err := s.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	for range 100 {
		var now string
		if err := s.conn.QueryRow(ctx, "SHOW pg_stat_statements.track").Scan(&now); err != nil {
			return err
		}
		if now == what {
			time.Sleep(50 * time.Millisecond) // the others got the same signal
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("pg_stat_statements.track did not become %s", what)
}

// statement is one of the product's and what it took.
type statement struct {
	text  string
	calls int64
	took  time.Duration // all calls
}

// during returns the statements that the product sent while work ran, those of
// its background work too, the one that took longest first.
func (s *statements) during(ctx context.Context, work func() error) (all []statement, err error) {
	if err := s.track(ctx, "top"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.track(ctx, "none")) }()
	if _, err := s.conn.Exec(ctx, "SELECT pg_stat_statements_reset()"); err != nil {
		return nil, err
	}
	if err := work(); err != nil {
		return nil, err
	}
	rows, err := s.conn.Query(ctx, `SELECT query, calls, total_exec_time FROM pg_stat_statements
		WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'postgres') ORDER BY total_exec_time DESC`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (one statement, err error) {
		var millis float64
		err = row.Scan(&one.text, &one.calls, &millis)
		one.took = time.Duration(millis * float64(time.Millisecond))
		return one, err
	})
}

// title returns the beginning of a statement on one line.
func (s statement) title() string {
	text := strings.Join(strings.Fields(s.text), " ")
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	return text
}

// algorithmOf returns the alg of a JWT, "" when it is none.
func algorithmOf(token string) string {
	head, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return ""
	}
	var header struct{ Alg string }
	if json.Unmarshal(text, &header) != nil {
		return ""
	}
	return header.Alg
}
