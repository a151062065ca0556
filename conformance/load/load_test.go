package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/dev/freeport"
)

// The benchmarks run only when asked for: they take minutes and a quiet machine.
// WRIT_TEST_BENCH_ROWS lists the table sizes, for example "100000,1000000";
// WRIT_TEST_BENCH_EXECUTIONS is how many calls to make that executions may concern;
// WRIT_TEST_BENCH_DELIVERIES is how many events to deliver, WRIT_TEST_BENCH_BACKLOG how many
// at once;
// WRIT_TEST_BENCH_SECONDS is how long to measure the OAuth endpoints each time;
// WRIT_TEST_BENCH_GROWTH how many rows a database has that they are measured on beside an
// empty one.
func TestMain(m *testing.M) {
	if os.Getenv("WRIT_TEST_BENCH_ROWS") == "" && os.Getenv("WRIT_TEST_BENCH_SECONDS") == "" && os.Getenv("WRIT_TEST_BENCH_EXECUTIONS") == "" &&
		os.Getenv("WRIT_TEST_BENCH_DELIVERIES") == "" {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench is everything that runs during a measurement.
type bench struct {
	t          *testing.T
	issuer     string
	token      string
	instanceID string
	orgID      string
	writ       process
	floor      process
	floorURL   string
	postgres   int
	database   *pgx.Conn
	grpc       actionv3.ServiceActionsClient
	web        *webClient
}

func TestBenchmark(t *testing.T) {
	if os.Getenv("WRIT_TEST_BENCH_ROWS") == "" {
		t.Skip("WRIT_TEST_BENCH_ROWS names no size")
	}
	b := start(t)
	for _, size := range strings.Split(os.Getenv("WRIT_TEST_BENCH_ROWS"), ",") {
		rows, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		b.fill(rows)
		t.Logf("## %d targets, %d users\n%s", rows, rows, b.scenarios())
		t.Logf("### Searches at %d targets\n%s", rows, b.searches(targetSearches(b.anID())))
		t.Logf("### Searches at %d users\n%s", rows, b.searches(userSearches(b.aUser())))
	}
}

// start starts `writ dev`, its floor on the same database, and the clients.
func start(t *testing.T) *bench {
	pid, ready, data, debug := startWrit(t, func(string) {})
	return connected(t, pid, ready, data, debug)
}

// startWrit starts `writ dev` on a new data directory, and again on what is then
// an existing one, after between was told where it is, with the server running.
func startWrit(t *testing.T, between func(data string), args ...string) (pid int, ready, data, debug string) {
	dir := t.TempDir()
	binary := os.Getenv("WRIT_TEST_BINARY")
	if binary == "" {
		t.Fatal("WRIT_TEST_BINARY names no server; use `make bench`")
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the database runs as another user when we are root
		t.Fatal(err)
	}
	data = temporaryData(t)
	ready = filepath.Join(dir, "ready.json")
	debug = freeAddr(t)
	for _, name := range []string{"a new data directory", "an existing data directory"} {
		_ = os.Remove(ready)
		begin := time.Now()
		server := spawn(t, binary, append([]string{"dev", "--addr", "127.0.0.1:0", "--data-dir", data, "--ready-file", ready, "--debug-addr", debug, "--log-level", "error"}, args...)...)
		wait(t, func() bool { _, err := os.Stat(ready); return err == nil })
		t.Logf("ready on %s: %d ms", name, time.Since(begin).Milliseconds())
		if name == "a new data directory" {
			between(data)
			_ = server.Process.Signal(syscall.SIGTERM)
			_ = server.Wait()
			continue
		}
		pid = server.Process.Pid
	}
	return pid, ready, data, debug
}

// temporaryData returns a data directory that goes with the test. Its path is short: there
// is a socket in it.
func temporaryData(t *testing.T) string {
	data := filepath.Join(os.TempDir(), fmt.Sprintf("writ-bench-%d", os.Getpid()))
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	return data
}

func connected(t *testing.T, pid int, readyFile, data, debug string) *bench {
	ctx := t.Context()
	var ready struct {
		Issuer     string `json:"issuer"`
		Addr       string `json:"addr"`
		AdminToken string `json:"admin_token"`
		InstanceID string `json:"instance_id"`
		OrgID      string `json:"org_id"`
	}
	text, err := os.ReadFile(readyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &ready); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	t.Logf("resident at idle: %s", residentOf(t, pid))
	url, postgres := databaseOf(t, data)
	database, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close(context.Background()) })

	floorBinary := filepath.Join(t.TempDir(), "floor")
	if out, err := exec.Command("go", "build", "-o", floorBinary, "./floor").CombinedOutput(); err != nil {
		t.Fatalf("build the floor: %v\n%s", err, out)
	}
	floorAddr := freeAddr(t)
	floor := spawn(t, floorBinary, floorAddr, url, ready.InstanceID, ready.OrgID)
	wait(t, func() bool {
		return do(ctx, http.MethodGet, "http://"+floorAddr+"/hello", "", "", http.StatusOK) == nil
	})

	conn, err := grpc.NewClient("passthrough:///"+ready.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return &bench{
		t: t, issuer: ready.Issuer, token: ready.AdminToken, instanceID: ready.InstanceID, orgID: ready.OrgID,
		writ: process{pid, "http://" + debug}, floor: process{floor.Process.Pid, "http://" + floorAddr}, floorURL: "http://" + floorAddr,
		postgres: postgres, database: database, grpc: actionv3.NewServiceActionsClient(conn), web: newWebClient(ready.Issuer),
	}
}

// scenarios measures every scenario, the floor's and ours in turn, and returns the
// table. Of several repetitions the cheapest counts: the others had company.
func (b *bench) scenarios() string {
	ctx := metadata.AppendToOutgoingContext(b.t.Context(), "authorization", "Bearer "+b.token)
	id := b.anID()
	const get, create, search, users = "/resources/v3alpha/targets/", "/resources/v3alpha/targets", "/resources/v3alpha/targets/_search", "/resources/v3alpha/users"
	body := func(i int) string {
		return fmt.Sprintf(`{"name":"bench %d %d","restWebhook":{"url":"https://hooks.example/bench"},"timeout":"10s"}`, time.Now().UnixNano(), i)
	}
	user := func(i int) string {
		return fmt.Sprintf(`{"username":"bench-%d-%d","service":{"name":"Bench"}}`, time.Now().UnixNano(), i)
	}
	type call = func(ctx context.Context, worker, i int) error
	rest := func(base, method, path string, body func(int) string, want int) call {
		return func(ctx context.Context, _, i int) error { return do(ctx, method, base+path, b.token, body(i), want) }
	}
	none, all := func(int) string { return "" }, func(int) string { return "[]" }
	newTarget := func(i int) *actionv3.CreateTargetRequest {
		return &actionv3.CreateTargetRequest{Target: &actionv3.Target{
			Name: fmt.Sprintf("bench %d %d", time.Now().UnixNano(), i), Timeout: durationpb.New(10 * time.Second),
			TargetType: &actionv3.Target_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: "https://hooks.example/bench"}},
		}}
	}
	var table strings.Builder
	table.WriteString("| scenario | server µs | PostgreSQL µs | total | ratio to floor: server, total | allocs | p50 | p99 | calls/s |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, scenario := range []struct {
		name                   string
		n                      int
		floor, rest, grpc, web call
	}{
		{
			"GetTarget", 20_000, rest(b.floorURL, http.MethodGet, get+id, none, 200), rest(b.issuer, http.MethodGet, get+id, none, 200),
			func(_ context.Context, _, _ int) error {
				_, err := b.grpc.GetTarget(ctx, &actionv3.GetTargetRequest{Id: id})
				return err
			},
			func(ctx context.Context, _, _ int) error {
				return callWeb(ctx, b.web.get, b.token, &actionv3.GetTargetRequest{Id: id})
			},
		},
		{
			"CreateTarget", 10_000, rest(b.floorURL, http.MethodPost, create, body, 201), rest(b.issuer, http.MethodPost, create, body, 201),
			func(_ context.Context, _, i int) error {
				_, err := b.grpc.CreateTarget(ctx, newTarget(i))
				return err
			},
			func(ctx context.Context, _, i int) error { return callWeb(ctx, b.web.create, b.token, newTarget(i)) },
		},
		{
			"SearchTargets, 100 items", 5_000, rest(b.floorURL, http.MethodPost, search, all, 200), rest(b.issuer, http.MethodPost, search, all, 200),
			func(_ context.Context, _, _ int) error {
				_, err := b.grpc.SearchTargets(ctx, &actionv3.SearchTargetsRequest{})
				return err
			},
			func(ctx context.Context, _, _ int) error {
				return callWeb(ctx, b.web.search, b.token, &actionv3.SearchTargetsRequest{})
			},
		},
		{"CreateUser", 10_000, rest(b.floorURL, http.MethodPost, users, user, 201), rest(b.issuer, http.MethodPost, users, user, 201), nil, nil},
	} {
		costs := map[string]Cost{}
		for range 3 { // interleaved, so that all see the same machine
			for _, side := range []struct {
				name   string
				server process
				call   call
			}{
				{"floor", b.floor, scenario.floor}, {"REST", b.writ, scenario.rest}, {"gRPC", b.writ, scenario.grpc}, {"gRPC-web", b.writ, scenario.web},
			} {
				if side.call == nil {
					continue
				}
				cost, err := run(b.t.Context(), side.server, b.postgres, scenario.n, side.call)
				if err != nil {
					b.t.Fatalf("%s over %s: %v", scenario.name, side.name, err)
				}
				if best, ok := costs[side.name]; !ok || cost.Total() < best.Total() {
					costs[side.name] = cost
				}
			}
		}
		floor := costs["floor"]
		for _, side := range []string{"floor", "REST", "gRPC", "gRPC-web"} {
			c, measured := costs[side]
			if !measured {
				continue
			}
			fmt.Fprintf(&table, "| %s, %s | %.0f | %.0f | %.0f | %.2f, %.2f | %.0f | %.2f ms | %.2f ms | %.0f |\n", scenario.name, side,
				micros(c.Server), micros(c.PostgreSQL), micros(c.Total()),
				float64(c.Server)/float64(floor.Server), float64(c.Total())/float64(floor.Total()),
				c.Allocs, float64(c.P50)/1e6, float64(c.P99)/1e6, c.PerSecond)
		}
	}
	b.trim()
	return table.String()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// fill makes the table hold rows targets.
func (b *bench) fill(rows int) {
	b.exec(`INSERT INTO targets (instance_id, id, name, name_folded, target_type, url, timeout_nanos, is_async, interrupt_on_error, sequence, creation_date, change_date)
		SELECT $1, 'fill-' || lpad(to_hex(n), 12, '0'), 'Target ' || md5(n::text), 'target ' || md5(n::text),
			CASE WHEN n % 2 = 0 THEN 'rest_webhook' ELSE 'rest_request_response' END, 'https://hooks.example/' || md5((n * 7)::text),
			(1 + n % 60) * 1000000000::bigint, CASE WHEN n % 3 = 0 THEN n % 2 = 0 END, CASE WHEN n % 3 = 1 THEN n % 4 = 0 END,
			1, now() - n * interval '1 second', now() - (n % 100000) * interval '1 second'
		FROM generate_series((SELECT count(*) FROM targets WHERE instance_id = $1) + 1, $2::bigint) n`, b.instanceID, rows)
	// Nine of ten users are human; one of a hundred is not active.
	b.exec(`INSERT INTO users (instance_id, id, org_id, user_type, state, username, username_folded, given_name, family_name, display_name, display_name_folded,
			email, email_folded, phone, sequence, creation_date, change_date)
		SELECT $1, 'fill-' || lpad(to_hex(n), 12, '0'), $3, CASE WHEN n % 10 = 0 THEN 2 ELSE 1 END, CASE WHEN n % 100 = 0 THEN 2 ELSE 1 END,
			'user-' || md5(n::text), 'user-' || md5(n::text), 'Given', 'Family', 'Name ' || md5((n * 3)::text), 'name ' || md5((n * 3)::text),
			md5((n * 5)::text) || '@mail.example', md5((n * 5)::text) || '@mail.example', '+4179' || lpad(n::text, 9, '0'),
			1, now() - n * interval '1 second', now() - (n % 100000) * interval '1 second'
		FROM generate_series((SELECT count(*) FROM users WHERE instance_id = $1) + 1, $2::bigint) n`, b.instanceID, rows, b.orgID)
	b.exec("VACUUM ANALYZE targets, users")
	b.exec("CHECKPOINT")
}

// trim takes away what the measurements created.
func (b *bench) trim() {
	b.exec("DELETE FROM targets WHERE instance_id = $1 AND name LIKE 'bench %'", b.instanceID)
	b.exec("DELETE FROM users WHERE instance_id = $1 AND username LIKE 'bench-%'", b.instanceID)
}

func (b *bench) exec(sql string, args ...any) {
	if _, err := b.database.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%.60s: %v", sql, err)
	}
}

// aUser returns the ID, the username and the e-mail address of a user.
func (b *bench) aUser() (id, username, email string) {
	if err := b.database.QueryRow(b.t.Context(), "SELECT id, username, email FROM users WHERE instance_id = $1 AND id LIKE 'fill-%' LIMIT 1", b.instanceID).Scan(&id, &username, &email); err != nil {
		b.t.Fatal(err)
	}
	return id, username, email
}

func (b *bench) anID() (id string) {
	if err := b.database.QueryRow(b.t.Context(), "SELECT id FROM targets WHERE instance_id = $1 LIMIT 1", b.instanceID).Scan(&id); err != nil {
		b.t.Fatal(err)
	}
	return id
}

// databaseOf returns a URL of the private PostgreSQL of a data directory, and
// the process ID of its postmaster.
func databaseOf(t *testing.T, data string) (url string, pid int) {
	text, err := os.ReadFile(filepath.Join(data, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n") // pid, data directory, start, port, socket directory
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%s user=writ dbname=postgres", lines[4], strings.TrimSpace(lines[3])), pid
}

func residentOf(t *testing.T, pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

func spawn(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	return cmd
}

func wait(t *testing.T, done func() bool) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal("it did not come up in a minute")
}

func freeAddr(t *testing.T) string {
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port
}

// webClient holds the gRPC-web clients of the measured operations.
type webClient struct {
	get    *connect.Client[actionv3.GetTargetRequest, actionv3.GetTargetResponse]
	create *connect.Client[actionv3.CreateTargetRequest, actionv3.CreateTargetResponse]
	search *connect.Client[actionv3.SearchTargetsRequest, actionv3.SearchTargetsResponse]
}

func newWebClient(base string) *webClient {
	return &webClient{
		connect.NewClient[actionv3.GetTargetRequest, actionv3.GetTargetResponse](client, base+actionv3.ServiceActions_GetTarget_FullMethodName, connect.WithGRPCWeb()),
		connect.NewClient[actionv3.CreateTargetRequest, actionv3.CreateTargetResponse](client, base+actionv3.ServiceActions_CreateTarget_FullMethodName, connect.WithGRPCWeb()),
		connect.NewClient[actionv3.SearchTargetsRequest, actionv3.SearchTargetsResponse](client, base+actionv3.ServiceActions_SearchTargets_FullMethodName, connect.WithGRPCWeb()),
	}
}

func callWeb[Req, Res any](ctx context.Context, client *connect.Client[Req, Res], token string, message *Req) error {
	req := connect.NewRequest(message)
	req.Header().Set("Authorization", "Bearer "+token)
	_, err := client.CallUnary(ctx, req)
	return err
}
