package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/client"
	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// front is a server that can go away: what comes while it is away loses its connection.
type front struct {
	*httptest.Server
	away atomic.Bool
	back atomic.Pointer[url.URL]
}

func newFront(c *servertest.Cluster) *front {
	f := &front{}
	f.to(c)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(f.back.Load())
		r.Out.Host = "a.example"
	}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.away.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	c.Cleanup(f.Close)
	return f
}

func (f *front) to(c *servertest.Cluster) {
	back, err := url.Parse(c.Nodes[0])
	if err != nil {
		c.Fatal(err)
	}
	f.back.Store(back)
}

// said collects what a follower tells and sees.
type said struct {
	mu          sync.Mutex
	seen, words []string
	position    client.Position
	pauses      int
}

func (s *said) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words = append(s.words, fmt.Sprintf(format, args...))
}

func (s *said) each(_ context.Context, _ string, event json.RawMessage) error {
	var e struct {
		Type    string
		Payload struct{ Name string }
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, e.Payload.Name)
	return nil
}

func (s *said) arrived(at client.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position = at
	return nil
}

// sleep counts the pauses and makes them short.
func (s *said) sleep(ctx context.Context, _ time.Duration) error {
	s.mu.Lock()
	s.pauses++
	s.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	return ctx.Err()
}

func (s *said) get(read func() string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return read()
}

func (s *said) names() string { return s.get(func() string { return strings.Join(s.seen, " ") }) }
func (s *said) told() string  { return s.get(func() string { return strings.Join(s.words, "\n") }) }

func (s *said) follower(find client.Find) *client.Follower {
	return &client.Follower{Find: find, Filters: client.OfTypes([]string{"project.added"}), Interval: time.Second, Tell: s.tell, Sleep: s.sleep}
}

// eventually waits until a condition holds; how long is no statement.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func named(c *servertest.Cluster, name string) {
	c.Create("owner", "/resources/v3alpha/projects", `{"name":"`+name+`"}`)
}

func TestAFollowerGoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	f, s := newFront(c), &said{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.follower(func(context.Context) (*client.Server, error) {
			return &client.Server{URL: f.URL, Token: c.Token("owner"), HTTP: client.NewHTTP(nil)}, nil
		}).Follow(ctx, s.each, s.arrived)
	}()
	eventually(t, "it does not begin", func() bool { return s.get(func() string { return s.position.Instance }) != "" })
	for round := range 5 {
		named(c, fmt.Sprintf("up%d", round))
		if round == 2 { // once it has surely noticed
			f.away.Store(true)
			eventually(t, "nobody is told of the outage", func() bool { return strings.Contains(s.told(), "away") })
			named(c, "down")
			f.away.Store(false)
		} else { // and at any moment
			f.away.Store(round%2 == 0)
			named(c, fmt.Sprintf("flicker%d", round))
			f.away.Store(false)
		}
	}
	const want = "up0 flicker0 up1 flicker1 up2 down up3 flicker3 up4 flicker4"
	eventually(t, "it does not see everything", func() bool { return len(strings.Fields(s.names())) >= len(strings.Fields(want)) })
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) || s.names() != want {
		t.Errorf("got %q and %v, want %q", s.names(), err, want)
	}
	if told := s.told(); strings.Count(told, "away") != strings.Count(told, "connected again") || !strings.Contains(told, "connected again") {
		t.Errorf("it told %s", told)
	}
}

func TestAFollowerGoesOnWhereAnotherEnded(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	find := func(context.Context) (*client.Server, error) {
		return &client.Server{URL: newFront(c).URL, Token: c.Token("owner"), HTTP: client.NewHTTP(nil)}, nil
	}
	var from client.Position
	var all []string
	for i := range 3 {
		named(c, fmt.Sprintf("p%d", i))
		// Transactions of other databases of this PostgreSQL hold an event back for a moment.
		eventually(t, "the event is not followed", func() bool {
			s := &said{position: from}
			follower := s.follower(find)
			follower.From, follower.Once = &from, true
			if err := follower.Follow(t.Context(), s.each, s.arrived); err != nil {
				t.Fatal(err)
			}
			all, from = append(all, s.seen...), s.position
			return len(all) > i
		})
	}
	if got := strings.Join(all, " "); got != "p0 p1 p2" {
		t.Errorf("three runs saw %q", got)
	}
}

// TestAFollowerSeesAServerThatWasMadeAnew: it was restarted without its data, as writ dev
// is. It has another token, and its events have lower numbers.
func TestAFollowerSeesAServerThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	old, fresh := servertest.New(t, 1, nil), servertest.New(t, 1, nil)
	for i := range 3 {
		named(old, fmt.Sprintf("old%d", i))
	}
	named(fresh, "fresh")
	f, s := newFront(old), &said{}
	var anew atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	follower := s.follower(func(context.Context) (*client.Server, error) {
		token := old.Token("owner")
		if anew.Load() {
			token = fresh.Token("owner")
		}
		return &client.Server{URL: f.URL, Token: token, HTTP: client.NewHTTP(nil)}, nil
	})
	follower.From = &client.Position{}
	done := make(chan error, 1)
	go func() { done <- follower.Follow(ctx, s.each, s.arrived) }()
	eventually(t, "the events of the old one", func() bool { return len(strings.Fields(s.names())) == 3 })
	anew.Store(true)
	f.to(fresh)
	eventually(t, "those of the new one", func() bool { return len(strings.Fields(s.names())) == 4 })
	if s.names() != "old0 old1 old2 fresh" || !strings.Contains(s.told(), "made anew") {
		t.Errorf("got %q, told %s", s.names(), s.told())
	}
}

func TestWhatIsRefusedForGoodEnds(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	at := newFront(c).URL
	for name, test := range map[string]struct {
		url, token string
		types      []string
		want       string
	}{
		"a wrong token":     {at, "wrong", nil, "401"},
		"no permission":     {at, c.Token("nobody"), nil, "403"},
		"what is no type":   {at, c.Token("owner"), []string{"Org"}, "400"},
		"nobody was there":  {"http://127.0.0.1:1", "t", nil, "connect"},
		"something else is": {httptest.NewServer(http.NotFoundHandler()).URL, "t", nil, "404"},
	} {
		s := &said{}
		follower := s.follower(func(context.Context) (*client.Server, error) {
			return &client.Server{URL: test.url, Token: test.token, HTTP: client.NewHTTP(nil)}, nil
		})
		follower.Filters, follower.From = client.OfTypes(test.types), &client.Position{}
		err := follower.Follow(t.Context(), s.each, s.arrived)
		if err == nil || !strings.Contains(err.Error(), test.want) || slices.Contains(s.words, "connected again") || s.pauses > 0 {
			t.Errorf("%s: got %v after %d pauses, want %s at once", name, err, s.pauses, test.want)
		}
	}
}
