package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/secret"
	"github.com/writ-id/writ/impl/seed"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/store"
)

func newServe() *cobra.Command {
	var flags nodeFlags
	var databaseURL, masterKey, masterKeyFile string
	var migrate bool
	var connections int
	var external server.External
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node on the PostgreSQL you name",
		Long: `Runs one node. Nodes hold no state: start as many as you like on one database.

SIGTERM drains: readiness goes false, requests are served for --drain-delay,
running calls finish, then the process exits with 0. TLS ends at your proxy.`,
		Example: `  WRIT_DATABASE_URL=postgres://writ@db/writ writ serve --migrate --seed seed.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if external.Scheme != "http" && external.Scheme != "https" {
				return usageError{errors.New("--external-scheme has to be http or https")}
			}
			if databaseURL == "" {
				return usageError{errors.New("--database-url (WRIT_DATABASE_URL) is required")}
			}
			logger, err := flags.logger()
			if err != nil {
				return err
			}
			sealer, err := readSealer(masterKey, masterKeyFile)
			if err != nil {
				return usageError{err}
			}
			var file *seed.File
			if flags.seed != "" { // before anything is changed
				if file, err = seed.Read(flags.seed); err != nil {
					return err
				}
			}
			listener, err := flags.listen()
			if err != nil {
				return err
			}
			defer listener.Close()
			if migrate {
				if _, err := store.Migrate(ctx, databaseURL); err != nil {
					return fmt.Errorf("migrate: %w", err)
				}
			} else if err := store.CheckSchema(ctx, databaseURL); err != nil {
				return err
			}
			db, err := store.Open(ctx, store.Config{URL: databaseURL, MaxConns: connections})
			if err != nil {
				return err
			}
			defer db.Close()
			if file != nil {
				applied, err := server.ApplySeed(ctx, server.Config{DB: db, Now: now, NewID: newID}, file, seed.Config{})
				if err != nil {
					return err
				}
				printGenerated(cmd.OutOrStdout(), applied)
			}
			return flags.serve(ctx, server.Config{DB: db, Logger: logger, Sealer: sealer, External: external}, listener, func() error {
				logger.Info("ready", "addr", listener.Addr().String())
				return nil
			})
		},
	}
	flags.add(cmd, ":8080", 5*time.Second, false)
	cmd.Flags().StringVar(&databaseURL, "database-url", "", "PostgreSQL to use, for example postgres://user:password@host/database")
	cmd.Flags().StringVar(&masterKeyFile, "master-key-file", "", "file with the master key that keeps secrets unreadable in the database; made by: writ keys new-master")
	cmd.Flags().StringVar(&masterKey, "master-key", "", "the master key itself; give it as WRIT_MASTER_KEY, a command line can be read by others")
	cmd.Flags().StringVar(&external.Scheme, "external-scheme", "https", "http or https, as browsers and clients see it: a part of the issuer")
	cmd.Flags().StringVar(&external.Port, "external-port", "", "the port, if it is not that of the scheme")
	cmd.Flags().BoolVar(&migrate, "migrate", false, "bring the schema up to date first, like: writ migrate up")
	cmd.Flags().IntVar(&connections, "max-connections", 0, "database connections for calls, half as many more for searches; 0: 4 for each core, at least 16")
	return cmd
}

// readSealer returns a Sealer by the master key, if there is one: what needs it is
// refused without.
func readSealer(text, file string) (secret.Sealer, error) {
	key, err := readMasterKey(text, file)
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return secret.NoKey{}, nil
	}
	return key, nil
}
