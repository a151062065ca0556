package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/writ-id/writ/impl/core/secret"
)

// databaseFlag says which PostgreSQL a command is about.
type databaseFlag struct{ given string }

func (f *databaseFlag) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.given, "database-url", "", "PostgreSQL to use, for example postgres://user:password@host/database")
}

func (f *databaseFlag) url() (string, error) {
	if f.given == "" {
		return "", usageError{errors.New("--database-url (WRIT_DATABASE_URL) is required")}
	}
	return f.given, nil
}

// urlOrDev returns the database that is named, else that of the `writ dev` at addr.
func (f *databaseFlag) urlOrDev(ctx context.Context, addr string) (string, error) {
	if f.given != "" {
		return f.given, nil
	}
	told, _, err := askDev(ctx, addr, "/_dev/database")
	config, parseErr := pgconn.ParseConfig(told)
	if err != nil || parseErr != nil || !filepath.IsAbs(config.Host) { // whoever answers there may name a socket, no host of its own
		return "", usageError{fmt.Errorf("no database is named, and no writ dev answers at %s: give --database-url (WRIT_DATABASE_URL), or --addr", addr)}
	}
	return told, nil
}

// masterKeyFlags say what secrets are sealed with.
type masterKeyFlags struct{ text, file string }

func (f *masterKeyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "master-key-file", "", "file with the master key that keeps secrets unreadable in the database; made by: writ keys new-master")
	flags.StringVar(&f.text, "master-key", "", "the master key itself; give it as WRIT_MASTER_KEY, a command line can be read by others")
}

// sealer returns the master key; NoKey when there is none, unless one is required.
func (f *masterKeyFlags) sealer(required bool) (secret.Sealer, error) {
	key, err := readMasterKey(f.text, f.file)
	switch {
	case err != nil:
		return nil, usageError{err}
	case key != nil:
		return key, nil
	case required:
		return nil, usageError{errors.New("there is no master key: give --master-key-file (WRIT_MASTER_KEY_FILE), or WRIT_MASTER_KEY; to make one: writ keys new-master FILE")}
	}
	return secret.NoKey{}, nil
}

// refuseUnknown makes a command that only holds others refuse names that are none of
// them, which cobra answers with its help and success.
func refuseUnknown(cmd *cobra.Command) {
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := fmt.Sprintf("see %s --help", cmd.CommandPath())
		cmd.SuggestionsMinimumDistance = 2
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			hint = "did you mean " + strings.Join(similar, " or ") + "?"
		}
		return usageError{fmt.Errorf("there is no command %q; %s", cmd.CommandPath()+" "+args[0], hint)}
	}
}
