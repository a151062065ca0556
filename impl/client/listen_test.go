package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/client"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/server/servertest"
)

// receiver is a webhook that is being written: it answers 500 to what it does not like yet.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	got   []string // names of projects whose signature is right
	ids   []string
	wrong string
	bad   string // the name it refuses
}

func newReceiver(t *testing.T, key []byte) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var event struct {
			InstanceID   string                `json:"instanceID"`
			EventType    string                `json:"event_type"`
			EventPayload struct{ Name string } `json:"event_payload"`
		}
		at, _ := time.Parse(time.RFC3339, "1970-01-01T00:00:00Z")
		seconds, _ := time.ParseDuration(req.Header.Get("Webhook-Timestamp") + "s")
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := json.Unmarshal(body, &event); err != nil || event.InstanceID != req.Header.Get("Writ-Instance-Id") || event.InstanceID == "" || event.EventType != "project.added" ||
			req.Header.Get("Webhook-Signature") != webhook.Sign(key, req.Header.Get("Webhook-Id"), at.Add(seconds), body) {
			r.wrong += req.Header.Get("Webhook-Id") + " " + string(body) + "\n"
		}
		r.got, r.ids = append(r.got, event.EventPayload.Name), append(r.ids, req.Header.Get("Webhook-Id"))
		if event.EventPayload.Name == r.bad {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, " ")
}

// lines collects what is printed.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func TestAListenerSendsWhatATargetGetsAndTellsWhatCameOfIt(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	key, _ := webhook.NewKey()
	f, r, s, out := newFront(c), newReceiver(t, key), &said{}, &lines{}
	r.bad = "bad"
	var kept client.Position
	var mu sync.Mutex
	listen := func(retries int) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &client.Listener{
			Follower: *s.follower(func(context.Context) (*client.Server, error) {
				return &client.Server{URL: f.URL, Token: c.Token("owner"), HTTP: client.NewHTTP(nil)}, nil
			}),
			To: r.URL, Key: key, Timeout: 5 * time.Second, Retries: retries, Out: out,
			Keep: func(at client.Position) error {
				mu.Lock()
				defer mu.Unlock()
				kept = at
				return nil
			},
		}
		if kept.Instance != "" {
			from := kept
			l.From = &from
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = l.Listen(ctx) }()
		return func() { cancel(); <-ended }
	}
	place := func() client.Position { mu.Lock(); defer mu.Unlock(); return kept }
	received := func(want string) {
		t.Helper()
		eventually(t, "not everything is sent", func() bool { return len(strings.Fields(r.all())) >= len(strings.Fields(want)) })
		if r.all() != want {
			t.Fatalf("sent %q, want %q", r.all(), want)
		}
	}
	stop := listen(0)
	eventually(t, "it does not begin", func() bool { return place().Instance != "" })
	named(c, "good")
	named(c, "bad")
	named(c, "next")
	received("good bad next")
	last := place()
	eventually(t, "its place is not kept", func() bool { last = place(); return last.Sequence > 0 && strings.Count(out.said(), "\n") == 3 })
	f.away.Store(true) // the server goes, and so does the command
	stop()
	f.away.Store(false)
	named(c, "meanwhile")
	stop = listen(2) // another run goes on there
	named(c, "later")
	received("good bad next meanwhile later")
	r.mu.Lock()
	r.bad = "again"
	r.mu.Unlock()
	named(c, "again")
	received("good bad next meanwhile later again again again")
	// A delivery is told after it arrived; one that ends the command in between is none that the run tells of.
	eventually(t, "what came of a delivery is not told", func() bool { return strings.Count(out.said(), "\n") == 8 })
	stop()
	if r.wrong != "" {
		t.Errorf("not as a target gets it: %s", r.wrong)
	}
	if ids := slices.Compact(slices.Clone(r.ids)); len(ids) != 6 || !slices.Equal(r.ids[5:], []string{ids[5], ids[5], ids[5]}) {
		t.Errorf("an event has one ID, whatever becomes of it: %v", r.ids)
	}
	text := out.said()
	for what, times := range map[string]int{"  200  project.added": 4, "  500  project.added": 4, "failed: the answer has the status 500": 2, "will be sent again": 2} {
		if strings.Count(text, what) != times {
			t.Errorf("%q is said %d times, want %d:\n%s", what, strings.Count(text, what), times, text)
		}
	}
}

func (l *lines) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
