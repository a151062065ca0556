package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/conformance/interop/npm"
)

// oauthBench is everything that runs while the OAuth endpoints are measured.
type oauthBench struct {
	t          *testing.T
	length     time.Duration
	repeats    int
	floor      processes
	floorAddr  string
	sides      []*provider
	statements *statements
	longest    strings.Builder // the statements of each scenario
	failed     []string
}

// TestOAuth measures the OAuth and OpenID Connect endpoints beside their floor and
// beside oidc-provider. Variables:
//
//	WRIT_TEST_BENCH_SECONDS    how long one measurement takes; 5 is enough
//	WRIT_TEST_BENCH_REPEATS    how often all sides take turns, 3 by default
//	WRIT_TEST_BENCH_SCENARIOS  a regular expression of those to measure
//	WRIT_TEST_BENCH_SIDES      "peer" measures the peer alone, "writ" ours alone
func TestOAuth(t *testing.T) {
	if os.Getenv("WRIT_TEST_BENCH_SECONDS") == "" || os.Getenv("WRIT_TEST_BENCH_GROWTH") != "" {
		t.Skip("WRIT_TEST_BENCH_SECONDS is not a number of seconds")
	}
	b := newOAuthBench(t)
	only, err := regexp.Compile(os.Getenv("WRIT_TEST_BENCH_SCENARIOS"))
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	var chosen []scenario
	for _, s := range scenarios() {
		if only.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	t.Log(b.conditions())
	t.Logf("### What the floors are made of\n%s", b.primitives())
	t.Logf("### OAuth and OpenID Connect\n%s", b.measureAll(chosen))
	t.Logf("### The floor of each scenario\n%s", explain(chosen))
	if b.longest.Len() > 0 {
		t.Logf("### Statements of Writ\n| scenario | for each call | µs each | |\n|---|---|---|---|\n%s", b.longest.String())
	}
	for _, failure := range b.failed {
		t.Error(failure)
	}
}

// newOAuthBench returns one that measures for as long and as often as the variables say.
func newOAuthBench(t *testing.T) *oauthBench {
	seconds, err := strconv.ParseFloat(os.Getenv("WRIT_TEST_BENCH_SECONDS"), 64)
	if err != nil {
		t.Fatalf("WRIT_TEST_BENCH_SECONDS: %v", err)
	}
	b := &oauthBench{t: t, length: time.Duration(seconds * float64(time.Second)), repeats: 3}
	if text := os.Getenv("WRIT_TEST_BENCH_REPEATS"); text != "" {
		if b.repeats, err = strconv.Atoi(text); err != nil || b.repeats < 1 {
			t.Fatalf("WRIT_TEST_BENCH_REPEATS: %q is not a number of repetitions", text)
		}
	}
	return b
}

// start starts everything and makes the clients.
func (b *oauthBench) start() {
	t, ctx, sides := b.t, b.t.Context(), os.Getenv("WRIT_TEST_BENCH_SIDES")
	pid, readyFile, data, debug := startWrit(t, func(data string) {
		database, _ := databaseOf(t, data)
		if err := preloadStatements(ctx, database); err != nil {
			t.Logf("statements are not counted: %v", err)
		}
	}, "--password-cost", "minimal")
	database, postgres := databaseOf(t, data)
	seeded, err := readReady(readyFile)
	if err != nil {
		t.Fatal(err)
	}
	if b.statements, err = newStatements(ctx, database); err != nil {
		t.Logf("statements are not counted: %v", err)
	}
	b.startFloor(database, postgres, seeded)
	if sides != "peer" {
		writ, err := newProvider("Writ", processes{pid, postgres}, readyFile)
		if err != nil {
			t.Fatalf("learn about Writ: %v", err)
		}
		if err := writ.setUpWrit(ctx); err != nil {
			t.Fatalf("make the clients: %v", err)
		}
		writ.settle = analyze(t, database)
		writ.use = rotation(writ, data)
		writ.debug = "http://" + debug
		b.sides = append(b.sides, writ)
	}
	if sides != "writ" {
		b.startPeer()
	}
}

// analyze returns what gives PostgreSQL its statistics. Autovacuum does it within
// a minute or so, which is longer than a table here is new.
func analyze(t *testing.T, database string) func(context.Context) error {
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "ANALYZE")
		return err
	}
}

func (b *oauthBench) startFloor(database string, postgres int, seeded ready) {
	t := b.t
	binary := filepath.Join(t.TempDir(), "floor")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./floor").CombinedOutput(); err != nil {
		t.Fatalf("build the floor: %v\n%s", err, out)
	}
	b.floorAddr = freeAddr(t)
	server := spawn(t, binary, b.floorAddr, database, seeded.InstanceID, seeded.OrgID, strings.Replace(database, "dbname=postgres", "dbname="+ownDatabase, 1))
	wait(t, func() bool {
		return do(t.Context(), http.MethodGet, "http://"+b.floorAddr+"/work/select/10", "", "", http.StatusOK) == nil
	})
	b.floor = processes{server.Process.Pid, postgres}
}

func (b *oauthBench) startPeer() {
	t := b.t
	dir, err := npm.Install("peer", "load-peer")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(freeAddr(t), ":")
	readyFile := filepath.Join(t.TempDir(), "peer.json")
	if err := os.Setenv("NODE_ENV", "production"); err != nil {
		t.Fatal(err)
	}
	server := spawn(t, "node", filepath.Join(dir, "server.js"), port, readyFile)
	wait(t, func() bool { _, err := os.Stat(readyFile); return err == nil })
	peer, err := newProvider("oidc-provider", processes{server: server.Process.Pid}, readyFile)
	if err != nil {
		t.Fatalf("learn about the peer: %v", err)
	}
	peer.setUpPeer()
	b.sides = append(b.sides, peer)
}

// rotation returns what makes an instance sign with an algorithm: a rotation by
// the operator's command and, as a key is published for ten minutes before it
// signs, a clock that is moved.
func rotation(p *provider, data string) func(context.Context, string) error {
	return func(ctx context.Context, algorithm string) error {
		if algorithm == "" {
			return nil
		}
		if now, err := p.signsWith(algorithm); err != nil || now == algorithm {
			return err
		}
		socket, err := filepath.EvalSymlinks(filepath.Join(data, "sock"))
		if err != nil {
			return err
		}
		database := url.URL{Scheme: "postgres", User: url.User("writ"), Path: "/postgres", RawQuery: url.Values{"host": {socket}}.Encode()}
		rotate := exec.CommandContext(ctx, os.Getenv("WRIT_TEST_BINARY"), "keys", "rotate", "--algorithm", algorithm,
			"--database-url", database.String(), "--master-key-file", filepath.Join(data, "master-key.json"))
		if output, err := rotate.CombinedOutput(); err != nil {
			return fmt.Errorf("rotate: %w\n%s", err, output)
		}
		if err := do(ctx, http.MethodPost, p.ready.Issuer+"/_dev/clock", "", `{"advance":"11m"}`, http.StatusOK); err != nil {
			return err
		}
		var signed string
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			if signed, err = p.signsWith(algorithm); err != nil || signed == algorithm {
				return err
			}
		}
		return fmt.Errorf("tokens are signed with %s ten seconds after %s was to be used", signed, algorithm)
	}
}

// signsWith returns the algorithm of a token that should be signed with one.
func (p *provider) signsWith(algorithm string) (string, error) {
	token, err := p.serviceToken(algorithm)
	return algorithmOf(token), err
}

// conditions says what the numbers were measured with.
func (b *oauthBench) conditions() string {
	postgres := "PostgreSQL"
	if b.statements != nil {
		if version, err := b.statements.version(b.t.Context()); err == nil {
			postgres += " " + version
		}
	}
	peer := ""
	if slices.ContainsFunc(b.sides, func(p *provider) bool { return p.of.postgres == 0 }) {
		node, _ := exec.CommandContext(b.t.Context(), "node", "--version").Output()
		peer = fmt.Sprintf(", oidc-provider %s on Node.js %s", peerVersion(), strings.TrimSpace(string(node)))
	}
	return fmt.Sprintf("%d cores, %s, %s%s; %d connections; %s for each measurement, the cheapest of %d; password hashes of 8 KiB, one pass; %s",
		runtime.NumCPU(), runtime.Version(), postgres, peer, connections, b.length, b.repeats, time.Now().UTC().Format(time.DateOnly))
}

func peerVersion() string {
	var manifest struct{ Dependencies map[string]string }
	text, err := os.ReadFile(filepath.Join("peer", "package.json"))
	if err != nil || json.Unmarshal(text, &manifest) != nil {
		return ""
	}
	return manifest.Dependencies["oidc-provider"]
}

// primitives measures what the floors are made of, one by one.
func (b *oauthBench) primitives() string {
	var table strings.Builder
	table.WriteString("| net/http handler and | per s | p50 ms | p99 ms | server | PostgreSQL | CPU ms per 1,000 |\n|---|---|---|---|---|---|---|\n")
	for _, step := range []string{"handler", "RS256", "ES256", "select", "commit", "batch", "argon2id"} {
		var samples []sample
		for range b.repeats {
			s, err := measureAt(b.floorAddr, b.floor, b.floorCalls([]string{step + "/250"}), b.length)
			if err != nil {
				b.t.Fatalf("floor %s: %v", step, err)
			}
			samples = append(samples, s)
		}
		name := map[string]string{"handler": "nothing else", "select": "a row by primary key", "commit": "an insert of its own", "batch": "an insert with those that wait", "RS256": "an RS256 signature", "ES256": "an ES256 signature", "argon2id": "one argon2id (19 MiB, 2 passes)"}[step]
		fmt.Fprintf(&table, "| %s | %s |\n", name, cheapest(samples))
	}
	return table.String()
}

func (b *oauthBench) floorCalls(steps []string) []call {
	var requests [][]byte
	for _, step := range steps {
		requests = append(requests, post("http://"+b.floorAddr+"/work/"+step, url.Values{
			"grant_type": {"client_credentials"}, "scope": {"openid"},
		}, "Authorization", "Basic YS1jbGllbnQtaWQ6YS1jbGllbnQtc2VjcmV0LW9mLWEtdXN1YWwtbGVuZ3Ro"))
	}
	return same(func(c *conn) error {
		for _, request := range requests {
			if _, err := c.expect(request, http.StatusOK); err != nil {
				return err
			}
		}
		return nil
	})
}

// measureAll lets the floor and the sides take turns at each scenario.
func (b *oauthBench) measureAll(chosen []scenario) string {
	var table strings.Builder
	table.WriteString("| scenario | | per s | p50 ms | p99 ms | server | PostgreSQL | CPU ms per 1,000 | × floor | × peer | SQL |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range chosen {
		begin := time.Now()
		for _, p := range b.sides {
			if err := p.use(b.t.Context(), s.algorithm); err != nil {
				b.fail(s, p, err)
			}
		}
		best, missing := b.turns(s)
		floor := best["floor"]
		fmt.Fprintf(&table, "| %s | floor | %s | | | |\n", s.name, floor)
		for _, p := range b.sides {
			result, ok := best[p.name]
			if !ok {
				fmt.Fprintf(&table, "| | %s | %s | | | | | | | | |\n", p.name, missing[p.name])
				continue
			}
			toPeer, statements := "", ""
			if peer, ok := best["oidc-provider"]; ok && p.name != "oidc-provider" {
				toPeer = ratio(result, peer)
			}
			if p.of.postgres != 0 {
				statements = b.count(s, p)
			}
			fmt.Fprintf(&table, "| | %s | %s | %s | %s | %s |\n", p.name, result, ratio(result, floor), toPeer, statements)
		}
		b.t.Logf("%s: %s", s.name, time.Since(begin).Round(time.Second))
	}
	return table.String()
}

func ratio(a, b sample) string { return fmt.Sprintf("%.2f", a.total()/b.total()) }

// turns returns the cheapest measurement of each side, and why there is none.
func (b *oauthBench) turns(s scenario) (best map[string]sample, missing map[string]string) {
	samples, missing := map[string][]sample{}, map[string]string{}
	for range b.repeats {
		floor, err := measureAt(b.floorAddr, b.floor, b.floorCalls(s.steps()), b.length)
		if err != nil {
			b.t.Fatalf("%s: the floor: %v", s.name, err)
		}
		samples["floor"] = append(samples["floor"], floor)
		for _, p := range b.sides {
			if missing[p.name] != "" {
				continue
			}
			one, err := b.once(s, p, b.length)
			switch {
			case errors.Is(err, errMissing):
				missing[p.name] = "–"
			case err != nil:
				missing[p.name] = "failed"
				delete(samples, p.name)
				b.fail(s, p, err)
			default:
				samples[p.name] = append(samples[p.name], one)
			}
		}
	}
	best = map[string]sample{}
	for side, all := range samples {
		best[side] = cheapest(all)
	}
	return best, missing
}

// profile takes a CPU profile of the server during a measurement, if a directory for
// profiles is named, and one of its allocations since the start; what it returns waits for
// them.
func (b *oauthBench) profile(s scenario, p *provider, length time.Duration) (wait func()) {
	directory := os.Getenv("WRIT_TEST_BENCH_PROFILES")
	if directory == "" || p.debug == "" {
		return func() {}
	}
	file := filepath.Join(directory, strings.NewReplacer(" ", "-", ",", "", "+", "").Replace(s.name))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, one := range [][2]string{{"cpu", fmt.Sprintf("profile?seconds=%d", max(1, int(length.Seconds())))}, {"allocs", "allocs?gc=1"}} {
			kind, from := one[0], one[1]
			res, err := http.Get(p.debug + "/debug/pprof/" + from)
			if err != nil {
				b.t.Errorf("profiling: %v", err)
				return
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err == nil {
				err = os.WriteFile(file+"."+kind, text, 0o600)
			}
			if err != nil {
				b.t.Errorf("profiling: %v", err)
			}
		}
	}()
	return func() { <-done }
}

// warmUp is how long a scenario runs before it is measured: new statistics make
// every connection plan its statements anew, which is not what a call costs.
const warmUp = time.Second

func (b *oauthBench) once(s scenario, p *provider, length time.Duration) (sample, error) {
	if err := p.settle(b.t.Context()); err != nil {
		return sample{}, err
	}
	var result sample
	for i, length := range []time.Duration{warmUp, length} {
		calls, err := s.of(b.t.Context(), p, length)
		if i == 1 {
			defer b.profile(s, p, length)()
		}
		if err == nil {
			result, err = measureOn(p, calls, length)
		}
		if err != nil {
			return sample{}, err
		}
	}
	return result, nil
}

// count returns the SQL statements of one call, counted apart: counting costs.
func (b *oauthBench) count(s scenario, p *provider) string {
	if b.statements == nil {
		return "–"
	}
	calls, err := s.of(b.t.Context(), p, b.length)
	if err != nil {
		b.fail(s, p, err)
		return "failed"
	}
	var measured sample
	all, err := b.statements.during(b.t.Context(), func() (err error) {
		measured, err = measureOn(p, calls, min(b.length, time.Second))
		return err
	})
	if err != nil {
		b.fail(s, p, err)
		return "failed"
	}
	n, each := int64(0), float64(measured.calls)
	for _, one := range all {
		n += one.calls
		if perCall := float64(one.calls) / each; perCall >= 0.01 {
			fmt.Fprintf(&b.longest, "| %s | %.2f | %.0f | `%s` |\n", s.name, perCall, float64(one.took.Microseconds())/float64(one.calls), one.title())
		}
	}
	return fmt.Sprintf("%.1f", float64(n)/each)
}

func (b *oauthBench) fail(s scenario, p *provider, err error) {
	text := fmt.Sprintf("%s, %s: %v", s.name, p.name, err)
	b.t.Log(text)
	if !slices.Contains(b.failed, text) {
		b.failed = append(b.failed, text)
	}
}

// explain says what the floor of each scenario does.
func explain(chosen []scenario) string {
	var table strings.Builder
	table.WriteString("| scenario | requests of the floor |\n|---|---|\n")
	for _, s := range chosen {
		var parts []string
		for _, line := range s.floor {
			step, what, _ := strings.Cut(line, " ")
			step, _, _ = strings.Cut(step, "/")
			parts = append(parts, fmt.Sprintf("`%s` %s", step, what))
		}
		fmt.Fprintf(&table, "| %s | %s |\n", s.name, strings.Join(parts, "; "))
	}
	return table.String()
}
