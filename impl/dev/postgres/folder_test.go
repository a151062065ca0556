package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestHalfMadeDataIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	// As a power cut in the middle of initdb may leave it: PG_VERSION is there early.
	writeFile(t, filepath.Join(dir, "unfinished"), "")
	writeFile(t, filepath.Join(dir, "data", "PG_VERSION"), "15\n")
	writeFile(t, filepath.Join(dir, "data", "base", "1", "112"), "half a page")

	if got := query(t, connect(t, startServer(t, config(t, dir))), "SELECT 'made'"); got != "made" {
		t.Errorf("got %q", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name == "unfinished" || strings.HasPrefix(name, "discarded-") {
			t.Errorf("%s is left over", name)
		}
	}
}

func TestFoldersThatCannotBeUsedAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, dir string) (use string)
		want    string // %s is dir
	}{
		{"somebody's files in data are not touched", func(t *testing.T, dir string) string {
			writeFile(t, filepath.Join(dir, "data", "diary.txt"), "dear diary")
			return dir
		}, "%s/data is not a data folder of PostgreSQL; move it away"},
		{"data of a version that is not here", func(t *testing.T, dir string) string {
			writeFile(t, filepath.Join(dir, "data", "PG_VERSION"), "9\n")
			return dir
		}, "the data in %s is of PostgreSQL 9, which is not installed"},
		{"a damaged folder", func(t *testing.T, dir string) string {
			writeFile(t, filepath.Join(dir, "data", "PG_VERSION"), "15\n")
			return dir
		}, "PostgreSQL ended by itself (exit status 2): "},
		{"a file", func(t *testing.T, dir string) string {
			writeFile(t, filepath.Join(dir, "file"), "")
			return filepath.Join(dir, "file")
		}, "mkdir %s/file: not a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			use := test.prepare(t, dir)
			before := files(t, filepath.Join(dir, "data"))
			s, err := Start(t.Context(), config(t, use))
			if err == nil {
				stopServer(t, s)
			}
			want := test.want
			if strings.Contains(want, "%") {
				want = fmt.Sprintf(want, dir)
			}
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, want)
			}
			for _, path := range before {
				if _, err := os.Stat(path); err != nil {
					t.Errorf("a file of somebody else is gone: %v", err)
				}
			}
		})
	}
}

func TestAFolderOnlyRootMayEnterIsGivenToTheServersUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := newDir(t)
	if err := os.Chmod(dir, 0o700); err != nil { // as os.MkdirTemp makes it
		t.Fatal(err)
	}
	startServer(t, config(t, dir))
	if owner, ok := ownerOf(dir); !ok || owner.Uid == 0 {
		t.Errorf("the folder belongs to %+v", owner)
	}
}

// As those of mktemp -d and of root's home are.
func TestAFolderBelowOneThatOnlyRootMayEnterWorks(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 || runtime.GOOS != "linux" {
		t.Skip("needs root, on Linux")
	}
	closed := filepath.Join(newDir(t), "home")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "db")
	s := startServer(t, config(t, dir))
	execute(t, connect(t, s), "CREATE TABLE kept AS SELECT 1 AS one")
	stopServer(t, s)
	s = startServer(t, config(t, dir))
	if got := query(t, connect(t, s), "SELECT one::text FROM kept"); got != "1" {
		t.Errorf("got %q after the second start", got)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "\nCapEff:\t0000000000000004\n") && !strings.Contains(string(status), "\nCapEff:\t0000000000000002\n") {
		t.Errorf("the server may do more than pass: %s", status)
	}
	if info, err := os.Stat(closed); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of somebody else was opened: %v %v", info.Mode(), err)
	}
}

func TestAStalePidFileDoesNotHinderAStart(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	s := startServer(t, config(t, dir))
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	stopServer(t, s)

	// The number of the dead server now belongs to another process. PostgreSQL
	// alone refuses to start then, unless that process is its parent.
	other := helperSleep(t, dir)
	_, rest, _ := strings.Cut(string(content), "\n")
	writeFile(t, pidFile, fmt.Sprintf("%d\n%s", other, rest))
	startServer(t, config(t, dir))
}

func TestAFailedFirstStartIsRepeatedInFull(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	// A folder where the log should be lets the start fail after initdb.
	writeFile(t, filepath.Join(dir, "postgres.log", "x"), "")
	if s, err := Start(t.Context(), config(t, dir)); err == nil {
		stopServer(t, s)
		t.Fatal("a start without a log succeeded")
	}
	if err := os.RemoveAll(filepath.Join(dir, "postgres.log")); err != nil {
		t.Fatal(err)
	}
	startServer(t, config(t, dir))
}

func TestTheSocketIsInTheFolderUnlessItsPathCannotBe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sub string
		want      bool
	}{
		{"a short path", "db", true},
		{"a path that is too long", strings.Repeat("d", maxSocketPath), false},
		{"a path with a comma, which ends a path for pgx", "a,b", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, err := openFolder(filepath.Join(newDir(t), test.sub))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.makeSocketFolder(); err != nil {
				t.Fatal(err)
			}
			first := f.socket
			if got := strings.HasPrefix(first, f.path); got != test.want || tooLong(first) {
				t.Errorf("got %s", first)
			}
			// As after a kill: nobody removed the first.
			if err := f.makeSocketFolder(); err != nil {
				t.Fatal(err)
			}
			f.close()
			for _, path := range []string{first, f.socket, f.sock()} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s is left over", path)
				}
			}
		})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
