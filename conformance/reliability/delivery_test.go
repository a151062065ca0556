// Package reliability kills nodes and looks what is lost.
//
//	WRIT_TEST_KILL_ROUNDS  how often; the default keeps the suite short
package reliability

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/conformance/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// receiver notes each delivery that it answers.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	ids      map[string]string // webhook-id by sequence of the event
	order    map[string][]int  // sequences by object, as they first came
	requests int
	wrong    []string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{ids: map[string]string{}, order: map[string][]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var body struct {
			AggregateID string
			Sequence    string
		}
		err := json.NewDecoder(req.Body).Decode(&body)
		if err != nil { // who sent it was killed
			return
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // so that there is something to kill
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests++
		id := req.Header.Get("Webhook-Id")
		switch known := r.ids[body.Sequence]; known {
		case id:
		case "":
			r.ids[body.Sequence] = id
			sequence, err := strconv.Atoi(body.Sequence)
			if before := r.order[body.AggregateID]; err != nil || len(before) > 0 && before[len(before)-1] > sequence {
				r.wrong = append(r.wrong, fmt.Sprintf("%s got %s after %v", body.AggregateID, body.Sequence, before))
			}
			r.order[body.AggregateID] = append(r.order[body.AggregateID], sequence)
		default:
			r.wrong = append(r.wrong, fmt.Sprintf("the event %s came as %s and as %s", body.Sequence, known, id))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// client gives up on nodes that were killed.
var client = &http.Client{Timeout: 20 * time.Second}

// call returns the ID in the answer of a call, or "" when nobody answered.
func call(ctx context.Context, node *harness.Server, method, path, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, node.Issuer+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+node.AdminToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return "", nil //nolint:nilerr // it was killed: nobody knows what came of it
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return "", nil //nolint:nilerr // as above
	}
	var answer struct{ Details struct{ ID string } }
	if err := json.Unmarshal(text, &answer); err != nil || res.StatusCode > 299 {
		return "", fmt.Errorf("%s %s: %s %s", method, path, res.Status, text)
	}
	return answer.Details.ID, nil
}

// TestREL002_NoEventIsLostWhenNodesAreKilled has two nodes that take calls and deliver
// their events, and kills one of them in the middle, sometimes both, again and again. Every event that
// was committed is delivered, in the order of its object; what comes twice has the same
// webhook-id.
func TestREL002_NoEventIsLostWhenNodesAreKilled(t *testing.T) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("WRIT_TEST_KILL_ROUNDS"), "3"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, server, to := t.Context(), harness.Own(t), newReceiver(t)
	start := func() *harness.Server { return server.Node(t, "--outgoing-allow", "127.0.0.0/8") }
	nodes := []*harness.Server{start(), start()}
	server.Pause(t) // it has the database; deliveries are left to those that are killed
	t.Cleanup(func() { server.Resume(t) })

	target, err := call(ctx, nodes[0], http.MethodPost, "/resources/v3alpha/targets", fmt.Sprintf(`{"name":"receiver","restWebhook":{"url":%q},"timeout":"10s"}`, to.URL))
	if err != nil || target == "" {
		t.Fatal(target, err)
	}
	if _, err := call(ctx, nodes[0], http.MethodPost, "/resources/v3alpha/executions", fmt.Sprintf(`{"condition":{"event":{"group":"project"}},"targets":[%q]}`, target)); err != nil {
		t.Fatal(err)
	}
	url, err := server.DatabaseURL()
	if err != nil || url == "" {
		t.Skip("the database is out of reach", err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })

	acknowledged := 0
	for round := range rounds {
		victim := rand.IntN(2)
		const writers, each = 4, 6
		fatal := int64(rand.IntN(writers * each * 2)) // calls before the shot
		var mu sync.Mutex
		made := int64(0)
		shot := make(chan struct{})
		counted := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			if id != "" {
				acknowledged++
			}
			if made++; made == fatal+1 {
				close(shot)
			}
		}
		at := [2]*harness.Server{nodes[0], nodes[1]}
		var writing sync.WaitGroup
		for writer := range writers {
			writing.Go(func() {
				for i := range each {
					id, err := call(ctx, at[(writer+i)%2], http.MethodPost, "/resources/v3alpha/projects", fmt.Sprintf(`{"name":"project %d %d %d"}`, round, writer, i))
					if err != nil {
						t.Error(err)
					}
					counted(id)
					changed := ""
					if id != "" {
						if changed, err = call(ctx, at[(writer+i+1)%2], http.MethodPatch, "/resources/v3alpha/projects/"+id, fmt.Sprintf(`{"name":"changed %d %d %d"}`, round, writer, i)); err != nil {
							t.Error(err)
						}
					}
					counted(changed)
				}
			})
		}
		<-shot
		nodes[victim].Kill(t)
		both := rand.IntN(4) == 0
		if both {
			nodes[1-victim].Kill(t)
		}
		writing.Wait()
		nodes[victim] = start()
		if both {
			nodes[1-victim] = start()
		}
	}
	// All that was committed, whether somebody was told or not.
	var committed int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM events WHERE event_type LIKE 'project.%' AND creator <> 'system' AND sequence > (SELECT max(sequence) FROM events WHERE event_type = 'execution.set')").Scan(&committed); err != nil {
		t.Fatal(err)
	}
	received := func() (events, requests int) {
		to.mu.Lock()
		defer to.mu.Unlock()
		return len(to.ids), to.requests
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if events, _ := received(); events >= committed {
			break
		}
		if time.Now().After(deadline) {
			var missing *string
			_ = conn.QueryRow(ctx, `SELECT string_agg(concat(event_type, ' ', xid, '/', sequence), ', ') FROM events e WHERE event_type LIKE 'project.%' AND creator <> 'system'
				AND NOT EXISTS (SELECT FROM deliveries d WHERE d.delivered_sequence = e.sequence AND d.state = 2)`).Scan(&missing) // for people
			events, _ := received()
			t.Fatalf("%d of %d events came; not delivered: %v", events, committed, missing)
		}
	}
	events, requests := received()
	if events != committed || acknowledged > committed {
		t.Errorf("%d events came, %d were committed, %d acknowledged", events, committed, acknowledged)
	}
	for _, wrong := range to.wrong {
		t.Error(wrong)
	}
	t.Logf("%d rounds: %d events committed, %d acknowledged, %d came, %d of them twice or more", rounds, committed, acknowledged, events, requests-events)
}
