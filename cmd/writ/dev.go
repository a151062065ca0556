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
	s := start{dev: d, out: out}
	if err := s.read(); err != nil {
		return err
	}
	go server.Prepare() // while PostgreSQL starts
	stop, err := d.measure(ctx, s.logger)
	if err != nil {
		return err
	}
	defer stop()
	if s.listener, err = d.listen(); err != nil {
		return err
	}
	defer s.listener.Close()
	var remove func()
	if s.dir, remove, err = d.directory(); err != nil {
		return err
	}
	defer remove()
	if err := d.clear(ctx, s.dir); err != nil {
		return err
	}
	if s.database, err = s.postgres(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.database.Stop(context.WithoutCancel(ctx))) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		<-s.database.Done()
		cancel(fmt.Errorf("the private PostgreSQL ended: %w", s.database.Err()))
	}()
	if s.db, err = s.open(ctx); err != nil {
		return err
	}
	defer s.db.Close()
	defer stop() // while there is still something to read
	err = s.serve(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// start is a start of development, with what it has made so far.
type start struct {
	*dev
	out      io.Writer
	logger   *slog.Logger
	file     *seed.File
	hashes   secret.Hasher
	listener net.Listener
	dir      string
	database *postgres.Server
	db       *store.DB
}

// read reads what the flags name.
func (s *start) read() (err error) {
	if s.logger, err = s.dev.logger(); err != nil {
		return err
	}
	if s.file, err = s.seedFile(); err != nil {
		return err
	}
	switch s.passwordCost {
	case "":
	case "minimal":
		s.logger.Warn("password hashes protect nobody: --password-cost minimal is for measurements")
		s.hashes = secret.Cheap
	default:
		return usageError{fmt.Errorf("--password-cost: %q is not minimal, the only one there is", s.passwordCost)}
	}
	return nil
}

// clear removes what of earlier runs must not stay.
func (d *dev) clear(ctx context.Context, dir string) error {
	if d.reset {
		if err := d.begin(ctx, dir); err != nil {
			return err
		}
	}
	if d.readyFile == "" {
		return nil
	}
	// One from an earlier run must not speak for this one.
	if err := os.Remove(d.readyFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// postgres starts the private PostgreSQL.
func (s *start) postgres(ctx context.Context) (*postgres.Server, error) {
	return postgres.Start(ctx, postgres.Config{
		Dir: s.dir, Logger: s.logger, Settings: append([]string{"max_connections=300"}, s.settings...), Progress: func(step string) { fmt.Fprintln(os.Stderr, "writ:", step) },
		Template: template(), Disposable: s.dataDir == "",
	})
}

// open opens its database, with the schema.
func (s *start) open(ctx context.Context) (*store.DB, error) {
	url := s.database.URL("postgres")
	if _, err := store.Migrate(ctx, url); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return store.Open(ctx, store.Config{URL: url, Statements: s.telemetry.Statements(policy.StatementsOf)})
}

// serve seeds the database and serves it, and worlds beside it.
func (s *start) serve(ctx context.Context) error {
	sealer, err := s.sealer(s.dir)
	if err != nil {
		return err
	}
	info, err := s.seeded(ctx, sealer)
	if err != nil {
		return err
	}
	at := clock.New()
	development := func(worlds server.Worlds) *server.Dev {
		return &server.Dev{
			Clock: at, Hosts: s.hosts, Database: s.database.URL("postgres"), Credentials: readyPath(s.dir), Clients: info.ClientIDs(), Recorded: s.recorded, Worlds: worlds,
		}
	}
	c, err := s.configure(server.Config{
		DB: s.db, Logger: s.logger, AccessLevel: slog.LevelDebug, Sealer: sealer, Hashes: s.hashes,
		External: server.External{Scheme: s.scheme(), Port: portOf(s.listener)}, Dev: development(nil),
	})
	if err != nil {
		return err
	}
	base := c
	base.Telemetry = nil // what is measured is this node
	worlds := world.New(world.Config{
		Base: base, Database: s.database.URL, Seed: s.file, Dir: filepath.Join(s.dir, "worlds"), Ahead: s.worlds, Disposable: s.dataDir == "", CAFile: info.CAFile,
	})
	defer worlds.Close()
	context.AfterFunc(ctx, worlds.End) // nobody who holds one keeps the server from draining
	c.Dev = development(worlds)
	return runNode(ctx, c, s.listener, func() error { return s.announce(info, s.database.URL("postgres")) })
}

// seeded applies the seed, makes a certificate if one is wanted, and returns how the node is
// reached.
func (s *start) seeded(ctx context.Context, sealer secret.Sealer) (info ready.Info, err error) {
	applied, err := s.applySeed(ctx, sealer)
	if err != nil {
		return info, err
	}
	if s.tls && s.tlsCert == "" {
		if s.tlsCert, s.tlsKey, err = ownCertificate(s.dir); err != nil {
			return info, err
		}
	}
	if info, err = ready.New(s.scheme()+"://"+s.listener.Addr().String(), s.listener.Addr(), applied, s.dir); err != nil || s.tlsCert == "" {
		return info, err
	}
	info.CAFile, err = filepath.Abs(s.tlsCert)
	return info, err
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
func (s *start) applySeed(ctx context.Context, sealer secret.Sealer) (*seed.Applied, error) {
	path := filepath.Join(s.dir, "credentials.json")
	known := map[string]string{}
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &known); err != nil {
			slog.Warn("credentials.json is unreadable; new credentials are made", "err", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	applied, err := server.ApplySeed(ctx, server.Config{DB: s.db, Now: now, NewID: newID, Sealer: sealer, Hashes: s.hashes, Local: true}, s.file, seed.Config{Known: known, Reissue: true})
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
func (s *start) announce(info ready.Info, database string) error {
	for _, path := range []string{readyPath(s.dir), s.readyFile} {
		if path == "" {
			continue
		}
		if err := ready.WriteFile(path, info); err != nil {
			return err
		}
	}
	if s.announced != nil {
		ca := ""
		if s.tls && filepath.Dir(s.tlsCert) == s.dir {
			ca = s.tlsCert
		}
		return s.announced(info, readyPath(s.dir), ca)
	}
	if s.logFormat == "json" {
		return json.NewEncoder(s.out).Encode(struct {
			Message string `json:"msg"`
			ready.Info
		}{"ready", info})
	}
	tell(s.out, info, database)
	return nil
}

// tell tells people how a node is reached.
func tell(out io.Writer, info ready.Info, database string) {
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
}
