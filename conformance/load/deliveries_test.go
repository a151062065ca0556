package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestDeliveries measures how many events are delivered in a second to one, a hundred and
// ten thousand targets, how long each takes, and what a backlog costs in memory.
func TestDeliveries(t *testing.T) {
	deliveries, err := strconv.Atoi(os.Getenv("WRIT_TEST_BENCH_DELIVERIES"))
	if err != nil {
		t.Skip("WRIT_TEST_BENCH_DELIVERIES says not how many deliveries to make")
	}
	backlog, _ := strconv.Atoi(os.Getenv("WRIT_TEST_BENCH_BACKLOG"))
	b := start(t)
	r := receiveDeliveries(t)
	targets := b.deliveryTargets(r.url, 100)
	if backlog > 0 { // first, while nothing else took memory
		b.hearing(targets)
		t.Logf("backlog of %d: %s", backlog, b.drained(r, backlog/100, 100))
	}
	targets = append(targets, b.deliveryTargets(r.url, 9_900)...)

	t.Log("| targets | deliveries | a second | server µs | PostgreSQL µs |\n|---|---|---|---|---|")
	for _, n := range []int{1, 100, 10_000} {
		b.hearing(targets[:n])
		line := b.drained(r, max(deliveries/n, 1), n)
		t.Logf("| %d | %s |", n, line)
	}

	b.hearing(targets[:1])
	t.Log("| delivery after its call was answered | p50 ms | p99 ms |\n|---|---|---|")
	idle := b.delays(r, 300, 1, 50*time.Millisecond)
	t.Logf("| idle | %s |", idle)
	began := time.Now()
	b.delays(r, 4000, 16, 0)
	rate := 4000 / time.Since(began).Seconds()
	t.Logf("| 80 %% of the %.0f calls a second that it takes | %s |", rate, b.delays(r, 4000, 16, time.Duration(16/(0.8*rate)*float64(time.Second))))

	var queued, sent, took float64
	if err := b.database.QueryRow(t.Context(), `SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.creation_date - e.created_at)) * 1000,
			percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM a.date - d.creation_date)) * 1000, percentile_cont(0.5) WITHIN GROUP (ORDER BY a.took_nanos) / 1e6
		FROM (SELECT * FROM deliveries ORDER BY creation_date DESC LIMIT 4000) d JOIN events e ON e.instance_id = d.instance_id AND e.sequence = d.delivered_sequence
		JOIN delivery_attempts a ON a.instance_id = d.instance_id AND a.delivery = d.id`).Scan(&queued, &sent, &took); err != nil {
		t.Fatal(err)
	}
	t.Logf("of it p50: %.1f ms from the event until it is queued, %.1f until it is sent, %.1f for the call", queued, sent, took)
}

// deliveryReceiver counts what comes, and when of what object.
type deliveryReceiver struct {
	url   string
	count atomic.Int64
	mu    sync.Mutex
	times map[string]time.Time // by object, while wanted
}

func receiveDeliveries(t *testing.T) *deliveryReceiver {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &deliveryReceiver{url: "http://" + listener.Addr().String() + "/"}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		at := time.Now()
		r.count.Add(1)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.times == nil {
			return
		}
		if id, err := member(text, "aggregateID"); err == nil {
			r.times[id] = at
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

// deliveryTargets makes targets.
func (b *bench) deliveryTargets(url string, n int) (ids []string) {
	ids = make([]string, n)
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < n; i += 16 {
				var made struct{ Details struct{ ID string } }
				b.post("/resources/v3alpha/targets", newHook(fmt.Sprintf("delivery %d of %d", i, n), url, `"restWebhook":`, ""), &made)
				ids[i] = made.Details.ID
			}
		})
	}
	all.Wait()
	return ids
}

// hearing has targets hear of users, and waits until that is known. The API takes a
// hundred targets; the others are put beside them.
func (b *bench) hearing(targets []string) {
	list, err := json.Marshal(targets[:1])
	if err != nil {
		b.t.Fatal(err)
	}
	put := fmt.Sprintf(`{"condition":{"event":{"group":"user"}},"targets":%s}`, list)
	b.post("/resources/v3alpha/executions", put, nil)
	b.exec("DELETE FROM execution_targets WHERE execution_id = 'event.user.*'")
	b.exec(`INSERT INTO execution_targets (instance_id, execution_id, position, target_id)
		SELECT $1, 'event.user.*', nr, id FROM unnest($2::text[]) WITH ORDINALITY t(id, nr)`, b.instanceID, targets)
	b.exec("ANALYZE")
	// Another one, which is another one each time, tells the nodes that there was a change.
	b.post("/resources/v3alpha/executions", fmt.Sprintf(`{"condition":{"event":{"event":"org.added"}},"targets":[%s]}`, strings.Repeat(fmt.Sprintf("%q,", targets[0]), len(strconv.Itoa(len(targets))))+fmt.Sprintf("%q", targets[0])), nil)
	time.Sleep(2 * time.Second)
}

// drained has events happen at once and waits until they are delivered.
func (b *bench) drained(r *deliveryReceiver, events, targets int) string {
	r.count.Store(0)
	want := int64(events * targets)
	b.exec(`INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at)
		SELECT $1, 'user', 'bench-' || n, 'user.human.added', jsonb_build_object('username', 'bench-' || n, 'email', 'bench@mail.example', 'givenName', 'Given', 'familyName', 'Family'), 'bench', 3, $2, now()
		FROM generate_series(1, $3::int) n`, b.instanceID, b.orgID, events)
	cpu := func() (server, postgres time.Duration) {
		server, err := cpuOf(b.writ.pid)
		if err == nil {
			postgres, err = cpuOf(b.postgres)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		return server, postgres
	}
	memory := []string{residentOf(b.t, b.writ.pid)}
	server, postgres := cpu()
	begin := time.Now()
	b.post("/resources/v3alpha/users", fmt.Sprintf(`{"username":"wakes-%d","service":{"name":"Bench"}}`, time.Now().UnixNano()), nil)
	want += int64(targets) // of that one
	for deadline := time.Now().Add(time.Hour); r.count.Load() < want; time.Sleep(5 * time.Millisecond) {
		if len(memory) < 4 && r.count.Load() > want/4*int64(len(memory)) { // at each quarter
			memory = append(memory, residentOf(b.t, b.writ.pid))
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%d of %d came", r.count.Load(), want)
		}
	}
	took := time.Since(begin)
	memory = append(memory, residentOf(b.t, b.writ.pid))
	afterServer, afterPostgres := cpu()
	return fmt.Sprintf("%d | %.0f | %d | %d | resident: %s", want, float64(want)/took.Seconds(),
		(afterServer-server).Microseconds()/want, (afterPostgres-postgres).Microseconds()/want, strings.Join(memory, ", "))
}

// delays makes users, so many at a time and each at least so long after the other, and
// returns how long after the answer the delivery came.
func (b *bench) delays(r *deliveryReceiver, n, workers int, apart time.Duration) string {
	r.mu.Lock()
	r.times = map[string]time.Time{}
	r.mu.Unlock()
	answered := make([]time.Time, n)
	ids := make([]string, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			time.Sleep(apart * time.Duration(worker) / time.Duration(workers))
			due := time.Now()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				var made struct{ Details struct{ ID string } }
				b.post("/resources/v3alpha/users", fmt.Sprintf(`{"username":"delay-%d-%d","service":{"name":"Bench"}}`, time.Now().UnixNano(), i), &made)
				answered[i], ids[i] = time.Now(), made.Details.ID
				due = due.Add(apart)
				time.Sleep(time.Until(due))
			}
		})
	}
	all.Wait()
	wait(b.t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.times) >= n
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	var delays []time.Duration
	for i, id := range ids {
		delays = append(delays, max(0, r.times[id].Sub(answered[i])))
	}
	r.times = nil
	slices.Sort(delays)
	return fmt.Sprintf("%.1f | %.1f", delays[n/2].Seconds()*1000, delays[n*99/100].Seconds()*1000)
}
