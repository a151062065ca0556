package postgres

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command prepares a program of PostgreSQL: as the folder's owner, in its own
// process group (Ctrl-C is for writ, which then calls Stop), to be sent
// onDeath when this process dies.
func command(ctx context.Context, f *folder, onDeath syscall.Signal, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = f.path
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: f.owner}
	endWithParent(cmd.SysProcAttr, onDeath)
	if f.through && passThrough(cmd.SysProcAttr) {
		cmd.Dir = "/" // where it is before it can pass
	}
	// initdb has children of its own, in its group.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// environment is ours without what would change the server: PGPORT, PGDATA and
// their like, languages, and the time zone, which initdb would search for.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PG") && !strings.HasPrefix(name, "LC_") && !strings.HasPrefix(name, "LANG") && name != "TZ" {
			env = append(env, entry)
		}
	}
	return env
}

// start starts cmd; the result of its Wait arrives on the channel.
func start(f *folder, cmd *exec.Cmd) (<-chan error, error) {
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// Linux takes the end of the thread that forked for the death of the
		// parent, so this goroutine keeps the thread until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, f.explain(err, cmd.Path)
	}
	return ended, nil
}
