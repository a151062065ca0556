package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/store"
)

func newClock() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show or move the clock of a running `writ dev`",
		Long: `Every expiry, window and schedule of the server reads one clock. In development
it can be moved, so that tests need not wait.`,
		Example: `  writ clock
  writ clock advance 1h
  writ clock advance -- -5m
  writ clock set 2030-01-31T12:00:00Z
  writ clock freeze`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return moveClock(cmd, addr, nil) },
	}
	cmd.PersistentFlags().StringVar(&addr, "addr", "127.0.0.1:8080", "host:port of the server")
	frozen, running := true, false
	sub := func(use, short string, args cobra.PositionalArgs, change func(args []string) (clock.Change, error)) {
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
			c, err := change(args)
			if err != nil {
				return usageError{err}
			}
			return moveClock(cmd, addr, &c)
		}})
	}
	sub("advance DURATION", "Move it, for example by 1h30m, or back: -- -5m", cobra.ExactArgs(1), func(args []string) (clock.Change, error) {
		if _, err := time.ParseDuration(args[0]); err != nil {
			return clock.Change{}, fmt.Errorf("%q is not a duration such as 90s or 1h30m, or back: -- -5m; a day is 24h", args[0])
		}
		return clock.Change{Advance: args[0]}, nil
	})
	sub("set TIME", "Make it a time (RFC 3339)", cobra.ExactArgs(1), func(args []string) (clock.Change, error) {
		at, err := time.Parse(time.RFC3339, args[0])
		if err != nil {
			err = fmt.Errorf("%q is not a time such as 2030-01-31T12:00:00Z", args[0])
		}
		return clock.Change{Set: &at}, err
	})
	sub("freeze", "Stop it", cobra.NoArgs, func([]string) (clock.Change, error) { return clock.Change{Frozen: &frozen}, nil })
	sub("run", "Let it run on from where it is", cobra.NoArgs, func([]string) (clock.Change, error) { return clock.Change{Frozen: &running}, nil })
	sub("reset", "Make it the time of the machine again", cobra.NoArgs, func([]string) (clock.Change, error) { return clock.Change{Reset: true}, nil })
	return cmd
}

// moveClock applies a change, if any, and prints what the clock shows.
func moveClock(cmd *cobra.Command, addr string, change *clock.Change) error {
	method, body := http.MethodGet, []byte(nil)
	if change != nil {
		method = http.MethodPost
		body, _ = json.Marshal(change) // of plain fields
	}
	res, _, err := callLocal(cmd.Context(), method, addr, "/_dev/clock", body)
	if err != nil {
		return fmt.Errorf("no writ dev answers at %s: %w", addr, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fmt.Errorf("the server at %s has no clock that can be moved: only `writ dev` has", addr)
	default:
		var refusal struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(answer, &refusal) == nil && refusal.Message != "" {
			return errors.New(refusal.Message)
		}
		return fmt.Errorf("the server answered %s", res.Status)
	}
	var state clock.State
	if err := json.Unmarshal(answer, &state); err != nil {
		return err
	}
	how := "running"
	if state.Frozen {
		how = "frozen"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s  %s, %s from the machine's\n", state.Now.Format(time.RFC3339), how, state.Offset)
	return nil
}

// installationClock is the clock of the installation that a database belongs to, not that of the
// machine a command runs on: what it writes has to be due when the nodes think so. It is that of
// the database, or of the `writ dev` at an address if it is that one's, which may have been moved.
func installationClock(ctx context.Context, database *store.DB, url, addr string) (func() time.Time, error) {
	var there time.Time
	if err := database.Pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		return nil, err
	}
	if told, _, err := askDev(ctx, addr, "/_dev/database"); err == nil && told == url {
		text, _, err := askDev(ctx, addr, "/_dev/clock")
		var state clock.State
		if err == nil {
			err = json.Unmarshal([]byte(text), &state)
		}
		if err != nil {
			return nil, fmt.Errorf("the clock of the writ dev at %s: %w", addr, err)
		}
		there = state.Now
	}
	ahead := time.Until(there)
	return func() time.Time { return time.Now().Add(ahead).UTC().Truncate(time.Microsecond) }, nil
}
