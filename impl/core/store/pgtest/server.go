package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/writ-id/writ/impl/dev/postgres"
)

const (
	// FolderPrefix begins the names of the folders of servers, of which one that nobody uses is
	// removed by the next.
	FolderPrefix = "writ-pgtest-"
	dropTimeout  = 30 * time.Second

	// templateLock is the advisory lock of whoever makes a template.
	templateLock = 0x77726974
)

// server is a PostgreSQL with a template database.
type server struct {
	private  *postgres.Server // nil if the server is a shared one
	folder   string           // of the private server
	address  *url.URL
	pool     *pgxpool.Pool // to the maintenance database
	template string
	strategy string // a clause of CREATE DATABASE
}

func openServer(ctx context.Context, migrations fs.FS, migrate func(context.Context, string) error) (*server, error) {
	s := &server{}
	if err := s.open(ctx, migrations, migrate); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *server) open(ctx context.Context, migrations fs.FS, migrate func(context.Context, string) error) error {
	address := os.Getenv(ServerVariable)
	if address == "" {
		if err := s.startPrivate(ctx); err != nil {
			return err
		}
		address = s.private.URL("postgres")
	}
	var err error
	if s.address, err = url.Parse(address); err != nil || s.address.Scheme == "" {
		return fmt.Errorf("%s must be a URL, postgres://…", ServerVariable)
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return err
	}
	config.MaxConns = 4
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if s.private != nil {
		if err := s.relax(ctx); err != nil {
			return err
		}
	}
	// Copying files costs half of what writing them to the log does on a server
	// that syncs, and no more on one that does not. PostgreSQL 14 knows no other
	// way, and not the word.
	var version int
	if err := s.pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version >= 150000 {
		s.strategy = " STRATEGY file_copy"
	}
	sum, err := hash(migrations)
	if err != nil {
		return err
	}
	s.template = fmt.Sprintf("writ_template_%x", sum[:8])
	return s.makeTemplate(ctx, migrate)
}

func (s *server) startPrivate(ctx context.Context) (err error) {
	dir := Scratch()
	sweep(dir)
	if s.folder, err = os.MkdirTemp(dir, FolderPrefix); err != nil {
		return err
	}
	s.private, err = postgres.Start(ctx, postgres.Config{Dir: s.folder, Logger: slog.New(slog.DiscardHandler)})
	return err
}

// Scratch returns where the private server lives: in memory if there is plenty,
// where cloning takes a fifth of what it takes on ext4. TMPDIR decides if set.
func Scratch() string {
	const memory, plenty = "/dev/shm", 4 << 30
	var room syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &room) == nil && room.Bavail*uint64(room.Bsize) > plenty {
		return memory
	}
	return os.TempDir()
}

// relax gives durability up for speed.
func (s *server) relax(ctx context.Context) error {
	for _, sql := range []string{
		"ALTER SYSTEM SET fsync = off",
		"ALTER SYSTEM SET full_page_writes = off",
		"SELECT pg_reload_conf()",
	} {
		if _, err := s.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// makeTemplate makes the template database unless there is one.
//
// The lock lets one process do so while others wait. The database has another
// name until it is complete, so what a killed process leaves is never cloned.
func (s *server) makeTemplate(ctx context.Context, migrate func(context.Context, string) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
		return err
	}
	defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", templateLock) }()

	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", s.template).Scan(&exists); err != nil || exists {
		return err
	}
	unfinished := s.template + "_unfinished"
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + unfinished + " WITH (FORCE)",
		"CREATE DATABASE " + unfinished + " TEMPLATE template0" + s.strategy,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := migrate(ctx, s.url(unfinished)); err != nil {
		return fmt.Errorf("migrate the template: %w", err)
	}
	for _, sql := range []string{
		// A database in use cannot be cloned, so nobody may connect to it.
		"ALTER DATABASE " + unfinished + " ALLOW_CONNECTIONS false",
		"ALTER DATABASE " + unfinished + " RENAME TO " + s.template,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%w (does migrate leave a connection open?)", err)
		}
	}
	return nil
}

// create makes a database that lives as long as the test.
func (s *server) create(t testing.TB, template string) string {
	t.Helper()
	name := "writ_test_" + strings.ToLower(rand.Text())
	if _, err := s.pool.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template+s.strategy); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
		defer cancel()
		if _, err := s.pool.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s.url(name)
}

func (s *server) url(database string) string {
	address := *s.address
	address.Path = "/" + database
	return address.String()
}

// close ends the private server and removes its folder.
func (s *server) close() error {
	if s.private != nil {
		// First, since the pool waits for connections in use to come back.
		if err := s.private.Stop(context.Background()); err != nil {
			return err
		}
	}
	if s.pool != nil {
		s.pool.Close()
	}
	if s.folder == "" {
		return nil
	}
	return os.RemoveAll(s.folder)
}

// hash returns a hash of the names and contents of all files.
func hash(files fs.FS) ([]byte, error) {
	h := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Fprintf(h, "%q %d %s", path, len(content), content)
		return err
	})
	return h.Sum(nil), err
}

// sweep removes folders of processes that could not. One in use is locked by
// its server, and gets its lock well within a minute of being made.
func sweep(dir string) {
	folders, _ := filepath.Glob(filepath.Join(dir, FolderPrefix+"*")) // fails only on a malformed pattern
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := os.Open(filepath.Join(folder, "lock"))
		if err == nil {
			err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			defer lock.Close()
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			_ = os.RemoveAll(folder) // somebody else's stays
		}
	}
}
