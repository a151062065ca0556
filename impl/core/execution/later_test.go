package execution

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/webhook"
)

// TestSEC293_CallsThatNobodyWaitsForTakeSoMuchMemory starts more of them than there is
// memory for, at a target that does not answer.
func TestSEC293_CallsThatNobodyWaitsForTakeSoMuchMemory(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	var arrived atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived.Add(1)
		<-free
	}))
	defer server.Close()
	e := New(Config{
		Caller: &webhook.Caller{Out: outgoing.New(outgoing.Config{Allow: outgoing.Loopback}), Now: time.Now},
		Logger: slog.New(slog.DiscardHandler),
	})
	target := &webhook.Target{InstanceID: "i", ID: "t", URL: server.URL, Timeout: time.Minute, Async: true, Keys: []webhook.Key{{Secret: []byte("key")}}}
	run := &Run{ID: "request", Targets: []*webhook.Target{target}, engine: e}
	for range 80 {
		e.startLater(run, target, &webhook.Message{ID: "m", Body: make([]byte, 1<<20)})
	}
	if n := e.unsent.Load(); n != maxUnsent {
		t.Errorf("%d bytes wait, want %d", n, maxUnsent)
	}
	close(free)
	e.Drain(t.Context())
	if n := arrived.Load(); n != maxUnsent>>20 || e.unsent.Load() != 0 {
		t.Errorf("%d of 80 calls were made, and %d bytes are left", n, e.unsent.Load())
	}
}
