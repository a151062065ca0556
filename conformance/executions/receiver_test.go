package executions

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/harness"
)

// receiver is what targets lead to. The first segment of a path is the name of a way to
// answer (ways); the rest says whose it is.
type receiver struct {
	t      *testing.T
	url    string
	silent string // accepts connections and never says anything

	mu   sync.Mutex
	keys [][]byte
	got  []*delivery
	done chan struct{} // ends answers that never come
	// What some ways do.
	meanwhile func()
	change    func(map[string]any)
}

// delivery is a call that came.
type delivery struct {
	Path   string
	Header http.Header
	Body   string
	JSON   map[string]any
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, done: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(r.serve))
	r.url = server.URL
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.silent = "https://" + silent.Addr().String()
	go func() {
		var all []net.Conn // kept, or they would be closed
		for {
			conn, err := silent.Accept()
			if err != nil {
				for _, one := range all {
					one.Close()
				}
				return
			}
			all = append(all, conn)
		}
	}()
	t.Cleanup(func() {
		close(r.done)
		silent.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return r
}

// at is the address that answers in a way.
func (r *receiver) at(of *way, whose string) string {
	if of.silent {
		return r.silent + "/" + whose
	}
	return r.url + "/" + of.path() + "/" + whose
}

// trust makes calls signed by a target's key good ones.
func (r *receiver) trust(of *target) {
	encoded, ok := strings.CutPrefix(of.key, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 {
		r.t.Errorf("the signing key of %s is none: %v", of.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, key)
}

// distrust forgets all keys.
func (r *receiver) distrust() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = nil
}

// signed checks a call as the libraries for Standard Webhooks do.
func (r *receiver) signed(header http.Header, body []byte) error {
	id, at := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute || id == "" {
		return fmt.Errorf("webhook-id %q, webhook-timestamp %q", id, at)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		sent, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(one, "v1,"))
		if err != nil {
			return fmt.Errorf("webhook-signature %q: %w", one, err)
		}
		for _, key := range r.keys {
			mac := hmac.New(sha256.New, key)
			fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
			if hmac.Equal(sent, mac.Sum(nil)) {
				return nil
			}
		}
	}
	return fmt.Errorf("no signature of %q is good", header.Get("Webhook-Signature"))
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	d := &delivery{Path: req.URL.Path, Header: req.Header, Body: string(body), JSON: map[string]any{}}
	switch {
	case err != nil:
		r.t.Errorf("%s: %v", req.URL.Path, err)
	case req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json":
		r.t.Errorf("%s: got %s of %q", req.URL.Path, req.Method, req.Header.Get("Content-Type"))
	case json.Unmarshal(body, &d.JSON) != nil:
		r.t.Errorf("%s: got %q", req.URL.Path, body)
	}
	if err := r.signed(req.Header, body); err != nil {
		r.t.Errorf("%s: %v", req.URL.Path, err)
	}
	if err := harness.FindSecret("a target", body, []byte(fmt.Sprint(req.Header))); err != nil {
		r.t.Errorf("%s: %v", req.URL.Path, err)
	}
	if req.Header.Get("Cookie")+req.Header.Get("Authorization") != "" {
		r.t.Errorf("%s: got %v", req.URL.Path, req.Header)
	}
	r.mu.Lock()
	r.got = append(r.got, d)
	r.mu.Unlock()
	segment, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	all := append([]*way{letter, asked, asks}, ways...)
	at := slices.IndexFunc(all, func(one *way) bool { return one.path() == segment })
	if at < 0 {
		r.t.Errorf("nothing answers at %s", req.URL.Path)
		return
	}
	all[at].answer(w, req, &conversation{r, d})
}

// conversation is a call that is being answered.
type conversation struct {
	*receiver
	*delivery
}

// forget forgets what came, and take returns it.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = nil
}

func (r *receiver) calls() []*delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// await returns the calls when so many have come.
func (r *receiver) await(n int) []*delivery {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if got := r.calls(); len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			r.t.Errorf("of %d calls %d came", n, len(r.calls()))
			return r.calls()
		}
	}
}
