package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/relocate"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/server"
)

func newMoveInstance() *cobra.Command {
	var m moving
	cmd := &cobra.Command{
		Use:   "move-instance",
		Short: "Move an instance to another database, with sessions, keys and tokens",
		Long: `Copies all that an instance has from one database to another, whose nodes serve it
from then on: for installations that outgrow one database. Both have the same schema;
the proxy leads the hosts of the instance to the one or the other.

  --rehearse       copies and verifies, then takes it back: says how long it takes
  (neither)        freezes the instance at the source (what would write is answered 503
                   with Retry-After, what reads goes on), copies, verifies, and switches:
                   the source answers 503 to everything until the proxy leads elsewhere
  --delete-source  deletes what the source has of an instance that moved
  --call-off       serves it at the source again when a move broke off in the switch and
                   the target has not got it; to go on instead, move it again

An error before the switch leaves everything as it was. Both databases are named
directly, not through a pooler; the role of the source owns the tables.`,
		Example: `  writ move-instance --from postgres://writ@one/writ --to postgres://writ@two/writ \
    --instance 0198… --master-key-file one.json --to-master-key-file two.json --rehearse`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	m.add(cmd.Flags())
	return cmd
}

// moving is what the flags of a move say.
type moving struct {
	c               relocate.Config
	master          masterKeyFlags
	toKey           string
	forget, callOff bool
}

func (m *moving) add(flags *pflag.FlagSet) {
	flags.StringVar(&m.c.From, "from", "", "the database that has the instance")
	flags.StringVar(&m.c.To, "to", "", "the database that gets it, with the same schema")
	flags.StringVar(&m.c.Instance, "instance", "", "the ID of the instance")
	flags.BoolVar(&m.c.Rehearse, "rehearse", false, "copy and verify, and take it back")
	flags.BoolVar(&m.forget, "delete-source", false, "delete what the source has of an instance that moved")
	flags.BoolVar(&m.callOff, "call-off", false, "serve an instance again whose move broke off in the switch")
	flags.StringVar(&m.toKey, "to-master-key-file", "", "the file with the master key of the target, if it is another one")
	flags.DurationVar(&m.c.Patience, "patience", 30*time.Second, "how long to wait for transactions and deliveries that are under way")
	m.master.add(flags)
}

func (m *moving) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	switch {
	case m.c.From == "" || m.c.Instance == "" || m.c.To == "" && !m.forget:
		return usageError{errors.New("--from, --to and --instance are required")}
	case m.forget && m.callOff || (m.forget || m.callOff) && m.c.Rehearse:
		return usageError{errors.New("only one of --rehearse, --delete-source and --call-off")}
	case m.forget:
		return relocate.Forget(ctx, m.c.From, m.c.Instance, m.c.Patience)
	case m.callOff:
		return relocate.CallOff(ctx, m.c.From, m.c.To, m.c.Instance, m.c.Patience)
	}
	opener, err := m.master.sealer(true)
	if err != nil {
		return err
	}
	m.c.Opener, m.c.Sealer = opener, opener
	if m.toKey != "" {
		key, err := readMasterKey("", m.toKey)
		if err != nil {
			return usageError{err}
		}
		m.c.Sealer = secret.Sealer(key)
	}
	if err := checkKeys(ctx, m.c); err != nil {
		return err
	}
	for _, s := range storage.Sealed {
		m.c.Sealed = append(m.c.Sealed, relocate.Sealed{Table: s.Table, Key: s.Key, Bound: s.Bound, Columns: s.Columns})
	}
	m.c.Progress = func(step string) { fmt.Fprintln(os.Stderr, "writ:", step) }
	report, err := relocate.Move(ctx, m.c)
	if err != nil {
		return err
	}
	return printMove(cmd.OutOrStdout(), report, m.c.Rehearse)
}

// checkKeys says whether the master keys are those of the databases, before anything is sealed
// by them. A target that nothing sealed anything in yet is claimed by the move.
func checkKeys(ctx context.Context, c relocate.Config) error {
	ofTarget := server.ClaimMasterKey
	if c.Rehearse {
		ofTarget = server.CheckMasterKey
	}
	for _, side := range []struct {
		name, url string
		sealer    secret.Sealer
		check     func(context.Context, *store.DB, secret.Sealer) error
	}{{"--from", c.From, c.Opener, server.CheckMasterKey}, {"--to", c.To, c.Sealer, ofTarget}} {
		at, err := store.Open(ctx, store.Config{URL: side.url, MaxConns: 1})
		if err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
		err = side.check(ctx, at, side.sealer)
		at.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
	}
	return nil
}

func printMove(out io.Writer, report *relocate.Report, rehearsed bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "table\trows\tbytes\ttook\t")
	var rows, bytes int64
	for _, t := range report.Tables {
		if t.Rows > 0 {
			fmt.Fprintf(table, "%s\t%d\t%d\t%s\t\n", t.Name, t.Rows, t.Bytes, t.Took.Round(time.Millisecond))
		}
		rows, bytes = rows+t.Rows, bytes+t.Bytes
	}
	fmt.Fprintf(table, "all\t%d\t%d\t%s\t\n", rows, bytes, report.Took.Round(time.Millisecond))
	if err := table.Flush(); err != nil {
		return err
	}
	if len(report.Differs) > 0 {
		fmt.Fprintf(out, "the systems differ in %s: what the instance does not say itself it inherits from that of the target\n", strings.Join(report.Differs, ", "))
	}
	what := fmt.Sprintf("moved; nothing could be written for %s", report.Frozen.Round(time.Millisecond))
	if rehearsed {
		what = "rehearsed: nothing was changed"
	}
	_, err := fmt.Fprintln(out, what)
	return err
}
