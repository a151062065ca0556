package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/core/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a database with tenants, receivers and a clock of its own.
type world struct {
	*testing.T
	url    string
	db     *store.DB
	limits delivery.Limits
	mu     sync.Mutex
	moved  time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, url: pgtest.New(t)}
	w.db = pgtest.Connect(t, w.url, 4)
	return w
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// now is the time of the machine, moved: what is measured goes on.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.moved).UTC().Truncate(time.Microsecond)
}

func (w *world) move(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved += by
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.db.Pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.Helper()
	if err := w.db.Pool.QueryRow(w.Context(), sql, args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return n
}

// instance makes a tenant whose execution of a condition calls targets, of which each is
// an ID and a URL.
func (w *world) instance(id, condition string, targets ...string) {
	w.Helper()
	w.exec("INSERT INTO instances (id, name, name_folded, sequence, creation_date, change_date) VALUES ($1, $1, $1, 1, now(), now())", id)
	w.targets(id, targets...)
	w.execution(id, condition, targets...)
}

func (w *world) targets(id string, targets ...string) {
	w.Helper()
	for i := 0; i < len(targets); i += 2 {
		w.exec(`INSERT INTO targets (instance_id, id, name, name_folded, target_type, url, timeout_nanos, sequence, creation_date, change_date)
			VALUES ($1, $2, $2, $2, 'rest_webhook', $3, 20000000000, 1, now(), now())`, id, targets[i], targets[i+1])
	}
}

func (w *world) execution(instanceID, condition string, targets ...string) {
	w.Helper()
	w.exec("INSERT INTO executions (instance_id, id, condition_type, sequence, creation_date, change_date) VALUES ($1, $2, 'event', 1, now(), now())", instanceID, condition)
	for i := 0; i < len(targets); i += 2 {
		w.exec("INSERT INTO execution_targets (instance_id, execution_id, position, target_id) VALUES ($1, $2, $3, $4)", instanceID, condition, i, targets[i])
	}
	w.append(w.db.Pool, instanceID, condition, &eventv1.ExecutionSet{})
}

func (w *world) append(tx db.DBTX, instanceID, objectID string, payload event.Payload) {
	if _, err := event.Append(w.Context(), tx, event.Event{
		InstanceID: instanceID, ObjectID: objectID, Payload: payload, Cause: event.Cause{Creator: "test", At: w.now()},
		Owner: &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: instanceID},
	}); err != nil {
		w.Error(err)
	}
}

// happens appends events of users, one for each ID.
func (w *world) happens(instanceID string, users ...string) {
	for _, user := range users {
		w.append(w.db.Pool, instanceID, user, &eventv1.HumanPasswordChanged{})
	}
}

func (w *world) changes(instanceID, user string) {
	w.append(w.db.Pool, instanceID, user, &eventv1.HumanChanged{})
}

func (w *world) targetChanges(instanceID, target string) {
	w.append(w.db.Pool, instanceID, target, &eventv1.TargetChanged{})
}

// node is what a node has of deliveries.
type node struct {
	*delivery.Fanout
	*delivery.Worker
	end func()
}

// node starts one, which does nothing unasked.
func (w *world) node() *node {
	w.Helper()
	own := pgtest.Connect(w.T, w.url, 8)
	operations, err := policy.NewOperations()
	if err != nil {
		w.Fatal(err)
	}
	caller := &webhook.Caller{Out: outgoing.New(outgoing.Config{Allow: outgoing.Loopback}), Now: w.now}
	engine := execution.New(execution.Config{DB: own, Operations: operations, Sealer: secret.NoKey{}, Caller: caller, Now: w.now, NewID: newID, Logger: slog.Default()})
	logger := slog.New(slog.NewTextHandler(w.Output(), nil))
	n := &node{
		Fanout: &delivery.Fanout{DB: own, Now: w.now, NewID: newID, Logger: logger, Fresh: engine.Fresh},
		Worker: delivery.NewWorker(delivery.Config{
			DB: own, Now: w.now, NewID: newID, Logger: logger, Limits: w.limits, Call: caller.Call, Lease: time.Hour,
			Target: func(row *db.Target) *webhook.Target {
				t := execution.Target(secret.NoKey{}, row)
				t.Keys = []webhook.Key{{Secret: []byte("0123456789abcdef0123456789abcdef")}}
				return t
			},
		}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { n.Run(ctx); close(ended) }()
	n.end = sync.OnceFunc(func() { cancel(); <-ended })
	w.Cleanup(n.end)
	return n
}

// until lets nodes work until it is so.
func (w *world) until(what string, is func() bool, nodes ...*node) {
	w.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("it never came to that: %s\n%s", what, w.states())
		}
		for _, n := range nodes {
			if _, err := n.Pass(w.Context()); err != nil {
				w.Fatal(err)
			}
			if _, err := n.Take(w.Context()); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// states tells how many deliveries of each target are in each state.
func (w *world) states() string {
	w.Helper()
	var text *string
	if err := w.db.Pool.QueryRow(w.Context(), `SELECT string_agg(concat(target, ' ', state, ' ', dead_reason, ': ', n), ', ' ORDER BY target, state, dead_reason)
		FROM (SELECT target, state, dead_reason, count(*) AS n FROM deliveries GROUP BY 1, 2, 3) s`).Scan(&text); err != nil {
		w.Fatal(err)
	}
	if text == nil {
		return ""
	}
	return *text
}

// received is a request that a receiver got.
type received struct {
	id, object string
	sequence   string
	status     int
}

// receiver is an endpoint.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []received
	held chan struct{} // those who ask to be held wait for it
}

// receive starts one that answers with what answer says of the object and of how many
// requests there were before.
func (w *world) receive(answer func(object string, before int) (status int, retryAfter string)) *receiver {
	r := &receiver{held: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		var body struct {
			AggregateID string
			Sequence    string
		}
		if err != nil || json.Unmarshal(text, &body) != nil || !strings.HasPrefix(req.Header.Get("Webhook-Signature"), "v1,") {
			w.Errorf("got %s, %v, %v", text, err, req.Header)
		}
		r.mu.Lock()
		status, after := answer(body.AggregateID, len(r.got))
		r.got = append(r.got, received{req.Header.Get("Webhook-Id"), body.AggregateID, body.Sequence, status})
		r.mu.Unlock()
		if status == hold {
			select {
			case <-r.held:
			case <-req.Context().Done():
			}
			status = http.StatusOK
		}
		if after != "" {
			rw.Header().Set("Retry-After", after)
		}
		rw.WriteHeader(status)
		fmt.Fprintf(rw, "answer %d\x00\xff", status)
	}))
	w.Cleanup(func() {
		r.release()
		r.Close()
	})
	return r
}

// hold is the status of an answer that waits for release.
const hold = 0

func (r *receiver) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.held:
	default:
		close(r.held)
	}
}

func (r *receiver) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func fine(string, int) (int, string) { return http.StatusOK, "" }
