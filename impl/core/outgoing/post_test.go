package outgoing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
)

// local reaches what tests serve, and nothing else.
func local() *outgoing.Client {
	return outgoing.New(outgoing.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
}

// asked is a server that keeps what it was asked.
type asked struct {
	*httptest.Server
	mu          sync.Mutex
	requests    []string // method, path, body
	connections map[string]bool
}

func newAsked(t *testing.T, answer http.HandlerFunc) *asked {
	t.Helper()
	a := &asked{connections: map[string]bool{}}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.requests = append(a.requests, r.Method+" "+r.URL.Path+" "+string(body))
		a.connections[r.RemoteAddr] = true
		a.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *asked) got() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func TestSEC253_RedirectsThatKeepTheMethodAreFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 308} {
		a := newAsked(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/from" {
				http.Redirect(w, r, "/to", status)
				return
			}
			_, _ = io.WriteString(w, "arrived")
		})
		got, err := local().Post(t.Context(), "p", a.URL+"/from", http.Header{}, []byte("body"), 1<<30, nil)
		if err != nil || got.Status != 200 || string(got.Body) != "arrived" {
			t.Errorf("%d: got %v, %v", status, got, err)
		}
		if want := []string{"POST /from body", "POST /to body"}; !slices.Equal(a.got(), want) {
			t.Errorf("%d: asked %q, want %q: nothing may be lost on the way", status, a.got(), want)
		}
	}
	a := newAsked(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/to", http.StatusSeeOther) })
	if got, err := local().Post(t.Context(), "p", a.URL+"/from", http.Header{}, nil, 1<<30, nil); err != nil || got.Status != 303 || len(a.got()) != 1 {
		t.Errorf("303, which is to be read by GET, is no answer but %v, %v after %q", got, err, a.got())
	}
}

func TestSEC253_RedirectsEnd(t *testing.T) {
	t.Parallel()
	var around string
	a := newAsked(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, around, http.StatusTemporaryRedirect)
	})
	for _, at := range []string{a.URL, "http://169.254.169.254/", "http://127.0.0.2:9/", "ftp://127.0.0.1/", "http://u:p@127.0.0.1/", "http://127.0.0.1:22/"} {
		around = at
		before := len(a.got())
		got, err := local().Post(t.Context(), "p", a.URL, http.Header{}, nil, 1<<30, nil)
		if err == nil {
			t.Errorf("to %q: got %v", at, got)
		}
		if n := len(a.got()) - before; at == a.URL && n != 6 || at != a.URL && n != 1 {
			t.Errorf("to %q: %d requests, want the first and five redirects, or the first alone", at, n)
		}
		if strings.HasPrefix(at, "http://1") && at != a.URL && strings.Contains(fmt.Sprint(err), "169.254") {
			t.Errorf("SEC-259: %v", err)
		}
	}
}

func TestSEC253_NoRedirectLeadsFromHTTPSToHTTP(t *testing.T) {
	t.Parallel()
	plain := newAsked(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusPermanentRedirect))
	t.Cleanup(secure.Close)
	if _, err := local().Post(t.Context(), "p", secure.URL, http.Header{}, nil, 1<<30, nil); err == nil || len(plain.got()) != 0 {
		t.Errorf("a certificate of nobody is trusted: %v", err)
	}
	client := local()
	client.Trust(secure.Certificate())
	if _, err := client.Post(t.Context(), "p", secure.URL, http.Header{}, nil, 1<<30, nil); err == nil || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("got %v", err)
	}
	if len(plain.got()) != 0 {
		t.Error("the redirect was followed")
	}
}

func TestSEC254_ConnectionsAreKeptForOnePoolOnly(t *testing.T) {
	t.Parallel()
	a := newAsked(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "a=b") })
	client := local()
	for range 10 {
		for _, pool := range []string{"one", "two"} {
			if _, err := client.Post(t.Context(), pool, a.URL, http.Header{}, nil, 1<<30, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(a.connections) != 2 {
		t.Errorf("20 calls of two pools took %d connections, want 2", len(a.connections))
	}
	for i := range 1500 { // more than there are pools
		if _, err := client.Post(t.Context(), fmt.Sprint(i), a.URL, http.Header{}, nil, 1<<30, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHTTP2IsSpokenWhereItIsOffered(t *testing.T) {
	t.Parallel()
	proto := make(chan string, 1)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto <- r.Proto }))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	client := local()
	client.Trust(secure.Certificate())
	if _, err := client.Post(t.Context(), "p", secure.URL, http.Header{}, []byte("body"), 1<<30, nil); err != nil {
		t.Fatal(err)
	}
	if got := <-proto; got != "HTTP/2.0" {
		t.Errorf("got %s", got)
	}
}

func TestSEC254_AnAnswerIsNotLongerThanItsLimit(t *testing.T) {
	t.Parallel()
	a := newAsked(t, func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		for range 5 {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	for _, keep := range []int{1 << 30, 100, 0} {
		if got, err := local().Post(t.Context(), "p", a.URL, http.Header{}, nil, keep, nil); !errors.Is(err, outgoing.ErrTooLong) || len(got.Body) > 4<<20 || len(got.Body) > keep {
			t.Errorf("keeping %d: got %d bytes, %v", keep, len(got.Body), err)
		}
	}
}

func TestSEC254_OfAnAnswerIsKeptWhatIsWanted(t *testing.T) {
	t.Parallel()
	client := local()
	for _, length := range []int{0, 10, 256 << 10, 256<<10 + 1, 4 << 20} {
		text := bytes.Repeat([]byte("x"), length)
		a := newAsked(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
		for _, keep := range []int{0, 5, 256 << 10, 300 << 10, 1 << 30} {
			got, err := client.Post(t.Context(), "p", a.URL, http.Header{}, nil, keep, nil)
			if err != nil || len(got.Body) != min(keep, length) {
				t.Errorf("%d of %d: got %d bytes, %v", keep, length, len(got.Body), err)
			}
			got.Release()
		}
	}
}

func TestSEC254_LongAnswersWaitForEachOther(t *testing.T) {
	t.Parallel()
	const calls = 30
	var reading, most atomic.Int32
	a := newAsked(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 2<<20)) // more than waits in buffers on the way
		n := reading.Add(1)
		for {
			if seen := most.Load(); n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
		reading.Add(-1)
		_, _ = w.Write(make([]byte, 2<<20))
	})
	client := local()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if got, err := client.Post(t.Context(), "p", a.URL, http.Header{}, nil, 1<<30, nil); err != nil || len(got.Body) != 4<<20 {
				t.Errorf("got %v", err)
			} else {
				got.Release()
				got.Release() // twice is once
			}
		})
	}
	all.Wait()
	t.Logf("at most %d of %d answers came beyond their beginning at once", most.Load(), calls)
	if most.Load() == calls {
		t.Error("none waited")
	}
}

func TestSEC259_TheErrorOfACallSaysNoAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close()
	port := closed[strings.LastIndexByte(closed, ':'):]
	dns := resolver(t, always("127.0.0.1"))
	client := outgoing.New(outgoing.Config{Resolver: dns, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	for _, at := range []string{"http://inside.example" + port, "http://nowhere.invalid.example" + port} {
		_, err := client.Post(t.Context(), "p", at, http.Header{}, nil, 1<<30, nil)
		if err == nil || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: got %v", at, err)
		}
	}
}

// TestSEC221_ATenantHasNoMoreThanItsShareOfLongAnswers keeps long answers of one tenant in
// memory, and has many others of it that never end.
func TestSEC221_ATenantHasNoMoreThanItsShareOfLongAnswers(t *testing.T) {
	t.Parallel()
	const share = 3
	begun, end := make(chan struct{}, 100), make(chan struct{})
	a := newAsked(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hangs" {
			_, _ = w.Write(make([]byte, 1<<20))
			return
		}
		_, _ = w.Write(make([]byte, 257<<10))
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-end
	})
	defer close(end)
	client := local()
	var kept []*outgoing.Answer
	for range share {
		got, err := client.Post(t.Context(), "one/target", a.URL, http.Header{}, nil, 1<<30, nil)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, got)
	}
	// What was read is in memory still: a further one waits for it.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got, err := client.Post(ctx, "one/another target", a.URL, http.Header{}, nil, 1<<30, nil); err == nil {
		t.Errorf("one more than its share: %d bytes", len(got.Body))
	}
	hanging, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			_, _ = client.Post(hanging, fmt.Sprintf("one/%d", i), a.URL+"/hangs", http.Header{}, nil, 1<<30, nil)
		})
	}
	for range 40 {
		<-begun
	}
	for _, one := range kept {
		one.Release() // those that hang have their places now
	}
	for range 2 * share {
		got, err := client.Post(t.Context(), "two/target", a.URL, http.Header{}, nil, 1<<30, nil)
		if err != nil || len(got.Body) != 1<<20 {
			t.Fatalf("another tenant: %v", err)
		}
		got.Release()
	}
	stop()
	all.Wait()
	if got, err := client.Post(t.Context(), "one/target", a.URL, http.Header{}, nil, 1<<30, nil); err != nil {
		t.Errorf("afterwards: %v, %v", got, err)
	}
}
