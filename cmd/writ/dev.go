package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/postgres"
	"github.com/writ-id/writ/impl/dev/ready"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/dev/world"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/sql/migrations"
)

func newDev() *cobra.Command {
	var d dev
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start everything on this machine, without any configuration",
		Long: `Starts a node on a private PostgreSQL, with the seeded users and tokens, and
prints how to reach it. Nothing is left running when it ends.

With --data-dir what you make is kept, and so are the credentials (in
DIR/credentials.json); without it everything is removed at exit.`,
		Example: `  writ dev
  writ dev --addr 127.0.0.1:0 --data-dir ./data --ready-file ready.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	d.readable = true
	d.add(cmd, "127.0.0.1:8080", 0, true, 0, "public")
	cmd.Flags().BoolVar(&d.tls, "tls", false, "serve https, with a certificate of its own (DIR/tls.crt) unless one is named")
	cmd.Flags().StringVar(&d.dataDir, "data-dir", "", "where to keep the database; a temporary folder when empty")
	cmd.Flags().StringArrayVar(&d.settings, "postgres-setting", nil, "a setting of the private PostgreSQL for this run, name=value, such as shared_preload_libraries=pg_stat_statements; may be repeated")
	cmd.Flags().StringSliceVar(&d.hosts, "dev-host", nil, "further host names, such as that of a container, under which messages and clock are at /_dev; localhost and loopback addresses are")
	cmd.Flags().IntVar(&d.worlds, "worlds", 0, "how many worlds (POST /_dev/worlds) are ready from the start; without it some are from the first that is asked for")
	cmd.Flags().BoolVar(&d.reset, "reset", false, "begin anew: remove the database and the credentials that are in --data-dir")
	cmd.Flags().StringVar(&d.passwordCost, "password-cost", "", "minimal makes hashes that protect nobody, to measure what else a log-in costs")
	_ = cmd.Flags().MarkHidden("password-cost")
	cmd.Flags().StringVar(&d.readyFile, "ready-file", "", "file to write when the server answers: JSON with issuer, addr and credentials")
	return cmd
}

type dev struct {
	nodeFlags
	dataDir, readyFile string
	passwordCost       string
	hosts, settings    []string
	tls, reset         bool
	worlds             int

	announced func(info ready.Info, file, ca string) error // what to do instead of telling people
	kept      func() bool                                  // whether a temporary folder stays
	recorded  func(http.Handler) http.Handler              // what keeps requests and answers
}

func (d *dev) run(ctx context.Context, out io.Writer) (err error) {
	logger, err := d.logger()
	if err != nil {
		return err
	}
	file, err := d.seedFile()
	if err != nil {
		return err
	}
	switch d.passwordCost {
	case "":
	case "minimal":
		logger.Warn("password hashes protect nobody: --password-cost minimal is for measurements")
		secret.Cheap()
	default:
		return usageError{fmt.Errorf("--password-cost: %q is not minimal, the only one there is", d.passwordCost)}
	}
	go server.Prepare() // while PostgreSQL starts
	stop, err := d.measure(ctx, logger)
	if err != nil {
		return err
	}
	defer stop()
	listener, err := d.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	dir, remove, err := d.directory()
	if err != nil {
		return err
	}
	defer remove()
	if d.reset {
		if err := d.begin(ctx, dir); err != nil {
			return err
		}
	}
	if d.readyFile != "" { // one from an earlier run must not speak for this one
		if err := os.Remove(d.readyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	database, err := postgres.Start(ctx, postgres.Config{
		Dir: dir, Logger: logger, Settings: append([]string{"max_connections=300"}, d.settings...), Progress: func(step string) { fmt.Fprintln(os.Stderr, "writ:", step) },
		Template: template(), Disposable: d.dataDir == "",
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Stop(context.WithoutCancel(ctx))) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		<-database.Done()
		cancel(fmt.Errorf("the private PostgreSQL ended: %w", database.Err()))
	}()
	url := database.URL("postgres")
	if _, err := store.Migrate(ctx, url); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db, err := store.Open(ctx, store.Config{URL: url, Statements: d.telemetry.Statements(policy.StatementsOf)})
	if err != nil {
		return err
	}
	defer db.Close()
	defer stop() // while there is still something to read
	sealer, err := d.sealer(dir)
	if err != nil {
		return err
	}
	applied, err := d.applySeed(ctx, db, sealer, file, dir)
	if err != nil {
		return err
	}
	if d.tls && d.tlsCert == "" {
		if d.tlsCert, d.tlsKey, err = ownCertificate(dir); err != nil {
			return err
		}
	}
	info, err := ready.New(d.scheme()+"://"+listener.Addr().String(), listener.Addr(), applied, dir)
	if err != nil {
		return err
	}
	if d.tlsCert != "" {
		if info.CAFile, err = filepath.Abs(d.tlsCert); err != nil {
			return err
		}
	}
	c, err := d.configure(server.Config{
		DB: db, Logger: logger, AccessLevel: slog.LevelDebug, Sealer: sealer, External: server.External{Scheme: d.scheme(), Port: portOf(listener)},
		Dev: &server.Dev{Clock: clock.New(), Hosts: d.hosts, Database: url, Credentials: readyPath(dir), Clients: info.ClientIDs(), Recorded: d.recorded},
	})
	if err != nil {
		return err
	}
	base := c
	base.Telemetry = nil // what is measured is this node
	worlds := world.New(world.Config{
		Base: base, Database: database.URL, Seed: file, Dir: filepath.Join(dir, "worlds"), Ahead: d.worlds, Disposable: d.dataDir == "", CAFile: info.CAFile,
	})
	defer worlds.Close()
	context.AfterFunc(ctx, worlds.End) // nobody who holds one keeps the server from draining
	c.Dev.Worlds = worlds
	err = runNode(ctx, c, listener, func() error { return d.announce(out, info, dir, url) })
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// template is what new databases of a writ dev begin with: the schema. It is in template1
// too, of which worlds are made.
func template() *postgres.Template {
	sum := sha256.New()
	names, _ := fs.Glob(migrations.Files, "*.sql") // embedded
	for _, name := range names {
		text, _ := fs.ReadFile(migrations.Files, name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
	}
	return &postgres.Template{Key: fmt.Sprintf("%x", sum.Sum(nil)), Prepare: func(ctx context.Context, url func(string) string) error {
		if _, err := store.Migrate(ctx, url("template1")); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		conn, err := pgx.Connect(ctx, url("template1"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for _, statement := range []string{"DROP DATABASE postgres", "CREATE DATABASE postgres TEMPLATE template1"} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}}
}

// portOf returns the port of what listens, for addresses in messages.
func portOf(listener net.Listener) string {
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

func (d *dev) scheme() string {
	if d.tlsCert != "" {
		return "https"
	}
	return "http"
}

func (d *dev) seedFile() (*seed.File, error) {
	if d.seed != "" {
		return seed.Read(d.seed)
	}
	return seed.Default()
}

const (
	// temporaryPrefix begins the names of folders that go with their run.
	temporaryPrefix = "writ-dev-"
	// keptMark is in those that stay.
	keptMark = "kept"
)

// directory returns where the data is, and what to do with it at exit.
func (d *dev) directory() (dir string, remove func(), err error) {
	if d.dataDir != "" {
		dir, err := filepath.Abs(d.dataDir)
		if err != nil {
			return "", nil, err
		}
		return dir, func() {}, os.MkdirAll(dir, 0o700)
	}
	sweepTemporary()
	dir, err = os.MkdirTemp("", temporaryPrefix)
	return dir, func() {
		if d.kept != nil && d.kept() {
			_ = os.WriteFile(filepath.Join(dir, keptMark), nil, 0o600)
			fmt.Fprintf(os.Stderr, "writ: the database is kept: writ dev --data-dir %s\n", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}, err
}

// begin removes what earlier runs left in the data folder, and nothing else that is there.
func (d *dev) begin(ctx context.Context, dir string) error {
	if d.dataDir == "" {
		return usageError{errors.New("--reset needs --data-dir: without it every start begins anew")}
	}
	if err := postgres.Remove(ctx, dir); err != nil {
		return err
	}
	keys, _ := filepath.Glob(filepath.Join(dir, "key-*.json")) // fails only on a malformed pattern
	for _, path := range append(keys, filepath.Join(dir, "credentials.json"), filepath.Join(dir, "master-key.json"), readyPath(dir), filepath.Join(dir, "worlds")) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// applySeed applies the seed with the credentials of earlier runs, and keeps
// them. One that got lost is replaced, so that the ready file is always whole.
func (d *dev) applySeed(ctx context.Context, db *store.DB, sealer secret.Sealer, file *seed.File, dir string) (*seed.Applied, error) {
	path := filepath.Join(dir, "credentials.json")
	known := map[string]string{}
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &known); err != nil {
			slog.Warn("credentials.json is unreadable; new credentials are made", "err", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	applied, err := server.ApplySeed(ctx, server.Config{DB: db, Now: now, NewID: newID, Sealer: sealer, Local: true}, file, seed.Config{Known: known, Reissue: true})
	if err != nil || len(applied.Generated) == 0 {
		return applied, err
	}
	return applied, ready.WriteFile(path, applied.Secrets)
}

// sealer returns the master key of earlier runs, or a new one.
func (d *dev) sealer(dir string) (secret.Sealer, error) {
	path := filepath.Join(dir, "master-key.json")
	key, err := readMasterKey("", path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := newMasterKey(path); err != nil {
			return nil, err
		}
		key, err = readMasterKey("", path)
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// readyPath is where the commands of this machine find how to call a node in development.
func readyPath(dir string) string { return filepath.Join(dir, "ready.json") }

// announce tells that the server answers: to people in words, to scripts in the
// ready file and, when the log is JSON, as one line of it.
func (d *dev) announce(out io.Writer, info ready.Info, dir, database string) error {
	for _, path := range []string{readyPath(dir), d.readyFile} {
		if path == "" {
			continue
		}
		if err := ready.WriteFile(path, info); err != nil {
			return err
		}
	}
	if d.announced != nil {
		ca := ""
		if d.tls && filepath.Dir(d.tlsCert) == dir {
			ca = d.tlsCert
		}
		return d.announced(info, readyPath(dir), ca)
	}
	if d.logFormat == "json" {
		return json.NewEncoder(out).Encode(struct {
			Message string `json:"msg"`
			ready.Info
		}{"ready", info})
	}
	fmt.Fprintf(out, `
  Writ is ready.

  Issuer          %[1]s
  API reference   %[1]s/docs
  OpenAPI         %[1]s/openapi.json
  Messages        %[1]s/_dev/messages
  Database        %[2]s
`, info.Issuer, database)
	if info.CAFile != "" {
		fmt.Fprintf(out, "  Certificate     %s\n", info.CAFile)
	}
	if info.User != nil {
		fmt.Fprintf(out, "  Sign in at      %s/login\n  Sign in as      %s / %s\n", info.Issuer, info.User.LoginName, info.User.Password)
	}
	for _, token := range []struct{ name, value string }{
		{"Admin token", info.AdminToken}, {"Viewer token", info.ViewerToken}, {"Org owner token", info.OrgOwnerToken}, {"Nobody token", info.NobodyToken}, {"System token", info.SystemToken},
	} {
		if token.value != "" {
			fmt.Fprintf(out, "  %-15s %s\n", token.name, token.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(info.Clients)) {
		client := info.Clients[name]
		proof := cmp.Or(client.ClientSecret, client.KeyFile, "public")
		fmt.Fprintf(out, "  %-15s %s / %s\n", "Client "+name, client.ClientID, proof)
	}
	if user := info.ServiceUser; user != nil {
		fmt.Fprintf(out, "  %-15s %s / %s\n", "Service user", user.ClientID, user.ClientSecret)
	}
	trust := ""
	if info.CAFile != "" {
		trust = " --cacert " + info.CAFile
	}
	fmt.Fprintf(out, `
  Try it          curl%s -H "Authorization: Bearer %s" %s/resources/v3alpha/executions/methods
  Stop            Ctrl-C

`, trust, info.AdminToken, info.Issuer)
	return nil
}
