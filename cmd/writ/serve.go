package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/rs256"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
)

func newServe() *cobra.Command {
	var s serve
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node on the PostgreSQL you name",
		Long: `Runs one node. Nodes hold no state: start as many as you like on one database.

SIGTERM drains: readiness goes false, requests are served for --drain-delay,
running calls finish, then the process exits with 0. TLS ends at your proxy, or by
--tls-cert-file. All nodes need the same master key: it keeps signing keys and the
secrets of second factors unreadable in the database.

writ config validate says whether the settings are valid before anything starts,
writ doctor whether what they name is.`,
		Example: `  writ keys new-master master-key.json
  export WRIT_DATABASE_URL=postgres://writ@db/writ WRIT_MASTER_KEY_FILE=master-key.json
  writ serve --migrate --seed seed.yaml
  writ serve --config /etc/writ/writ.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	s.add(cmd)
	return cmd
}

// serve is a node in production.
type serve struct {
	nodeFlags
	database    databaseFlag
	master      masterKeyFlags
	secrets     secretsFlag
	migrate     bool
	pooler      string
	connections int
	external    server.External
}

func (s *serve) add(cmd *cobra.Command) {
	s.nodeFlags.add(cmd, ":8080", 5*time.Second, false, 100, "off")
	s.database.add(cmd.Flags())
	cmd.Flags().StringVar(&s.pooler, "pooler-url", "", "the same database through a pooler in transaction mode (PgBouncer), for all but migrations and notifications, which stay on --database-url")
	s.master.add(cmd.Flags())
	s.secrets.add(cmd.Flags(), "without it such a seed is refused, for what serve prints ends in logs")
	cmd.Flags().StringVar(&s.external.Scheme, "external-scheme", "https", "http or https, as browsers and clients see it: a part of the issuer")
	cmd.Flags().StringVar(&s.external.Port, "external-port", "", "the port, if it is not that of the scheme")
	cmd.Flags().BoolVar(&s.migrate, "migrate", false, "bring the schema up to date first, like: writ migrate up")
	cmd.Flags().IntVar(&s.connections, "max-connections", 0, "database connections for calls, half as many more for searches; 0: 4 for each core, at least 16")
}

// prepared is what the settings come to before anything is opened.
type prepared struct {
	database string
	logger   *slog.Logger
	sealer   secret.Sealer
	seed     *seed.File // nil: none
}

// prepare reads what the settings name, and opens and changes nothing. It returns all that is
// wrong with them.
func (s *serve) prepare() (p prepared, err error) {
	var wrong []error
	if s.external.Scheme != "http" && s.external.Scheme != "https" {
		wrong = append(wrong, usageError{errors.New("--external-scheme has to be http or https")})
	}
	if p.database, err = s.database.url(); err != nil {
		wrong = append(wrong, err)
	}
	if p.logger, err = s.logger(); err != nil {
		wrong = append(wrong, err)
	}
	if p.sealer, err = s.master.sealer(true); err != nil {
		wrong = append(wrong, err)
	}
	if s.seed != "" {
		if p.seed, err = seed.Read(s.seed); err != nil {
			wrong = append(wrong, err)
		}
	}
	return p, errors.Join(wrong...)
}

func (s *serve) run(ctx context.Context, out io.Writer) error {
	p, err := s.prepare()
	if err != nil {
		return err
	}
	limitMemory(p.logger)
	stop, err := s.measure(ctx, p.logger)
	if err != nil {
		return err
	}
	defer stop()
	listener, err := s.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	if s.migrate {
		if _, err := store.Migrate(ctx, p.database); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	} else if err := store.CheckSchema(ctx, p.database); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{URL: p.database, Pooler: s.pooler, MaxConns: s.connections, Statements: s.telemetry.Statements(policy.StatementsOf)})
	if err != nil {
		return err
	}
	defer db.Close()
	defer stop() // while there is still something to read
	if p.seed != nil {
		applied, err := server.ApplySeed(ctx, server.Config{DB: db, Now: now, NewID: newID, Sealer: p.sealer}, p.seed, seed.Config{Keep: s.secrets.orRefuse})
		if err != nil {
			return err
		}
		s.secrets.printGenerated(out, applied)
	}
	return s.serve(ctx, server.Config{DB: db, Logger: p.logger, Sealer: p.sealer, External: s.external}, listener, func() error {
		p.logger.Info("ready", "addr", listener.Addr().String(), "rs256", rs256.Library())
		return nil
	})
}
