package execution

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/webhook"
)

// TestSEC221_CallsThatWaitForALongAnswerHoldNoPlace has many calls of an instance wait for the
// places of its long answers, which are taken: all its places among the calls are free.
func TestSEC221_CallsThatWaitForALongAnswerHoldNoPlace(t *testing.T) {
	t.Parallel()
	const share, waiting = 3, 50
	arrived := make(chan struct{}, share+waiting)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		_, _ = w.Write(make([]byte, 300<<10))
	}))
	defer server.Close()
	e := New(Config{
		Caller: &webhook.Caller{Out: outgoing.New(outgoing.Config{Allow: outgoing.Loopback}), Now: time.Now},
		Logger: slog.New(slog.DiscardHandler),
	})
	target := &webhook.Target{InstanceID: "i", ID: "t", URL: server.URL, Timeout: time.Minute, Answers: true, Keys: []webhook.Key{{Secret: []byte("key")}}}
	long := func() (*webhook.Answer, error) {
		return e.wait(t.Context(), target, &webhook.Message{ID: "m", Keep: 1 << 20})
	}
	var kept []*webhook.Answer
	for range share {
		answer, err := long()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, answer)
	}
	var all sync.WaitGroup
	for range waiting {
		all.Go(func() {
			answer, err := long()
			if err != nil || len(answer.Body) != 300<<10 {
				t.Errorf("got %d bytes, %v", len(answer.Body), err)
			}
			answer.Release()
		})
	}
	for range share + waiting {
		<-arrived
	}
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second) // where they hold theirs
	defer cancel()
	const most = maxCalls - maxCalls/4
	for n := range most {
		if err := e.gate.Enter(limit, "i"); err != nil {
			t.Errorf("%d of %d places are free: %v", n, most, err)
			break
		}
		defer e.gate.Leave("i")
	}
	for _, one := range kept {
		one.Release()
	}
	all.Wait()
}
