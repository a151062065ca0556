// Package upgrade exchanges the nodes of one release for those of the next, and back, while
// users go on.
package upgrade

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestREL073_NobodyNoticesAnUpgradeNorItsWayBack runs two nodes of the release before with
// load on them, migrates the schema below them, exchanges them one by one for nodes of this
// release, and goes back. No request fails, each release takes the tokens of the other, and
// every event that was answered is delivered.
func TestREL073_NobodyNoticesAnUpgradeNorItsWayBack(t *testing.T) {
	next := harness.Program(t)
	before, commit, err := previous()
	if err != nil {
		t.Fatal(err)
	}
	if before == "" {
		fmt.Fprintln(os.Stderr, "upgrade: this clone has no other commit, so this release is upgraded to itself")
		before, commit = next, "this one"
	}
	t.Logf("from %s", commit)

	ctx, balancer, receiver := t.Context(), newBalancer(t), newReceiver(t)
	server := harness.OwnOf(t, before) // its database has the schema of the release before
	start := func(program string) *harness.Server {
		return server.NodeOf(t, program, "--outgoing-allow", "127.0.0.0/8", "--external-scheme", "http", "--external-port", balancer.port(t), "--drain-delay", "100ms")
	}
	old := []*harness.Server{start(before), start(before)}
	for _, node := range old {
		balancer.add(node)
	}
	server.Pause(t) // it has the database; deliveries are left to the nodes
	t.Cleanup(func() { server.Resume(t) })

	l := &load{balancer: balancer, server: server, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	t.Cleanup(l.client.CloseIdleConnections)
	l.mustCall(t, "/resources/v3alpha/targets", fmt.Sprintf(`{"name":"receiver","restWebhook":{"url":%q},"timeout":"10s"}`, receiver.URL), func(target string) {
		l.mustCall(t, "/resources/v3alpha/executions", fmt.Sprintf(`{"condition":{"event":{"event":"project.added"}},"targets":[%q]}`, target), func(string) {})
	})
	l.begin(ctx)
	defer l.end()

	l.goOn(t, "both of the release before")
	database, err := server.DatabaseURL()
	if err != nil {
		t.Fatal(err)
	}
	migrate := exec.CommandContext(ctx, next, "migrate", "up", "--database-url", database)
	migrate.Env = harness.Environment()
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.goOn(t, "the schema of this release below them")

	exchange := func(from *harness.Server, to string) *harness.Server {
		node := start(to)
		balancer.add(node)
		balancer.remove(from)
		from.Stop(t)
		return node
	}
	first := exchange(old[0], next)
	l.goOn(t, "one of each")
	l.eachTakesTheOthers(t, old[1], first)
	second := exchange(old[1], next)
	l.goOn(t, "both of this release")
	back := exchange(first, before)
	l.goOn(t, "one of each again")
	l.eachTakesTheOthers(t, back, second)
	again := exchange(second, before)
	l.goOn(t, "back at the release before")
	l.end()

	for _, node := range []*harness.Server{old[0], old[1], first, second, back, again} {
		if balancer.served[node.Addr] == 0 {
			t.Errorf("the node at %s served nothing", node.Addr)
		}
	}
	for _, what := range balancer.failed {
		t.Error(what)
	}
	made := 0
	l.made.Range(func(id, _ any) bool {
		made++
		for !receiver.has(id.(string)) { // the deadline of the test is the limit
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("the project %s was not delivered", id)
			}
		}
		return true
	})
	t.Logf("%v requests by node, %d projects, all delivered", balancer.served, made)
}

// goOn lets every worker do some rounds.
func (l *load) goOn(t *testing.T, when string) {
	t.Helper()
	const rounds = 3
	var from [len(l.rounds)]int64
	for i := range from {
		from[i] = l.rounds[i].Load()
	}
	for i := range from {
		for l.rounds[i].Load() < from[i]+rounds {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal(when, t.Context().Err())
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, what := range l.failed {
		t.Errorf("%s: %s", when, what)
	}
	l.failed = nil
}

// eachTakesTheOthers has each node make a token, which the other is asked about and then makes
// the next of.
func (l *load) eachTakesTheOthers(t *testing.T, one, other *harness.Server) {
	t.Helper()
	token, err := l.login(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]*harness.Server{{one, other}, {other, one}} {
		if token, err = l.refresh(t.Context(), "http://"+pair[0].Addr, token); err == nil {
			err = l.active(t.Context(), "http://"+pair[1].Addr, token.access)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (l *load) mustCall(t *testing.T, path, body string, then func(id string)) {
	t.Helper()
	text, err := l.call(t.Context(), http.MethodPost, l.URL+path, "Bearer "+l.server.AdminToken, strings.NewReader(body), "application/json")
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Details struct{ ID string } }
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	then(made.Details.ID)
}

// receiver notes of which projects it was told.
type receiver struct {
	*httptest.Server
	projects sync.Map
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var event struct{ AggregateID string }
		if err := json.NewDecoder(req.Body).Decode(&event); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.projects.Store(event.AggregateID, true)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) has(id string) bool {
	_, ok := r.projects.Load(id)
	return ok
}
