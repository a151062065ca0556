package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/memlimit"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/spool"
	"github.com/writ-id/writ/impl/core/telemetry"
	"github.com/writ-id/writ/impl/core/throttle"
	"github.com/writ-id/writ/impl/server"
)

// now is the clock of the product: UTC, in the microseconds that PostgreSQL
// keeps, so that what is answered at once equals what is read later.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// newID returns a UUIDv7: time-ordered, so that indexes grow at their end.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// nodeFlags are the flags that `serve` and `dev` share.
type nodeFlags struct {
	addr, debugAddr     string
	metricsAddr         string
	telemetry           *telemetry.Telemetry // what listen made of it and of the environment
	seed                string
	logLevel, logFormat string
	sharedHTTP2         bool
	drainDelay          time.Duration
	clients             int
	proxies             []string
	proxyHeader         string
	proxyProtocol       bool
	logPersonalData     bool
	systemUsers         string
	addressTries        int
	hashCost            float64
	transferDir         string
	transferSpace       int64
	limits              policy.SearchLimits
	outgoingAllow       []string
	outgoingDNS         string
	tlsCert, tlsKey     string
	tokenAudience       bool
	deliveries          delivery.Limits
	reference           string
	readable            bool // whether people read the log, even where it is no terminal
}

func (f *nodeFlags) add(cmd *cobra.Command, addr string, drainDelay time.Duration, tokenAudience bool, tries int, reference string) {
	flags := cmd.Flags()
	flags.StringVar(&f.reference, "reference", reference, "who may read the API reference at /docs and /, /openapi.json and /proto: public, authenticated (with a token; browsers ask for a personal access token as password), or off")
	flags.StringVar(&f.addr, "addr", addr, "host:port to listen on; port 0 picks a free one")
	flags.StringVar(&f.debugAddr, "debug-addr", "", "host:port for pprof, best on loopback; none when empty")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "host:port for GET /metrics, for Prometheus, best on loopback or a private network; none when empty. OpenTelemetry is set by its own variables, OTEL_EXPORTER_OTLP_ENDPOINT for example")
	flags.StringVar(&f.seed, "seed", "", "seed file to apply at start (see: writ seed schema)")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error; requests are told of at info, in dev at debug")
	flags.StringVar(&f.logFormat, "log-format", "auto", "text, json, or auto: text on a terminal and in dev")
	flags.BoolVar(&f.sharedHTTP2, "shared-http2", false, "serve REST on HTTP/2 without TLS too, for proxies that speak h2c to backends")
	flags.IntVar(&f.addressTries, "address-tries", tries, "how many wrong passwords and codes, and requests for messages, one address (an IPv6 network) has on a node in ten minutes; 0: any number")
	flags.StringVar(&f.systemUsers, "system-users", "", "YAML file of the users of the installation, who sign their tokens themselves: for each name its roles and files with public keys")
	flags.BoolVar(&f.logPersonalData, "log-personal-data", false, "tell whole client addresses in the log, not only their networks")
	flags.StringSliceVar(&f.proxies, "trusted-proxies", nil, "addresses and networks (CIDR) of reverse proxies whose headers say where a request comes from and which host it is for")
	flags.StringVar(&f.proxyHeader, "proxy-header", "x-forwarded", "which headers they set: x-forwarded (X-Forwarded-For, X-Forwarded-Host) or forwarded (RFC 7239); the other is not read")
	flags.BoolVar(&f.proxyProtocol, "proxy-protocol", false, "read the PROXY protocol, version 1 or 2, where a trusted proxy begins its connections with it")
	flags.StringSliceVar(&f.outgoingAllow, "outgoing-allow", nil, "networks (CIDR) that calls to tenants' addresses may reach although they are not public")
	flags.StringVar(&f.outgoingDNS, "outgoing-dns", "", "host:port of the DNS server for those calls; the system's when empty")
	flags.StringVar(&f.tlsCert, "tls-cert-file", "", "certificate chain in PEM to serve TLS with; without it TLS ends at your proxy")
	flags.StringVar(&f.tlsKey, "tls-key-file", "", "its private key in PEM")
	flags.BoolVar(&f.tokenAudience, "accept-token-endpoint-audience", tokenAudience, "accept client assertions whose audience is the token endpoint, as older clients send them, beside the issuer")
	flags.Float64Var(&f.hashCost, "max-hash-cost", secret.DefaultMaxCost, "how much longer than one of ours a password hash of another system may take to verify; raise it to import costly ones")
	flags.StringVar(&f.transferDir, "transfer-dir", "", "the folder for what is exported and imported while it is on its way; empty: that for temporary files ($TMPDIR)")
	flags.Int64Var(&f.transferSpace, "transfer-space", 0, "how many bytes that may be together, of which one instance gets half; 0: half of what is free in the folder, 32 GiB at most")
	flags.Uint32Var(&f.limits.Default, "search-limit", 0, "how many matches a search returns when it does not say; 0: 100")
	flags.Uint32Var(&f.limits.Max, "max-search-limit", 0, "how many it returns at most; 0: 1000")
	flags.IntVar(&f.clients, "max-clients", 0, fmt.Sprintf("connections of clients; when there are more, those that were idle longest are closed; 0: %d, less where the system allows fewer open files", server.DefaultMaxClients))
	flags.IntVar(&f.deliveries.Attempts, "delivery-attempts", delivery.Defaults.Attempts, "how often an event is sent to a target before it is given up")
	flags.DurationVar(&f.deliveries.Age, "delivery-age", delivery.Defaults.Age, "how long it is tried at most")
	flags.DurationVar(&f.deliveries.Retention, "delivery-retention", delivery.Defaults.Retention, "how long deliveries are kept that are done or were given up")
	flags.DurationVar(&f.drainDelay, "drain-delay", drainDelay, "how long to serve on after readiness went false")
}

func (f *nodeFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level: %w", err)}
	}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case f.logFormat == "text", f.logFormat == "auto" && (f.readable || isTerminal(os.Stderr)):
		return slog.New(slog.NewTextHandler(os.Stderr, options)), nil
	case f.logFormat == "json", f.logFormat == "auto":
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), nil
	}
	return nil, usageError{fmt.Errorf("--log-format: %q is not text, json or auto", f.logFormat)}
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// listen opens the listeners before anything slow, so that a port in use is
// reported at once.
func (f *nodeFlags) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		return nil, fmt.Errorf("--addr: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	metrics := http.NewServeMux()
	if handler := f.telemetry.Handler(); handler != nil {
		metrics.Handle("GET /metrics", handler)
	}
	for _, beside := range []struct {
		flag, addr string
		handler    http.Handler
	}{{"--debug-addr", f.debugAddr, mux}, {"--metrics-addr", f.metricsAddr, metrics}} {
		if beside.addr == "" {
			continue
		}
		at, err := net.Listen("tcp", beside.addr)
		if err != nil {
			listener.Close()
			return nil, fmt.Errorf("%s: %w", beside.flag, err)
		}
		go func() {
			_ = (&http.Server{Handler: beside.handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}).Serve(at)
		}()
	}
	return listener, nil
}

// maxClients leaves a quarter of the files that may be open to the database and the
// rest.
func (f *nodeFlags) maxClients() int {
	most := cmp.Or(f.clients, server.DefaultMaxClients)
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		most = min(most, int(min(files.Cur, math.MaxInt32))/4*3)
	}
	return most
}

// configure returns c with what the flags say of it, or all that is wrong with them.
func (f *nodeFlags) configure(c server.Config) (server.Config, error) {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, usageError{fmt.Errorf(format, args...)}) }
	out := outgoing.Config{Resolver: f.outgoingDNS}
	for _, network := range f.outgoingAllow {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			refuse("--outgoing-allow: %w", err)
		}
		out.Allow = append(out.Allow, prefix)
	}
	if c.Dev != nil {
		out.Allow = append(out.Allow, outgoing.Loopback...) // receivers that are being written run here
	}
	if f.addressTries < 0 {
		refuse("--address-tries: a number from 0 up")
	}
	var known bool
	if c.Reference, known = server.References[f.reference]; !known {
		refuse("--reference: %q is not public, authenticated or off", f.reference)
	}
	c.Tries = throttle.Limit{Times: f.addressTries, Per: 10 * time.Minute}
	if err := f.readSystemUsers(&c); err != nil {
		refuse("--system-users: %w", err)
	}
	c.Telemetry = f.telemetry
	c.Outgoing, c.TokenEndpointAudience, c.LogPersonalData = out, f.tokenAudience, f.logPersonalData
	if err := f.trust(&c.Proxies); err != nil {
		refuse("%w", err)
	}
	if limits := f.limits.OrDefault(); limits.Default > limits.Max || limits.Max > 100_000 {
		refuse("--search-limit must be at most --max-search-limit, and that at most 100000")
	}
	c.SearchLimits = f.limits
	if f.deliveries.Attempts < 1 || f.deliveries.Age <= 0 || f.deliveries.Retention <= 0 {
		refuse("--delivery-attempts, --delivery-age and --delivery-retention must be above 0")
	}
	c.Deliveries = f.deliveries
	var err error
	if c.TLS, err = f.certificate(); err != nil {
		wrong = append(wrong, err)
	}
	if c.Space, err = spool.Open(f.transferDir, f.transferSpace); err != nil {
		refuse("--transfer-dir, --transfer-space: %w", err)
	}
	c.Now, c.NewID, c.SharedHTTP2, c.DrainDelay, c.MaxClients, c.MaxHashCost = now, newID, f.sharedHTTP2, f.drainDelay, f.maxClients(), f.hashCost
	if c.Dev != nil {
		c.Now = c.Dev.Clock.Now
	}
	return c, errors.Join(wrong...)
}

// serve runs a node until ctx ends: c with what the flags say of it.
func (f *nodeFlags) serve(ctx context.Context, c server.Config, listener net.Listener, ready func() error) error {
	c, err := f.configure(c)
	if err != nil {
		return err
	}
	return runNode(ctx, c, listener, ready)
}

// runNode runs a node until ctx ends; ready is called when it takes requests.
func runNode(ctx context.Context, c server.Config, listener net.Listener, ready func() error) error {
	memlimit.Bound()
	if err := server.ClaimMasterKey(ctx, c.DB, c.Sealer); err != nil {
		return err
	}
	node, err := server.New(c)
	if err != nil {
		return err
	}
	if err := ready(); err != nil { // the listener queues what arrives from here on
		return err
	}
	go memlimit.Rested() // starting left more garbage than running makes in a while
	return node.Serve(ctx, listener)
}
