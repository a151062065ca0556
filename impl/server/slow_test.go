package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/server"
	"github.com/writ-id/writ/impl/server/servertest"
)

// idle is more clients than a node has places of any kind.
const idle = 200

// TestSEC290_WhoSendsNothingHoldsNoPlace sends the head of a request and one byte of
// its body from many clients. Each is told to go on, which is said when the body is
// read: none of them waits for another one. It leaves no room for parallel tests.
func TestSEC290_WhoSendsNothingHoldsNoPlace(t *testing.T) {
	c := servertest.New(t, 1, nil)
	for _, route := range []struct{ path, contentType string }{
		{"/oauth/v2/token", "application/x-www-form-urlencoded"},
		{"/oauth/v2/introspect", "application/x-www-form-urlencoded"},
		{"/oauth/v2/authorize", "application/x-www-form-urlencoded"},
		{"/login/password", "application/x-www-form-urlencoded"},
		{"/resources/v3alpha/targets/_search", "application/json"},
		{"/writ.action.v3alpha.ServiceActions/SearchTargets", "application/grpc-web+proto"},
	} {
		t.Run(route.path, func(t *testing.T) {
			var clients sync.WaitGroup
			for range idle {
				conn, err := net.Dial("tcp", strings.TrimPrefix(c.Nodes[0], "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				clients.Go(func() {
					_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a.example\r\nContent-Type: %s\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\ng", route.path, route.contentType)
					if line, err := bufio.NewReader(conn).ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
						t.Errorf("%q, %v", line, err)
					}
				})
			}
			clients.Wait()
			if got := c.Do("owner", http.MethodPost, "/resources/v3alpha/targets/_search", `[]`); got.Status != http.StatusOK {
				t.Errorf("the API answers another client %d %s", got.Status, got.Body)
			}
			if got := c.Do("", http.MethodGet, "/oidc/v1/userinfo", ""); got.Status != http.StatusUnauthorized {
				t.Errorf("the provider answers another client %d %s", got.Status, got.Body)
			}
		})
	}
}

// unread is the connection of a client that does not read: what is written to it
// waits.
type unread struct {
	http.ResponseWriter
	writing func()
	over    chan struct{}
}

func (u *unread) Write(p []byte) (int, error) {
	u.writing()
	<-u.over
	return len(p), nil
}

func TestSEC290_WhoReadsNothingHoldsNoPlace(t *testing.T) {
	c := servertest.New(t, 1, nil)
	sealer, err := secret.NewMasterKey() // the page that asks before a logout is sealed
	if err != nil {
		t.Fatal(err)
	}
	c.Env.Sealer = sealer
	node, err := server.New(c.Env)
	if err != nil {
		t.Fatal(err)
	}
	request := func(method, path, body string) *http.Request {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = "a.example"
		r.Header.Set("Authorization", "Bearer "+c.Token("owner"))
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	for _, route := range []struct{ method, path, body string }{
		{http.MethodPost, "/resources/v3alpha/targets/_search", "[]"},
		{http.MethodGet, "/oauth/v2/authorize", ""},
		{http.MethodPost, "/oauth/v2/token", ""},
		{http.MethodGet, "/oidc/v1/userinfo", ""},
		{http.MethodGet, "/oidc/v1/end_session", ""},
	} {
		t.Run(route.path, func(t *testing.T) {
			over := make(chan struct{})
			var writing, done sync.WaitGroup
			for range idle {
				writing.Add(1)
				done.Go(func() {
					w := &unread{httptest.NewRecorder(), sync.OnceFunc(writing.Done), over}
					node.Handler().ServeHTTP(w, request(route.method, route.path, route.body))
				})
			}
			writing.Wait()
			got := httptest.NewRecorder()
			node.Handler().ServeHTTP(got, request(route.method, route.path, route.body))
			if got.Code >= http.StatusInternalServerError {
				t.Errorf("another client gets %d", got.Code)
			}
			close(over)
			done.Wait()
		})
	}
}

// wire is the connection of a client that sends what the test says.
type wire struct {
	http.ResponseWriter
	sent *io.PipeWriter

	mu          sync.Mutex
	first, last time.Time // deadlines
}

// SetReadDeadline ends what is being read when the deadline is over.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first.IsZero() {
		w.first = t
	}
	w.last = t
	if !t.IsZero() && !t.After(time.Now()) {
		w.sent.CloseWithError(os.ErrDeadlineExceeded)
	}
	return nil
}

// moved returns by how much the deadline is later than at first.
func (w *wire) moved() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Sub(w.first)
}

// A body gets five seconds, and more as more of it comes. When too much is on its way,
// the one that takes longest is cut off, and who sends all is served.
func TestSEC290_TheSlowestBodyMakesRoom(t *testing.T) {
	t.Parallel()
	receive := server.NewBodies(50 << 10)
	begin := func() (*wire, <-chan error, *http.Request) {
		body, sent := io.Pipe()
		w, r := &wire{ResponseWriter: httptest.NewRecorder(), sent: sent}, httptest.NewRequest(http.MethodPost, "/", body)
		failed := make(chan error, 1)
		go func() { failed <- receive(w, r, 64<<10) }()
		return w, failed, r
	}
	half := make([]byte, 33<<10)
	slow, slowFailed, _ := begin()
	_, _ = slow.sent.Write(half) // returns when it was read
	if moved := slow.moved(); moved < time.Second/2 || moved > 3*time.Second {
		t.Errorf("for %d bytes the deadline was moved by %v", len(half), moved)
	}
	quick, quickFailed, r := begin()
	_, _ = quick.sent.Write(half)
	if err := <-slowFailed; err == nil || !strings.Contains(err.Error(), "BODY_TIMEOUT") {
		t.Errorf("the slow one: %v", err)
	}
	_ = quick.sent.Close()
	text := new(bytes.Buffer)
	if err := <-quickFailed; err != nil {
		t.Errorf("the quick one: %v", err)
	} else if _, err := text.ReadFrom(r.Body); err != nil || text.Len() != len(half) {
		t.Errorf("%d bytes of the quick one, %v", text.Len(), err)
	}
	if !quick.last.IsZero() {
		t.Error("the deadline of the body stays")
	}
	// One that is too long is not waited for.
	long, failed, r := begin()
	go func() { _, _ = long.sent.Write(append(half, half...)) }() // what nobody reads stays
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if _, err := text.ReadFrom(r.Body); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a long one: %v", err)
	}
}

// A node has room for so many connections. For one more the one makes room that was
// silent for longest, whoever opened it first.
func TestSEC290_TheConnectionThatWasIdleLongestMakesRoom(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, func(config *server.Config) { config.MaxClients = 4 })
	type client struct {
		net.Conn
		in *bufio.Reader
	}
	open := func() *client {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.Nodes[0], "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return &client{conn, bufio.NewReader(conn)}
	}
	lives := func(one *client) bool {
		_, _ = io.WriteString(one, "GET /livez HTTP/1.1\r\nHost: a.example\r\n\r\n")
		res, err := http.ReadResponse(one.in, nil)
		if err != nil {
			return false
		}
		defer func() { _ = res.Body.Close() }()
		_, err = io.Copy(io.Discard, res.Body)
		return err == nil && res.StatusCode == http.StatusOK
	}
	var clients []*client
	for i := range 4 {
		clients = append(clients, open())
		if !lives(clients[i]) {
			t.Fatalf("connection %d is not served", i)
		}
	}
	if !lives(clients[0]) { // the first is the youngest now
		t.Fatal("the first connection is not served again")
	}
	for range 2 {
		clients = append(clients, open())
		if !lives(clients[len(clients)-1]) {
			t.Fatal("a new connection is not served")
		}
	}
	for i, want := range []bool{true, false, false, true, true, true} {
		if got := lives(clients[i]); got != want {
			t.Errorf("connection %d is served: %v, want %v", i, got, want)
		}
	}
}
