package postgres

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The test binary started with these in its environment plays writ.
const (
	helperTask = "WRIT_POSTGRES_TEST_HELPER"
	helperDir  = "WRIT_POSTGRES_TEST_DIR"
)

func TestMain(m *testing.M) {
	task, ok := map[string]func(context.Context, *Server) error{
		"":       nil,
		"insert": insertForever,
		"cycle":  func(ctx context.Context, s *Server) error { return s.Stop(ctx) },
	}[os.Getenv(helperTask)]
	if task == nil && ok {
		os.Exit(runTests(m))
	}
	ctx := context.Background()
	s, err := Start(ctx, Config{Dir: os.Getenv(helperDir), Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = task(ctx, s)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("done as uid", os.Getuid())
}

// testRoot holds the folders of all tests. It is removed once, after the last,
// and is in memory if there is plenty and TMPDIR does not say otherwise: ext4
// is slow to give out inodes for a while after thousands of them were deleted,
// which triples the time of every initdb.
var testRoot string

func runTests(m *testing.M) int {
	parent := os.TempDir()
	var room syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs("/dev/shm", &room) == nil && room.Bavail*uint64(room.Bsize) > 4<<30 {
		parent = "/dev/shm"
	}
	var err error
	if testRoot, err = os.MkdirTemp(parent, "writ-postgres-test-"); err == nil {
		err = os.Chmod(testRoot, 0o755) // the server's user passes through
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(testRoot); err != nil {
		fmt.Println(err)
		return max(code, 1)
	}
	return code
}

// insertForever prints the number of each row after its commit.
func insertForever(ctx context.Context, s *Server) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS acknowledged (n int)"); err != nil {
		return err
	}
	for n := 1; ; n++ {
		if _, err := conn.Exec(ctx, "INSERT INTO acknowledged VALUES ($1)", n); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func helper(t *testing.T, binary, task, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), helperTask+"="+task, helperDir+"="+dir)
	cmd.Dir = filepath.Dir(dir)
	cmd.Stderr = t.Output()
	return cmd
}

func ownBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKillingWritLosesNoAcknowledgedRowAndLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		rows  int           // kill after that many acknowledged rows,
		after time.Duration // or after that time, if rows is 0
	}{
		{"at the very first moment", 0, 5 * time.Millisecond},
		{"during initdb", 0, 150 * time.Millisecond},
		{"at about the end of the first start", 0, 500 * time.Millisecond},
		{"while rows are written", 200, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			cmd := helper(t, ownBinary(t), "insert", dir)
			output, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if test.rows == 0 {
				time.AfterFunc(test.after, func() { _ = cmd.Process.Kill() })
			}
			rows := 0
			for lines := bufio.NewScanner(output); lines.Scan(); {
				if rows, err = strconv.Atoi(lines.Text()); err != nil {
					t.Errorf("the helper says %q", lines.Text())
				}
				if rows == test.rows {
					_ = cmd.Process.Kill()
				}
			}
			if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
				t.Fatalf("the helper ended with %v", err)
			}

			conn := connect(t, startServer(t, config(t, dir)))
			execute(t, conn, "CREATE TABLE IF NOT EXISTS acknowledged (n int)")
			missing := query(t, conn, fmt.Sprintf(
				"SELECT count(*)::text FROM generate_series(1, %d) AS n WHERE n NOT IN (SELECT n FROM acknowledged)", rows))
			if missing != "0" {
				t.Errorf("%s of %d acknowledged rows are lost", missing, rows)
			}
			if servers := serving(t, filepath.Join(dir, "data")); len(servers) == 0 {
				t.Error("this test cannot see processes")
			}
		})
	}
}

func TestNoServerOutlivesAKilledWrit(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]os.FileMode{"in a folder open to all": 0o755, "below one that is closed to its user": 0o700} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := newDir(t)
			if err := os.Chmod(above, mode); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(above, "db")
			cmd := helper(t, ownBinary(t), "insert", dir)
			output, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if len(serving(t, dir)) == 0 {
				t.Error("the server does not run")
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for len(serving(t, dir)) > 0 { // a server that stays is found by the limit of the suite
				time.Sleep(readyEvery)
			}
		})
	}
}

func TestAnOrdinaryUserCanStartAServer(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("all the other tests show it when they are not run as root")
	}
	dir := newDir(t)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	// The test binary lies where only root gets to. It is not copied by this
	// process: a child forked meanwhile would hold it open for writing, and a
	// program that is being written cannot be started.
	binary := filepath.Join(dir, "helper")
	if output, err := exec.CommandContext(t.Context(), "cp", ownBinary(t), binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, start := range []string{"first", "second"} {
		cmd := helper(t, binary, "cycle", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		output, err := cmd.Output()
		if err != nil || !strings.Contains(string(output), "done as uid 65534") {
			t.Fatalf("%s start: %v: %s", start, err, output)
		}
	}
	// And root can take over what that user made.
	if got := query(t, connect(t, startServer(t, config(t, dir))), "SELECT 'taken over'"); got != "taken over" {
		t.Errorf("got %q", got)
	}
}

// serving returns the processes that work in the folder, this one aside. It
// sees them on Linux only.
func serving(t *testing.T, dir string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		cwd, err := os.Readlink(link) // fails for zombies and for what has just gone
		if err == nil && strings.HasPrefix(cwd+"/", dir+"/") {
			program, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
			found = append(found, strings.ReplaceAll(link+" "+string(program), "\x00", " "))
		}
	}
	return found
}

// helperSleep returns the number of a process of the server's user.
func helperSleep(t *testing.T, dir string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if owner, ok := ownerOf(filepath.Join(dir, "data")); ok && os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}
