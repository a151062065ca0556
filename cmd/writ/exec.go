package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/dev/ready"
	"github.com/writ-id/writ/impl/dev/record"
)

func newExec() *cobra.Command {
	e := execution{dev: dev{}}
	cmd := &cobra.Command{
		Use:   "exec [flags] -- command [argument…]",
		Short: "Run a command, such as a test suite, beside a server of its own",
		Long: `Starts what writ dev starts, on free ports, runs the command with the variables
below, and ends with its exit code. Nothing is left behind: no process, no file. An
exported WRIT_ADDR is that of another server and moves nothing; the command gets
that of this one, so that writ clock and the like below it call it.

  OIDC_ISSUER, WRIT_BASE_URL          the server
  WRIT_ADDR                           its host:port, for writ commands
  WRIT_ADMIN_TOKEN                    a token for its API
  CLIENT_ID, CLIENT_SECRET            the first confidential client of the seed (web)
  REDIRECT_URI, POST_LOGOUT_REDIRECT_URI  where it is sent back to
  USER_LOGIN_NAME, USER_PASSWORD, USER_ID, USER_EMAIL  who signs in
  SERVICE_CLIENT_ID, SERVICE_CLIENT_SECRET  a service user, for client_credentials
  INSTANCE_ID, ORG_ID, PROJECT_ID
  CLIENT_<NAME>_ID, …_SECRET, …_KEY_FILE, …_REDIRECT_URI  each client of the seed
  READY_FILE                          all of that as JSON
  OIDC_CA_FILE, NODE_EXTRA_CA_CERTS   the certificate, with --tls

Tests that need more than one server ask it for worlds (POST /_dev/worlds), and it
for tokens (POST /_dev/login), another time (/_dev/clock) or mishaps (/_dev/faults).`,
		Example: `  writ exec -- go test ./...
  writ exec --seed seed.yaml --record writ.jsonl -- pytest
  writ exec --keep-on-failure -- npm test`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("which command? As in: writ exec -- go test ./pkg")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd.Context(), cmd.OutOrStdout(), args) },
	}
	e.readable = true
	e.add(cmd, "127.0.0.1:0", 0, true, 0, "public")
	cmd.Flags().SetInterspersed(false)
	onlyTyped(cmd, "addr", "debug-addr", "metrics-addr")
	e.logLevel = "warn"
	cmd.Flags().Lookup("log-level").DefValue = e.logLevel
	cmd.Flags().BoolVar(&e.tls, "tls", false, "serve https, with a certificate of its own unless one is named")
	cmd.Flags().IntVar(&e.worlds, "worlds", 0, "how many worlds (POST /_dev/worlds) are ready from the start; without it some are from the first that is asked for")
	cmd.Flags().BoolVar(&e.keep, "keep-on-failure", false, "keep the database when the command fails, and say how to look at it")
	cmd.Flags().StringVar(&e.record, "record", "", "file to write every request with its answer to, as JSON lines, secrets left out")
	return cmd
}

type execution struct {
	dev
	keep   bool
	record string
}

// exitError ends the process with the exit code of a command.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("the command ended with %d", int(e)) }

func (e *execution) run(ctx context.Context, out io.Writer, args []string) (err error) {
	program, err := exec.LookPath(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "writ:", err)
		return exitError(127) // as shells have it
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)

	code := 0
	server, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the command has ended, whatever signals come
	defer stop()
	var recorder *record.Recorder
	if e.record != "" {
		if recorder, err = record.Create(e.record); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		defer func() { err = errors.Join(err, recorder.Close()) }()
		e.recorded, e.sharedHTTP2 = recorder.Handler, true // gRPC through net/http too
	}
	e.kept = func() bool { return e.keep && code != 0 }
	ended := make(chan struct{})
	var started atomic.Bool
	e.announced = func(info ready.Info, file, ca string) error {
		if recorder != nil {
			recorder.Learn(secretsOf(info)...)
		}
		started.Store(true)
		go func() {
			defer close(ended)
			defer stop()
			code = e.command(program, args, append(os.Environ(), exported(info, file, ca)...), signals)
		}()
		return nil
	}
	interrupted := make(chan struct{})
	defer close(interrupted)
	go func() { // before there is a command a signal ends the start
		select {
		case <-ctx.Done():
			if !started.Load() {
				stop()
			}
		case <-interrupted:
		}
	}()
	err = e.dev.run(server, out)
	if started.Load() {
		<-ended
	}
	if err != nil || code == 0 {
		return err
	}
	return exitError(code)
}

// command runs the command to its end and returns its exit code. What it left in its group of
// processes ends with it.
func (e *execution) command(program string, args, environment []string, signals <-chan os.Signal) int {
	cmd := exec.Command(program, args[1:]...)
	cmd.Args[0], cmd.Env = args[0], environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// At a terminal the command stays in the foreground, where Ctrl-C reaches it by itself.
	alone := !isTerminal(os.Stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: alone}
	endWithParent(cmd.SysProcAttr)
	runtime.LockOSThread() // whose end the kernel takes for that of the parent
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "writ:", err)
		return 126
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case one := <-signals:
				switch {
				case alone:
					_ = syscall.Kill(-cmd.Process.Pid, one.(syscall.Signal)) // it may have ended
				case one != syscall.SIGINT && one != syscall.SIGQUIT:
					_ = cmd.Process.Signal(one)
				}
			case <-over:
				return
			}
		}
	}()
	_ = cmd.Wait() // the state says it all
	if alone {
		endGroup(cmd.Process.Pid)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// endGroup ends what is left of a group of processes.
func endGroup(group int) {
	if syscall.Kill(-group, syscall.SIGTERM) != nil {
		return // nothing is
	}
	for range 100 {
		if syscall.Kill(-group, 0) != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
}

// ours are the variables with our prefix that exec sets and that are no flags: known to commands below it.
var ours = []string{"WRIT_BASE_URL", "WRIT_ADMIN_TOKEN"}

// exported returns the variables that tell a command how to reach the server.
func exported(info ready.Info, file, ca string) []string {
	var all []string
	set := func(name, value string) {
		if value != "" {
			all = append(all, name+"="+value)
		}
	}
	set("OIDC_ISSUER", info.Issuer)
	set("WRIT_BASE_URL", info.Issuer)
	set("WRIT_ADDR", info.Addr)
	set("WRIT_ADMIN_TOKEN", info.AdminToken)
	set("INSTANCE_ID", info.InstanceID)
	set("ORG_ID", info.OrgID)
	set("PROJECT_ID", info.ProjectID)
	set("READY_FILE", file)
	set("OIDC_CA_FILE", ca)
	set("NODE_EXTRA_CA_CERTS", ca)
	if user := info.User; user != nil {
		set("USER_ID", user.ID)
		set("USER_LOGIN_NAME", user.LoginName)
		set("USER_PASSWORD", user.Password)
		set("USER_EMAIL", user.Email)
	}
	if service := info.ServiceUser; service != nil {
		set("SERVICE_CLIENT_ID", service.ClientID)
		set("SERVICE_CLIENT_SECRET", service.ClientSecret)
		set("SERVICE_KEY_FILE", service.KeyFile)
	}
	if client, ok := info.Confidential(); ok {
		set("CLIENT_ID", client.ClientID)
		set("CLIENT_SECRET", client.ClientSecret)
		set("REDIRECT_URI", client.RedirectURI)
		set("POST_LOGOUT_REDIRECT_URI", client.PostLogoutRedirectURI)
	}
	for name, client := range info.Clients {
		prefix := "CLIENT_" + strings.ToUpper(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, name))
		set(prefix+"_ID", client.ClientID)
		set(prefix+"_SECRET", client.ClientSecret)
		set(prefix+"_KEY_FILE", client.KeyFile)
		set(prefix+"_REDIRECT_URI", client.RedirectURI)
	}
	return all
}

// secretsOf returns the secrets of a ready file.
func secretsOf(info ready.Info) []string {
	all := []string{info.AdminToken, info.ViewerToken, info.OrgOwnerToken, info.NobodyToken, info.SystemToken}
	if info.User != nil {
		all = append(all, info.User.Password)
	}
	if info.ServiceUser != nil {
		all = append(all, info.ServiceUser.ClientSecret)
	}
	for _, client := range info.Clients {
		all = append(all, client.ClientSecret)
	}
	return all
}

// sweepTemporary removes the data folders of runs that were killed.
func sweepTemporary() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*")) // fails only on a malformed pattern
	for _, folder := range folders {
		// The folder may be PostgreSQL's user's, what it is locked by is not.
		path := filepath.Join(folder, "lock")
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || !isOurs(info) {
			continue // it has just been made, or is none
		}
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(folder, keptMark)); err != nil && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(folder)
		}
		_ = lock.Close()
	}
}

func isOurs(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
