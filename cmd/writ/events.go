package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/writ-id/writ/impl/client"
	"github.com/writ-id/writ/impl/core/event"
)

func newEvents() *cobra.Command {
	cmd := &cobra.Command{Use: "events", Short: "What happens in an instance: its audit trail"}
	cmd.AddCommand(newTail())
	return cmd
}

func newTail() *cobra.Command {
	var on serverFlags
	var which eventFlags
	var once bool
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the events of an instance as they happen, one JSON object a line",
		Long: `Prints the events of an instance in the order in which they were committed, one
JSON object a line, from now on or, with --since, from an event on. None is left
out and none comes twice, also when the server is away in between: the command
says so on standard error and goes on when it is there again.

To go on where another run ended, give the "sequence" of the last line it printed
to --since. --since 0 begins with the first event that there is; with --once the
command ends when it has printed what is there, so that

  writ events tail --since 0 --once > trail.jsonl

is the whole trail.

It calls POST /resources/v3alpha/events/_search and needs the permission
events.read: IAM_OWNER and IAM_OWNER_VIEWER see everything of their instance,
ORG_OWNER and ORG_OWNER_VIEWER what belongs to their organization.

Without --url the server is the ` + "`writ dev`" + ` that runs here, as its administrator.`,
		Example: `  writ events tail
  writ events tail --type 'user.*' --type org.added
  writ events tail --since 1042 | jq -r '[.creationDate, .type, .aggregateId] | @tsv'
  WRIT_TOKEN_FILE=token writ events tail --url https://id.example`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			follower, err := which.follower(cmd, &on)
			if err != nil {
				return err
			}
			follower.Once = once
			return ended(follower.Follow(cmd.Context(), func(_ context.Context, _ string, event json.RawMessage) error { return printLine(out, event) }, func(client.Position) error { return nil }))
		},
	}
	on.add(cmd.Flags())
	which.add(cmd.Flags(), "type")
	cmd.Flags().BoolVar(&once, "once", false, "end when everything that is there was printed")
	return cmd
}

// eventFlags say which events a command follows.
type eventFlags struct {
	types    []string
	since    string
	interval time.Duration
}

// add adds them; the types have a name of their own in each command.
func (f *eventFlags) add(flags *pflag.FlagSet, types string) {
	flags.StringSliceVar(&f.types, types, nil, "only events of this type or group, for example user.human.added or 'user.*'; may be repeated")
	flags.StringVar(&f.since, "since", "", "begin after the event of this sequence; 0: with the first one there is")
	flags.DurationVar(&f.interval, "interval", time.Second, "how long to wait before asking again when there is nothing new")
}

// follower returns what follows these events of a server.
func (f *eventFlags) follower(cmd *cobra.Command, on *serverFlags) (*client.Follower, error) {
	follower := &client.Follower{
		Find: on.find, Filters: client.OfTypes(f.types), Interval: max(f.interval, 10*time.Millisecond),
		Tell: func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), "writ: "+format+"\n", args...) },
	}
	for _, name := range f.types {
		if len(event.Known.Named(name)) == 0 {
			follower.Tell("no event that this version knows is called %s; /docs lists them", name)
		}
	}
	if f.since != "" {
		since, err := strconv.ParseUint(f.since, 10, 64)
		if err != nil {
			return nil, usageError{fmt.Errorf("--since: %q is not the sequence of an event", f.since)}
		}
		follower.From = &client.Position{Sequence: since}
	}
	return follower, nil
}

// printLine prints an event on a line of its own.
func printLine(out io.Writer, event json.RawMessage) error {
	var line bytes.Buffer
	if err := json.Compact(&line, event); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := out.Write(line.Bytes())
	return err
}

// ended returns nil when a person ended a command that goes on until then.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
