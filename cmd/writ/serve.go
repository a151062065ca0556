package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
)

func newServe() *cobra.Command {
	var flags nodeFlags
	var database databaseFlag
	var master masterKeyFlags
	var migrate bool
	var pooler string
	var connections int
	var external server.External
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node on the PostgreSQL you name",
		Long: `Runs one node. Nodes hold no state: start as many as you like on one database.

SIGTERM drains: readiness goes false, requests are served for --drain-delay,
running calls finish, then the process exits with 0. TLS ends at your proxy, or by
--tls-cert-file. All nodes need the same master key: it keeps signing keys and the
secrets of second factors unreadable in the database.`,
		Example: `  writ keys new-master master-key.json
  export WRIT_DATABASE_URL=postgres://writ@db/writ WRIT_MASTER_KEY_FILE=master-key.json
  writ serve --migrate --seed seed.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if external.Scheme != "http" && external.Scheme != "https" {
				return usageError{errors.New("--external-scheme has to be http or https")}
			}
			databaseURL, err := database.url()
			if err != nil {
				return err
			}
			logger, err := flags.logger()
			if err != nil {
				return err
			}
			sealer, err := master.sealer(true)
			if err != nil {
				return err
			}
			var file *seed.File
			if flags.seed != "" { // before anything is changed
				if file, err = seed.Read(flags.seed); err != nil {
					return err
				}
			}
			stop, err := flags.measure(ctx, logger)
			if err != nil {
				return err
			}
			defer stop()
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
			db, err := store.Open(ctx, store.Config{URL: databaseURL, Pooler: pooler, MaxConns: connections, Statements: flags.telemetry.Statements()})
			if err != nil {
				return err
			}
			defer db.Close()
			if file != nil {
				applied, err := server.ApplySeed(ctx, server.Config{DB: db, Now: now, NewID: newID, Sealer: sealer}, file, seed.Config{})
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
	database.add(cmd.Flags())
	cmd.Flags().StringVar(&pooler, "pooler-url", "", "the same database through a pooler in transaction mode (PgBouncer), for all but migrations and notifications, which stay on --database-url")
	master.add(cmd.Flags())
	cmd.Flags().StringVar(&external.Scheme, "external-scheme", "https", "http or https, as browsers and clients see it: a part of the issuer")
	cmd.Flags().StringVar(&external.Port, "external-port", "", "the port, if it is not that of the scheme")
	cmd.Flags().BoolVar(&migrate, "migrate", false, "bring the schema up to date first, like: writ migrate up")
	cmd.Flags().IntVar(&connections, "max-connections", 0, "database connections for calls, half as many more for searches; 0: 4 for each core, at least 16")
	return cmd
}
