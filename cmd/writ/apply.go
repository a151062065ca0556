package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
)

func newApply() *cobra.Command {
	var a applying
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make exist what a seed file says",
		Long: `Applies a seed file to a database: what is missing is created, what differs is
changed, nothing is deleted. Applying it again changes nothing. All of it happens
or none.

Without --database-url the database is that of the ` + "`writ dev`" + ` that runs here.

Each line of the output is a change: the event, the object and what changed.
Secrets that the file leaves out are generated, and printed once or written to
--secrets-file.`,
		Example: `  writ seed print > seed.yaml
  writ apply -f seed.yaml --dry-run
  writ apply -f seed.yaml
  writ apply -f seed.yaml --database-url postgres://writ@db/writ`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd) },
	}
	a.add(cmd.Flags())
	return cmd
}

// applying is what the flags of apply say.
type applying struct {
	database databaseFlag
	path     string
	dryRun   bool
	addr     string
	secrets  secretsFlag
}

func (a *applying) add(flags *pflag.FlagSet) {
	flags.StringVarP(&a.path, "file", "f", "", "the seed file")
	a.database.add(flags)
	flags.StringVar(&a.addr, "addr", "127.0.0.1:8080", "host:port of the running writ dev, when no database is named")
	a.secrets.add(flags, "without it they are printed, once")
	flags.BoolVar(&a.dryRun, "dry-run", false, "show what would change and change nothing")
}

func (a *applying) run(cmd *cobra.Command) error {
	if a.path == "" {
		return usageError{errors.New("--file is required")}
	}
	url, err := a.database.urlOrDev(cmd.Context(), a.addr)
	if err != nil {
		return err
	}
	file, err := seed.Read(a.path)
	if err != nil {
		return err
	}
	if err := store.CheckSchema(cmd.Context(), url); err != nil {
		return err
	}
	db, err := store.Open(cmd.Context(), store.Config{URL: url, MaxConns: 4})
	if err != nil {
		return err
	}
	defer db.Close()
	how := seed.Config{DryRun: a.dryRun}
	if a.secrets.file != "" {
		how.Keep = a.secrets.keep
	}
	applied, err := server.ApplySeed(cmd.Context(), server.Config{DB: db, Now: now, NewID: newID, Local: a.database.given == ""}, file, how)
	if err != nil {
		return err
	}
	printApplied(cmd.OutOrStdout(), &a.secrets, applied, a.dryRun)
	return nil
}

// printApplied prints what a seed changed, or would.
func printApplied(out io.Writer, secrets *secretsFlag, applied *seed.Applied, dryRun bool) {
	for _, change := range applied.Changes {
		fmt.Fprintf(out, "%-36s %-36s %s\n", change.Event, change.ID, change.Payload)
	}
	switch {
	case len(applied.Changes) == 0:
		fmt.Fprintln(out, "nothing differs")
	case dryRun:
		fmt.Fprintf(out, "%d changes; nothing was changed (--dry-run)\n", len(applied.Changes))
	default:
		fmt.Fprintf(out, "%d changes\n", len(applied.Changes))
		secrets.printGenerated(out, applied)
	}
}
