package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// orphanGrace is for the shutdown checkpoint of a server whose writ died.
	orphanGrace = 30 * time.Second

	// A socket's path has 107 bytes on Linux and 103 on macOS.
	maxSocketPath = 103

	socketPrefix = "writ-socket-" // of a temporary folder for the socket
)

// folder is Config.Dir while this process has it locked.
type folder struct {
	path   string // absolute
	owner  *syscall.Credential
	lock   *os.File
	socket string // the folder of the socket, once it is made

	through bool        // whether a folder on the way bars its owner
	copies  atomic.Bool // its file system shares no blocks, so that not each file is tried
}

func (f *folder) data() string       { return filepath.Join(f.path, "data") }
func (f *folder) sock() string       { return filepath.Join(f.path, "sock") }
func (f *folder) log() string        { return filepath.Join(f.path, "postgres.log") }
func (f *folder) unfinished() string { return filepath.Join(f.path, "unfinished") }

// openFolder makes the folder if needed, locks it and prepares it for the user
// the server will run as.
func openFolder(path string) (*folder, error) {
	if path == "" {
		return nil, errors.New("no folder for PostgreSQL is given")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // the server's user has to pass through
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, err
	}
	f := &folder{path: path}
	f.lock, err = os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w %s", ErrInUse, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := f.adopt(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// Remove removes the database that is in a folder, which nobody uses: ErrInUse otherwise.
// What is not a cluster stays.
func Remove(ctx context.Context, dir string) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.awaitOrphan(ctx); err != nil {
		return err
	}
	if major, err := f.clusterVersion(); err != nil || major == 0 {
		return err
	}
	if err := os.WriteFile(f.unfinished(), nil, 0o600); err != nil { // whatever happens from here on, it is no database any more
		return err
	}
	if err := f.discard(); err != nil {
		return err
	}
	return os.Remove(f.unfinished())
}

// close removes the socket and lets the next one in. The lock file stays: two
// processes could each hold a lock, on two files, if it were removed.
func (f *folder) close() {
	if f.socket != "" {
		f.removeSocketFolder()
	}
	// Unlocked by name: a child just being forked has a copy of the descriptor.
	_ = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN)
	_ = f.lock.Close()
}

// adopt chooses the user of the child processes when this one is root: the
// owner of the data, so that a folder keeps working whoever made it.
func (f *folder) adopt() error {
	if os.Geteuid() != 0 {
		return nil
	}
	f.owner = &syscall.Credential{Uid: 65534, Gid: 65534} // nobody
	if id, ok := ownerOf(f.data()); ok && id.Uid != 0 {
		f.owner = id
	} else if u, err := user.Lookup("postgres"); err == nil {
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return fmt.Errorf("user postgres: %w", err)
		}
		f.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	// A folder its user may enter is left as it is: it may hold other things.
	if barred(f.path, f.owner) {
		if err := f.chown(f.path); err != nil {
			return err
		}
	}
	f.through = slices.ContainsFunc(steps(f.path), func(step string) bool { return barred(step, f.owner) })
	return nil
}

func (f *folder) chown(path string) error {
	if f.owner == nil {
		return nil
	}
	return os.Chown(path, int(f.owner.Uid), int(f.owner.Gid))
}

func ownerOf(path string) (*syscall.Credential, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, false
	}
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}, true
}

// barred reports whether the mode of the folder keeps that user from entering.
func barred(path string, user *syscall.Credential) bool {
	info, err := os.Stat(path)
	owner, ok := ownerOf(path)
	if err != nil || !ok {
		return false
	}
	bit := fs.FileMode(0o001)
	switch {
	case owner.Uid == user.Uid:
		bit = 0o100
	case owner.Gid == user.Gid:
		bit = 0o010
	}
	return info.Mode()&bit == 0
}

// explain turns "permission denied" from starting a child as another user into
// a message that names the folder in the way.
func (f *folder) explain(err error, program string) error {
	if f.owner == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for _, path := range []string{f.path, filepath.Dir(program)} {
		for _, step := range steps(path) {
			if barred(step, f.owner) {
				return fmt.Errorf("PostgreSQL refuses to run as root, and user %d cannot enter %s: %s has to be elsewhere",
					f.owner.Uid, step, path)
			}
		}
	}
	return err
}

// steps returns every folder on the way from the root to path, path included.
func steps(path string) []string {
	if parent := filepath.Dir(path); parent != path {
		return append(steps(parent), path)
	}
	return []string{path}
}

// awaitOrphan waits for the server of a writ that was killed. This process
// holds the lock, so a server that still runs here is already shutting down.
func (f *folder) awaitOrphan(ctx context.Context) error {
	pidFile := filepath.Join(f.data(), "postmaster.pid")
	content, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, _ := strconv.Atoi(strings.TrimSpace(line)) // 0 if it is no number
	pid = max(pid, -pid)                            // negative is a single process, which initdb began
	if pid <= 1 {
		return nil // PostgreSQL knows what to say about it
	}
	if serves(pid, f.data()) {
		endOrphan(pid)
		if err := f.awaitNobody(ctx, pid); err != nil {
			return err
		}
	}
	// A number that is in use again, or that of a zombie, PostgreSQL takes for
	// the old server, and does not start.
	if syscall.Kill(pid, 0) == nil {
		if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (f *folder) awaitNobody(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, orphanGrace,
		fmt.Errorf("%w %s: its PostgreSQL, process %d, does not end", ErrInUse, f.path, pid))
	defer cancel()
	for serves(pid, f.data()) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(readyEvery):
		}
	}
	return nil
}

// makeSocketFolder makes a fresh folder for the socket, which only the server's
// user (and root) may enter.
func (f *folder) makeSocketFolder() error {
	f.removeSocketFolder()
	f.socket = f.sock()
	// pgx and PostgreSQL both read a comma as the end of a folder's name.
	if tooLong(f.socket) || strings.ContainsAny(f.socket, `,"`) {
		temporary, err := os.MkdirTemp("", socketPrefix)
		if err == nil && tooLong(temporary) { // macOS and its /var/folders/…
			_ = os.Remove(temporary)
			temporary, err = os.MkdirTemp("/tmp", socketPrefix)
		}
		if err != nil {
			return err
		}
		// The link is how the next start finds what a killed writ left behind.
		if err := os.Symlink(temporary, f.sock()); err != nil {
			_ = os.Remove(temporary)
			return err
		}
		f.socket = temporary
	} else if err := os.Mkdir(f.socket, 0o700); err != nil {
		return err
	}
	return f.chown(f.socket)
}

func tooLong(socketFolder string) bool {
	return len(socketFolder)+len("/.s.PGSQL."+port) > maxSocketPath
}

func (f *folder) removeSocketFolder() {
	if target, err := os.Readlink(f.sock()); err == nil && strings.HasPrefix(filepath.Base(target), socketPrefix) {
		_ = os.RemoveAll(target)
	}
	_ = os.RemoveAll(f.sock())
}

func (f *folder) createLog() (*os.File, error) {
	return os.OpenFile(f.log(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// logTail returns the last lines of the log, on one line.
func (f *folder) logTail() string {
	content, err := os.ReadFile(f.log())
	if err != nil {
		return err.Error()
	}
	return tail(content)
}

// tail returns the last lines of a program's output, on one line.
func tail(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], " | ")
}
