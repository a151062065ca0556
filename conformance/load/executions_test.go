package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestExecutions measures what executions cost the calls that they concern, beside both
// ends of a webhook with nothing in between, and those that they do not.
func TestExecutions(t *testing.T) {
	calls, err := strconv.Atoi(os.Getenv("WRIT_TEST_BENCH_EXECUTIONS"))
	if err != nil {
		t.Skip("WRIT_TEST_BENCH_EXECUTIONS says not how many calls to make")
	}
	b := start(t)
	const get, create, users = "/resources/v3alpha/targets/", "/resources/v3alpha/targets", "/resources/v3alpha/users"
	var target struct{ Details struct{ ID string } }
	b.post(create, newHook("of the bench", "https://hooks.example/", `"restWebhook":`, ""), &target)
	rest := func(method, path string, body func(i int) string, want int) func(context.Context, int, int) error {
		return func(ctx context.Context, _, i int) error {
			text := ""
			if body != nil {
				text = body(i)
			}
			return do(ctx, method, b.issuer+path, b.token, text, want)
		}
	}
	unique := func(format string) func(int) string {
		return func(i int) string { return fmt.Sprintf(format, fmt.Sprintf("bench %d %d", time.Now().UnixNano(), i)) }
	}
	measured := func(what string, n int, call func(context.Context, int, int) error) Cost {
		var best Cost
		for range 3 {
			cost, err := run(t.Context(), b.writ, b.postgres, n, call)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if best.PerSecond == 0 || cost.Total() < best.Total() {
				best = cost
			}
		}
		return best
	}
	line := func(what string, c Cost) {
		t.Logf("| %s | %d | %d | %.0f | %.2f | %.2f | %.0f |", what, c.Server.Microseconds(), c.PostgreSQL.Microseconds(), c.Allocs,
			c.P50.Seconds()*1000, c.P99.Seconds()*1000, c.PerSecond)
	}
	t.Log("| call | server µs | PostgreSQL µs | allocs | p50 ms | p99 ms | calls/s |\n|---|---|---|---|---|---|---|")
	for _, unrelated := range []int{0, 1000, 0} {
		b.unrelated(unrelated)
		line(fmt.Sprintf("GetTarget, %d executions of others", unrelated), measured("get", calls, rest(http.MethodGet, get+target.Details.ID, nil, 200)))
		line(fmt.Sprintf("CreateTarget, %d executions of others", unrelated), measured("create", calls/2,
			rest(http.MethodPost, create, unique(`{"name":"%s","restWebhook":{"url":"https://hooks.example/bench"},"timeout":"10s"}`), 201)))
	}

	user := unique(`{"username":"%s","service":{"name":"Bench"}}`)
	line("CreateUser", measured("user", calls/4, rest(http.MethodPost, users, user, 201)))
	receive, echo, send := b.hooks()
	for _, kind := range []struct{ name, url, target, execution string }{
		{"async", receive, `"restWebhook":`, `"isAsync":true,`},
		{"webhook", receive, `"restWebhook":`, ""},
		{"request_response", echo, `"restRequestResponse":`, `"interruptOnError":true,`},
	} {
		b.post(create, newHook(kind.name, kind.url, kind.target, kind.execution), &target)
		b.post("/resources/v3alpha/executions",
			`{"condition":{"request":{"method":"/writ.user.v3alpha.ServiceUsers/CreateUser"}},"targets":["`+target.Details.ID+`"]}`, nil)
		time.Sleep(time.Second) // until every node knows
		line("CreateUser, "+kind.name, measured(kind.name, calls/4, rest(http.MethodPost, users, user, 201)))
	}
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte(`{"fullMethod":"/writ.user.v3alpha.ServiceUsers/CreateUser","request":{"user":{"username":"bench","service":{"name":"Bench"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{receive, echo} {
		out, err := exec.CommandContext(t.Context(), send, "send", url, strconv.Itoa(calls), file).CombinedOutput()
		t.Logf("floor: net/http posts a signed body to %s and reads the answer: %s µs, %v", url, strings.TrimSpace(string(out)), err)
	}
}

func newHook(name, url, kind, execution string) string {
	return fmt.Sprintf(`{"name":%q,%s{"url":%q},%s"timeout":"10s"}`, name, kind, url, execution)
}

// unrelated leaves so many executions that concern no call that is measured, with a
// target each.
func (b *bench) unrelated(n int) {
	for _, statement := range []string{
		"DELETE FROM executions WHERE id LIKE 'request./bench.%'",
		fmt.Sprintf(`INSERT INTO executions (instance_id, id, condition_type, sequence, creation_date, change_date)
			SELECT '%s', 'request./bench.Service/M' || i, 'request', i, now(), now() FROM generate_series(1, %d) i`, b.instanceID, n),
		`INSERT INTO execution_targets (instance_id, execution_id, position, target_id)
			SELECT e.instance_id, e.id, 1, (SELECT t.id FROM targets t WHERE t.instance_id = e.instance_id LIMIT 1) FROM executions e WHERE e.id LIKE 'request./bench.%'`,
		"ANALYZE", // plans that were made of an empty table are made again
	} {
		if _, err := b.database.Exec(b.t.Context(), statement); err != nil {
			b.t.Fatal(err)
		}
	}
	time.Sleep(1500 * time.Millisecond) // until it is known
}

// hooks starts receivers, and returns their URLs and the program that posts to them.
func (b *bench) hooks() (receive, echo, program string) {
	program = filepath.Join(b.t.TempDir(), "hook")
	if out, err := exec.Command("go", "build", "-o", program, "./hook").CombinedOutput(); err != nil {
		b.t.Fatalf("build the receivers: %v\n%s", err, out)
	}
	urls := map[string]string{}
	for _, kind := range []string{"receive", "echo"} {
		addr := freeAddr(b.t)
		spawn(b.t, program, kind, addr)
		urls[kind] = "http://" + addr + "/"
		wait(b.t, func() bool {
			res, err := http.Post(urls[kind], "application/json", strings.NewReader("{}"))
			if err == nil {
				res.Body.Close()
			}
			return err == nil
		})
	}
	return urls["receive"], urls["echo"], program
}

// post makes a call of the administrator that has to succeed.
func (b *bench) post(path, body string, answer any) {
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.issuer+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		b.t.Fatalf("%s %s: %s %s %v", path, body, res.Status, text, err)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			b.t.Fatal(err)
		}
	}
}
