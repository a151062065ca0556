// Command shared runs a command beside one PostgreSQL, which all tests that the command
// runs share (pgtest.ServerVariable):
//
//	go run ./impl/core/store/pgtest/shared go test ./...
//
// The server is private, keeps nothing, and ends with the command. It is at the same address
// in each run of a checkout, so that Go's test cache holds from one run to the next. With
// the variable set already the command runs with that server.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/dev/postgres"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "shared: name a command")
		os.Exit(2)
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "shared:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run returns the exit code of the command.
func run(command []string) (code int, err error) {
	// The command gets the signal too: it is in the same group, and ends first.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	if os.Getenv(pgtest.ServerVariable) == "" {
		dir, err := folder()
		if err != nil {
			return 1, err
		}
		server, err := start(dir)
		if errors.Is(err, postgres.ErrInUse) { // by another run of this checkout
			if dir, err = os.MkdirTemp(filepath.Dir(dir), pgtest.FolderPrefix); err == nil {
				server, err = start(dir)
			}
		}
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, server.Stop(context.Background()), os.RemoveAll(dir)) }()
		if err := os.Setenv(pgtest.ServerVariable, server.URL("postgres")); err != nil {
			return 1, err
		}
	}
	c := exec.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return max(exit.ExitCode(), 1), nil
		}
		return 1, err
	}
	return 0, nil
}

// folder is where the server of a checkout lives.
func folder() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(here))
	return filepath.Join(pgtest.Scratch(), fmt.Sprintf("%s%x", pgtest.FolderPrefix, sum[:6])), nil
}

// start starts a server for many test processes at once. What a run left that was killed is
// removed before.
func start(dir string) (*postgres.Server, error) {
	if err := postgres.Remove(context.Background(), dir); err != nil {
		return nil, err
	}
	return postgres.Start(context.Background(), postgres.Config{
		Dir: dir, Logger: slog.New(slog.DiscardHandler), Disposable: true, Settings: []string{"max_connections=500", "max_locks_per_transaction=256"},
	})
}
