// Package pgtest gives each test a PostgreSQL database of its own, in ten to forty
// milliseconds, so that parallel tests share nothing.
//
// The migrations run once, in a template database; New clones it. The server is
// a private one that lives as long as the test process, started by the first
// test that asks; with WRIT_TEST_POSTGRES_URL set it is the one named there,
// which several test processes may use at the same time:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestX(t *testing.T) {
//		t.Parallel()
//		db := pgtest.Open(t, 4)
//
// The private server does not sync to disk (a test needs no durability), and
// nothing of it is left when the process ends. A process that had no time to
// clean up (a panic, a timeout) leaves a folder that a later one removes.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/sql/migrations"
)

// ServerVariable names the environment variable with the URL of a shared
// server, for a user who may create databases.
const ServerVariable = "WRIT_TEST_POSTGRES_URL"

// current is what New and Empty use. It is global because TestMain and the
// tests have nothing else in common.
var current *suite

// suite is one test process.
type suite struct {
	migrations fs.FS
	migrate    func(ctx context.Context, url string) error

	mu     sync.Mutex
	opened bool
	server *server
	err    error
}

// Main runs the tests of a package and exits. Call it from TestMain. On a shared
// server the first process to come migrates for all: the template is known by the
// files of sql/migrations.
func Main(m *testing.M) {
	run(m, migrations.Files, func(ctx context.Context, url string) error {
		_, err := store.Migrate(ctx, url)
		return err
	})
}

// run is Main with other migrations. migrate brings the empty database at url to the
// newest schema, closes its connections and depends on nothing but these files.
func run(m *testing.M, migrations fs.FS, migrate func(ctx context.Context, url string) error) {
	s := &suite{migrations: migrations, migrate: migrate}
	current = s

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		if err := s.close(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
		}
		os.Exit(1)
	}()

	code := m.Run()
	if err := s.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// open returns the server, which the first call starts. The error of a server
// that cannot be started is every test's error.
func (s *suite) open() (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		s.opened = true
		// Not the context of one test: the server is for all of them.
		s.server, s.err = openServer(context.Background(), s.migrations, s.migrate)
	}
	return s.server, s.err
}

func (s *suite) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	err := s.server.close()
	s.server, s.err = nil, errors.New("the tests are over")
	return err
}

// New returns the URL of a fresh, migrated database. It is dropped when the
// test ends, even if connections to it are open then.
func New(t testing.TB) string {
	t.Helper()
	s := serverFor(t)
	return s.create(t, s.template)
}

// Empty returns the URL of a fresh database with nothing in it, for tests of
// the migrations. It is dropped as New's is.
func Empty(t testing.TB) string {
	t.Helper()
	return serverFor(t).create(t, "template0")
}

// Open opens a fresh, migrated database, until the test ends.
func Open(t testing.TB, connections int) *store.DB {
	t.Helper()
	return Connect(t, New(t), connections)
}

// Connect opens the database at url, until the test ends: each node has connections of
// its own.
func Connect(t testing.TB, url string, connections int) *store.DB {
	t.Helper()
	return ConnectTo(t, store.Config{URL: url, MaxConns: connections})
}

// ConnectTo is Connect with what else there is to say of a database.
func ConnectTo(t testing.TB, c store.Config) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(db.Close)
	return db
}

func serverFor(t testing.TB) *server {
	t.Helper()
	if current == nil {
		t.Fatal("pgtest: TestMain of this package has to call pgtest.Main")
	}
	s, err := current.open()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s
}
