// Command writ is the identity platform in one binary: the server, its
// development mode and its tools. The commands only wire packages of impl
// together.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/core/rs256"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		if code, ended := errors.AsType[exitError](err); ended {
			os.Exit(int(code))
		}
		fmt.Fprintln(os.Stderr, "writ:", err)
		if _, usage := errors.AsType[usageError](err); usage {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// usageError is a wrong flag, argument or environment variable.
type usageError struct{ error }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "writ",
		Short: "An identity platform whose contracts are the product",
		Long: `Writ is an OpenID Connect provider and a multi-tenant resource API in one
binary on PostgreSQL.

  writ dev      starts everything on this machine, without any configuration
  writ exec     runs a command, such as a test suite, beside a server of its own
  writ serve    runs a node in production, on the PostgreSQL you name
  writ events   shows what happens in it
  writ listen   sends that to the webhook you are writing
  writ export   writes organizations to a file, which writ import brings elsewhere

Every flag can be given as an environment variable, WRIT_ and the flag's name in
upper case (--database-url: WRIT_DATABASE_URL), as a file that holds the value
(WRIT_DATABASE_URL_FILE), or in a configuration file (--config). A flag wins over
the environment, that over the file: writ config print shows what comes of it.`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newDev(), newExec(), newServe(), newMigrate(), newReady(), newSeed(), newApply(), newEvents(), newListen(), newExport(), newImport(), newKeys(), newMoveInstance(), newClock(), newConfig(), newDoctor(), newVersion())
	root.PersistentFlags().StringSlice(configFlag, nil, "YAML file with settings, named as the flags are; of several, each wins over the ones before it (see: writ config --help)")
	for _, cmd := range allCommands(root) {
		refuseUnknown(cmd)
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := bind(root, cmd, os.Environ()); err != nil {
			return usageError{err}
		}
		return nil
	}
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, and what makes RS256 signatures", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "%s\nRS256 signatures by %s\n", version(), rs256.Library())
		},
	}
}

// release is the version of the code here; a build of a tagged commit says its own.
const release = "v0.1.0-dev"

// released is what the linker is told of a release that is built (-X main.released=…).
var released string

// version returns the version with, where the build knows it, the commit.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	if v := info.Main.Version; v != "" && v != "(devel)" { // holds the commit, and whether more was changed
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return release + "+" + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return release
}
