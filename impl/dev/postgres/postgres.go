// Package postgres runs the private PostgreSQL of `writ dev`: a child process
// of writ, on a folder of its own, reached through a unix socket only.
//
// What it promises:
//
//   - A commit that was acknowledged survives everything a production server's
//     would: kill -9 of writ, of PostgreSQL, a power cut. fsync and
//     synchronous_commit are switched off only where nobody comes back
//     (Config.Disposable).
//   - The server does not outlive writ. Stop ends it; on Linux the kernel ends
//     it when writ is killed; elsewhere the next Start on the folder does.
//   - One folder has one user. A second Start on it fails with ErrInUse.
//   - Nothing this package did not make itself is ever deleted.
//
// The folder Config.Dir then holds:
//
//	data/         the database cluster, made at the first start: by initdb, or as a copy of a template
//	sock/         the socket; a link to a temporary folder if its path is too long
//	postgres.log  what PostgreSQL said since the last start
//	lock          held (flock) from Start to Stop
//	unfinished    there only while the first start is under way; see cluster.go
//
// PostgreSQL refuses to run as root. When writ is root the server runs as the
// owner of data/, at the first start as user postgres or else nobody. Where a folder
// on the way is closed to that user, as those of mktemp -d are, Linux lets the server
// pass by one capability of root that it keeps; elsewhere Start says which folder it is.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrInUse is what Start returns when another process uses the folder.
var ErrInUse = errors.New("another writ dev is using")

const (
	superuser = "writ"
	port      = "5432" // only a part of the socket's name

	stopGrace  = 30 * time.Second // for the shutdown checkpoint, before SIGQUIT
	quitGrace  = 10 * time.Second // PostgreSQL itself kills what resists SIGQUIT after 5
	readyEvery = 5 * time.Millisecond

	// settleAfter is when a copy is written out: not while its server starts, and those wait who
	// wait for it.
	settleAfter = 5 * time.Second
)

// Config says where a Server lives. Dir and Logger are required.
type Config struct {
	Dir      string // made if it is missing
	Logger   *slog.Logger
	Settings []string     // of postgresql.conf, name=value, for this start
	Progress func(string) // is told what is being done before each step that takes long
	// Template, if not nil, is what a new cluster is a copy of (template.go).
	Template *Template
	// Disposable says that nobody comes back to Dir: it is removed after the run, so that
	// nothing has to be on the disk.
	Disposable bool

	install *installation // what to use, when it is known
	cache   string        // for templates; that of the user when empty
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// Server is a running PostgreSQL. It is safe for concurrent use.
type Server struct {
	logger *slog.Logger
	folder *folder
	cmd    *exec.Cmd

	stop     sync.Once
	stopErr  error
	stopping atomic.Bool
	done     chan struct{}
	exit     error // of Wait; this and err are written before done is closed
	err      error
	settled  func() error // waits until a new cluster is on the disk
}

// Start returns a server that accepts connections, after making the database
// cluster if Dir has none. The server then runs until Stop; ctx bounds the
// start only. A failed Start leaves no process behind.
//
// It returns ErrInUse if another process uses Dir, and ErrNotInstalled if this
// machine has no PostgreSQL and none can be downloaded.
func Start(ctx context.Context, c Config) (*Server, error) {
	began := time.Now()
	f, err := openFolder(c.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{logger: c.Logger, folder: f, done: make(chan struct{})}
	if err := s.start(ctx, c); err != nil {
		f.close()
		return nil, err
	}
	s.logger.InfoContext(ctx, "PostgreSQL is ready",
		"dir", f.path, "program", s.cmd.Path, "pid", s.cmd.Process.Pid, "took", time.Since(began).Round(time.Millisecond).String())
	return s, nil
}

func (s *Server) start(ctx context.Context, c Config) error {
	f := s.folder
	if err := f.awaitOrphan(ctx); err != nil {
		return err
	}
	major, err := f.clusterVersion()
	if err != nil {
		return err
	}
	install, err := c.programs(ctx, major)
	if err != nil {
		return err
	}
	if major == 0 {
		if err := f.initialise(ctx, c, install); err != nil {
			return err
		}
	}
	if err := f.makeSocketFolder(); err != nil {
		return err
	}
	if err := s.launch(install, c); err != nil {
		return err
	}

	// The new cluster is written out while its server comes up: that hides
	// most of what the one or the other takes. A copy is written out later still.
	synced, soon := make(chan error, 1), make(chan struct{})
	hasty := sync.OnceFunc(func() { close(soon) })
	copied := f.isCopied()
	go func() {
		if copied {
			select {
			case <-soon:
			case <-time.After(settleAfter):
			}
		}
		synced <- f.finish(context.WithoutCancel(ctx), c, install)
	}()
	s.settled = sync.OnceValue(func() error { hasty(); return <-synced })
	err = s.awaitReady(ctx)
	if !copied || err != nil {
		err = errors.Join(err, s.settled())
	}
	if err != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(err, s.end(grace))
	}
	return nil
}

// programs returns what to run.
func (c Config) programs(ctx context.Context, major int) (installation, error) {
	if c.install != nil {
		return *c.install, nil
	}
	return findOrDownload(ctx, c, major)
}

// launch starts the server process and the goroutine that waits for it.
func (s *Server) launch(install installation, c Config) error {
	f := s.folder
	log, err := f.createLog()
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy

	args := []string{
		"-D", f.data(),
		"-k", s.folder.socket,
		"-c", "port=" + port,
		"-c", "listen_addresses=",
		"-c", "unix_socket_permissions=0700",
		"-c", "max_connections=100",
		"-c", "shared_buffers=64MB",
		"-c", "jit=off", // compiling costs more than the short queries it would speed up
	}
	if c.Disposable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}
	for _, setting := range c.Settings {
		args = append(args, "-c", setting)
	}
	s.cmd = command(context.Background(), f, syscall.SIGINT, install.program("postgres"), args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	ended, err := start(f, s.cmd)
	if err != nil {
		return err
	}
	go func() {
		s.exit = <-ended
		if !s.stopping.Load() {
			s.err = fmt.Errorf("PostgreSQL ended by itself (%s): %s", s.cmd.ProcessState, f.logTail())
		}
		close(s.done)
	}()
	return nil
}

// awaitReady returns once a connection succeeds. There is no limit of its own:
// recovery after a crash takes as long as it takes.
func (s *Server) awaitReady(ctx context.Context) error {
	config, err := pgconn.ParseConfig(s.URL("postgres"))
	if err != nil {
		return err
	}
	for {
		conn, err := pgconn.ConnectConfig(ctx, config)
		if err == nil {
			return conn.Close(ctx)
		}
		// cannot_connect_now says "starting up"; any other answer is final.
		if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code != "57P03" {
			return fmt.Errorf("PostgreSQL in %s refuses user %s: %w", s.folder.path, superuser, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL in %s is not ready: %w", s.folder.path, ctx.Err())
		case <-s.done:
			return s.err
		case <-time.After(readyEvery):
		}
	}
}

// URL returns the address of a database for pgx and libpq, as superuser, over
// the unix socket. The database "postgres" is always there.
func (s *Server) URL(database string) string {
	query := url.Values{"host": {s.folder.socket}, "port": {port}, "sslmode": {"disable"}}
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Path:     "/" + database,
		RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20"), // both read a plus as a plus
	}).String()
}

// Done is closed once the server process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns nil while the server runs and after Stop, and the reason with the
// last lines of its log once it has ended by itself.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop ends the server and gives the folder free; when it returns the process
// is gone. Open transactions are rolled back. Only the first call does
// anything, later ones wait for it and return the same. Call it also when the
// server has ended by itself.
//
// A server that needs more than 30 seconds, or longer than ctx allows, is made
// to quit at once. That loses no commit but is an error, since the next start
// has to recover.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		s.stopErr = errors.Join(s.end(ctx), s.settled())
		s.folder.close()
	})
	return s.stopErr
}

func (s *Server) end(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	default:
	}
	s.stopping.Store(true)
	for _, step := range []struct {
		signal syscall.Signal
		grace  time.Duration
		ctx    context.Context
	}{
		{syscall.SIGINT, stopGrace, ctx}, // "fast shutdown"
		{syscall.SIGQUIT, quitGrace, context.WithoutCancel(ctx)},
		{syscall.SIGKILL, quitGrace, context.WithoutCancel(ctx)},
	} {
		if err := s.cmd.Process.Signal(step.signal); err != nil {
			s.logger.Debug("signal PostgreSQL", "signal", step.signal.String(), "err", err) // it has just ended
		}
		select {
		case <-s.done:
			if step.signal == syscall.SIGINT && s.exit == nil {
				return nil
			}
			if step.signal == syscall.SIGINT {
				return fmt.Errorf("PostgreSQL in %s failed to shut down (%w): %s", s.folder.path, s.exit, s.folder.logTail())
			}
			return fmt.Errorf("PostgreSQL in %s did not shut down in time and was ended by %s; its next start recovers",
				s.folder.path, step.signal)
		case <-step.ctx.Done():
		case <-time.After(step.grace):
		}
		s.logger.Warn("PostgreSQL does not end", "signal", step.signal.String())
	}
	return fmt.Errorf("PostgreSQL process %d in %s cannot be ended", s.cmd.Process.Pid, s.folder.path)
}
