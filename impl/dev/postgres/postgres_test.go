package postgres

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// newDir returns a folder everybody can reach; that of t.TempDir lies below one
// that only its owner enters. When the test ends no process may be left in it.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(testRoot, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pids := serving(t, dir); len(pids) > 0 {
			t.Errorf("processes %v are left over", pids)
		}
	})
	return dir
}

func config(t *testing.T, dir string) Config {
	return Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// startServer starts a server that is stopped when the test ends.
func startServer(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(t, s) })
	return s
}

func stopServer(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func connect(t *testing.T, s *Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func query(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	var got string
	if err := conn.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func TestAFirstStartMakesADurableUTF8Server(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	c := config(t, dir)
	var told []string
	c.Progress = func(step string) { told = append(told, step) }
	conn := connect(t, startServer(t, c))

	for sql, want := range map[string]string{
		"SHOW fsync":                                  "on",
		"SHOW synchronous_commit":                     "on",
		"SHOW full_page_writes":                       "on",
		"SHOW jit":                                    "off",
		"SHOW shared_buffers":                         "64MB",
		"SHOW max_connections":                        "100",
		"SHOW listen_addresses":                       "",
		"SHOW server_encoding":                        "UTF8",
		"SHOW timezone":                               "UTC",
		"SELECT current_user":                         "writ",
		"SELECT lower('ÄΩ')":                          "äω",
		"SELECT rolsuper::text FROM pg_roles LIMIT 1": "true",
		"SELECT string_agg(x, '' ORDER BY x) FROM unnest('{b,B,a}'::text[]) x": "Bab",
	} {
		if got := query(t, conn, sql); got != want {
			t.Errorf("%s: got %q, want %q", sql, got, want)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], dir) {
		t.Errorf("progress was told %q, want one step that names the folder", told)
	}
	if info, err := os.Stat(filepath.Join(dir, "sock")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket folder: %v %v, want mode 0700", info.Mode(), err)
	}
}

func TestARestartKeepsDataAndTellsNoProgress(t *testing.T) {
	t.Parallel()
	c := config(t, newDir(t))
	s := startServer(t, c)
	execute(t, connect(t, s), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	stopServer(t, s)

	c.Progress = func(step string) { t.Errorf("a restart told %q", step) }
	if got := query(t, connect(t, startServer(t, c)), "SELECT answer FROM kept"); got != "yes" {
		t.Errorf("got %q, want yes", got)
	}
}

func TestStopLeavesNothingRunningAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	s := startServer(t, config(t, dir))
	conn := connect(t, s)
	execute(t, conn, "BEGIN") // an open transaction does not delay it
	execute(t, conn, "CREATE TABLE t ()")

	results := make(chan error)
	for range 3 {
		go func() { results <- s.Stop(context.Background()) }()
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Errorf("got %v, want nil", err)
		}
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is not closed after Stop")
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: got %v, want nil", err)
	}
	if pids := serving(t, dir); len(pids) > 0 {
		t.Errorf("processes %v still run", pids)
	}
	if _, err := os.Lstat(filepath.Join(dir, "sock")); err == nil {
		t.Error("the socket folder is still there")
	}
}

func TestAStopWithoutTimeLosesNoCommit(t *testing.T) {
	t.Parallel()
	c := config(t, newDir(t))
	s, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, connect(t, s), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(expired); err == nil {
		t.Log("the server was quicker than the test")
	}
	if got := query(t, connect(t, startServer(t, c)), "SELECT answer FROM kept"); got != "yes" {
		t.Errorf("got %q, want yes", got)
	}
}

func TestAServerThatEndsByItselfSaysSoAndRecovers(t *testing.T) {
	t.Parallel()
	c := config(t, newDir(t))
	s := startServer(t, c)
	execute(t, connect(t, s), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") || !strings.Contains(err.Error(), "ready to accept connections") {
		t.Errorf("got %v, want the state of the process and the end of its log", err)
	}
	stopServer(t, s)
	if got := query(t, connect(t, startServer(t, c)), "SELECT answer FROM kept"); got != "yes" {
		t.Errorf("got %q, want yes", got)
	}
}

func TestTwoFoldersHaveTwoServers(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, config(t, newDir(t))), startServer(t, config(t, newDir(t)))
	execute(t, connect(t, a), "CREATE TABLE only_a ()")
	if got := query(t, connect(t, b), "SELECT count(*)::text FROM pg_tables WHERE tablename = 'only_a'"); got != "0" {
		t.Errorf("the servers share a database")
	}
}

func TestASecondStartOnAFolderIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := startServer(t, config(t, dir))
	canceled, cancel := context.WithCancel(t.Context())
	cancel() // whoever waited would find it ended
	_, err := Start(canceled, config(t, dir))
	if !errors.Is(err, ErrInUse) || err.Error() != "another writ dev is using "+dir {
		t.Errorf("got %v, want that another writ dev is using %s", err, dir)
	}
	if got := query(t, connect(t, first), "SELECT 'still here'"); got != "still here" {
		t.Errorf("the first server is disturbed: %q", got)
	}
}

func TestALiveServerKeepsOthersOutThoughItsLockIsLost(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := startServer(t, config(t, dir))
	if err := syscall.Flock(int(first.folder.lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if s, err := Start(ctx, config(t, dir)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v and %v, want it to wait for the server to end", s, err)
	}
	if got := query(t, connect(t, first), "SELECT 'still here'"); got != "still here" {
		t.Errorf("the first server is disturbed: %q", got)
	}
}

func TestAFolderWithAnAwkwardNameWorks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, sub string }{
		{"too long for a socket", strings.Repeat("long/", 30)},
		{"a space, a quote and a plus", "it's + here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(newDir(t), test.sub)
			s := startServer(t, config(t, dir))
			if got := query(t, connect(t, s), "SHOW data_directory"); got != filepath.Join(dir, "data") {
				t.Errorf("got %q", got)
			}
			stopServer(t, s)
			if _, err := os.Stat(s.folder.socket); err == nil {
				t.Errorf("%s is left over", s.folder.socket)
			}
		})
	}
}
