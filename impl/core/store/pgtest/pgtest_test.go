package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
)

// The test binary runs itself again, with these in its environment.
const (
	variantVariable = "WRIT_PGTEST_TEST_VARIANT" // other migrations, another template
	journalVariable = "WRIT_PGTEST_TEST_JOURNAL" // a file that gets a line per migration
	faultVariable   = "WRIT_PGTEST_TEST_FAULT"   // lets the migration fail half-way
)

func TestMain(m *testing.M) {
	run(m, fstest.MapFS{
		"1_init.sql":  {Data: []byte("CREATE TABLE migrated (n int)")},
		"2_other.sql": {Data: []byte("-- " + os.Getenv(variantVariable))},
	}, migrate)
}

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "CREATE TABLE migrated (n int)"); err != nil {
		return err
	}
	if os.Getenv(faultVariable) != "" {
		return errors.New("a fault in the second migration")
	}
	if _, err := conn.Exec(ctx, "INSERT INTO migrated VALUES (1)"); err != nil {
		return err
	}
	if path := os.Getenv(journalVariable); path != "" {
		journal, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(journal, os.Getpid())
		return errors.Join(err, journal.Close())
	}
	return nil
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func query(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	var got string
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func TestEachDatabaseIsMigratedAndApart(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		t.Run(fmt.Sprint("database ", i), func(t *testing.T) {
			t.Parallel()
			conn := connect(t, New(t))
			if _, err := conn.Exec(t.Context(), "INSERT INTO migrated VALUES ($1)", 100+i); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("1,%d", 100+i)
			if got := query(t, conn, "SELECT string_agg(n::text, ',' ORDER BY n) FROM migrated"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestAnEmptyDatabaseHasNoTables(t *testing.T) {
	t.Parallel()
	conn := connect(t, Empty(t))
	if got := query(t, conn, "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"); got != "0" {
		t.Errorf("got %s tables, want 0", got)
	}
}

func TestADatabaseIsDroppedWithItsTestThoughConnectionsAreOpen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		create func(testing.TB) string
	}{{"New", New}, {"Empty", Empty}} {
		var name string
		t.Run(test.name, func(t *testing.T) {
			conn, err := pgx.Connect(t.Context(), test.create(t))
			if err != nil {
				t.Fatal(err)
			}
			name = query(t, conn, "SELECT current_database()")
		})
		conn := connect(t, serverFor(t).address.String())
		if got := query(t, conn, "SELECT count(*)::text FROM pg_database WHERE datname = $1", name); got != "0" {
			t.Errorf("%s: the database %q is still there", test.name, name)
		}
	}
}

func TestTheHashFollowsNamesAndContents(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, files := range []fs.FS{
		fstest.MapFS{"a": {Data: []byte("1")}},
		fstest.MapFS{"a": {Data: []byte("2")}},
		fstest.MapFS{"b": {Data: []byte("1")}},
		fstest.MapFS{"a": {Data: []byte("1")}, "b": {}},
		fstest.MapFS{},
	} {
		sum, err := hash(files)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[string(sum)]; taken {
			t.Errorf("sets %d and %d have the same hash", other, i)
		}
		seen[string(sum)] = i
	}
}

// again prepares a run of one test in another process.
func again(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

const someTest = "TestEachDatabaseIsMigratedAndApart"

func TestProcessesOnOneServerMakeOneTemplate(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	env := []string{ServerVariable + "=" + serverFor(t).address.String(),
		variantVariable + "=" + t.Name() + rand.Text(), journalVariable + "=" + journal}
	results := make(chan string)
	for range 3 {
		go func() {
			output, err := again(t, someTest, env...).CombinedOutput()
			if err != nil {
				results <- fmt.Sprintf("%v: %s", err, output)
				return
			}
			results <- ""
		}()
	}
	for range 3 {
		if complaint := <-results; complaint != "" {
			t.Error(complaint)
		}
	}
	lines, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(lines), "\n"); n != 1 {
		t.Errorf("the migrations ran %d times, want once", n)
	}
}

func TestAHalfMigratedTemplateIsNeverCloned(t *testing.T) {
	t.Parallel()
	env := []string{ServerVariable + "=" + serverFor(t).address.String(), variantVariable + "=" + t.Name() + rand.Text()}
	output, err := again(t, someTest, append(env, faultVariable+"=1")...).CombinedOutput()
	if want := "pgtest: migrate the template: a fault in the second migration"; err == nil || strings.Count(string(output), want) != 8 {
		t.Errorf("got %v: %s, want %q from each of the tests", err, output, want)
	}
	if output, err := again(t, someTest, env...).CombinedOutput(); err != nil {
		t.Errorf("the next process: %v: %s", err, output)
	}
}

func TestAPrivateServerLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, run string
		signal    syscall.Signal
		wantOK    bool
	}{
		{"after tests that pass", someTest, 0, true},
		{"after an interrupt", "TestThatWaitsToBeInterrupted", syscall.SIGINT, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "pgtest-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			if err := os.Chmod(dir, 0o755); err != nil { // for the server's user
				t.Fatal(err)
			}
			waits := filepath.Join(dir, "waits")
			cmd := again(t, test.run, ServerVariable+"=", "TMPDIR="+dir, waitVariable+"="+waits)
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if test.signal != 0 {
				for _, err := os.Stat(waits); err != nil && t.Context().Err() == nil; _, err = os.Stat(waits) {
					time.Sleep(10 * time.Millisecond)
				}
				if err := cmd.Process.Signal(test.signal); err != nil {
					t.Error(err)
				}
			}
			if err := cmd.Wait(); (err == nil) != test.wantOK {
				t.Errorf("%v: %s", err, output.String())
			}
			left, err := filepath.Glob(filepath.Join(dir, FolderPrefix+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("%v %q are left over", err, left)
			}
		})
	}
}

// waitVariable names a file that says that the test below now waits.
const waitVariable = "WRIT_PGTEST_TEST_WAIT"

func TestThatWaitsToBeInterrupted(t *testing.T) {
	path := os.Getenv(waitVariable)
	if path == "" {
		t.Skip("is a part of TestAPrivateServerLeavesNothing")
	}
	New(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Second)
}

func TestOnlyAbandonedFoldersAreSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, test := range []struct {
		name     string
		age      time.Time
		locked   bool
		wantGone bool
	}{
		{FolderPrefix + "abandoned", old, false, true},
		{FolderPrefix + "in-use", old, true, false},
		{FolderPrefix + "new", time.Now(), false, false},
		{"else", old, false, false},
	} {
		folder := filepath.Join(dir, test.name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := os.Create(filepath.Join(folder, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		if test.locked {
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(folder, test.age, test.age); err != nil {
			t.Fatal(err)
		}
		sweep(dir)
		if _, err := os.Stat(folder); (err != nil) != test.wantGone {
			t.Errorf("%s: gone is %v, want %v", test.name, err != nil, test.wantGone)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	serverFor(b)
	for b.Loop() {
		New(b)
	}
}
