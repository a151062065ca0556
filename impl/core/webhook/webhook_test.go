package webhook_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/outgoing"
	"github.com/writ-id/writ/impl/core/webhook"
)

// TestASignatureIsThatOfTheSpecification takes the example of the Standard Webhooks
// specification; the suites let its libraries verify calls of the product.
func TestASignatureIsThatOfTheSpecification(t *testing.T) {
	t.Parallel()
	key, err := webhook.ParseKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := webhook.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKeysAreAsLibrariesTakeThem(t *testing.T) {
	t.Parallel()
	made, text := webhook.NewKey()
	if read, err := webhook.ParseKey(text); err != nil || string(read) != string(made) || len(made) != 32 {
		t.Errorf("%s is read as %d bytes, %v", text, len(read), err)
	}
	for _, bad := range []string{"", "whsec_", "whsec_c2hvcnQ=", "whsec_no base64", strings.TrimPrefix(text, "whsec_")} {
		if _, err := webhook.ParseKey(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
}

// called returns what a call of a target with the keys came to, and what it got.
func called(t *testing.T, now time.Time, keys []webhook.Key, timeout time.Duration, handle http.HandlerFunc) (*webhook.Answer, http.Header, error) {
	t.Helper()
	var got atomic.Pointer[http.Header]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(&r.Header)
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	caller := &webhook.Caller{Out: outgoing.New(outgoing.Config{Allow: outgoing.Loopback}), Now: func() time.Time { return now }}
	target := &webhook.Target{InstanceID: "i", ID: "t", URL: server.URL, Timeout: timeout, Keys: keys}
	answer, err := caller.Call(t.Context(), target, &webhook.Message{ID: "m", RequestID: "r", Traceparent: webhook.Traceparent(""), Body: []byte(`{"a":1}`)})
	if header := got.Load(); header != nil {
		return answer, *header, err
	}
	return answer, nil, err
}

func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestBothKeysSignUntilTheOldOneIsOver(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct {
		until time.Time
		want  int
	}{{now.Add(time.Minute), 2}, {now, 1}, {now.Add(-time.Minute), 1}} {
		keys := []webhook.Key{{Secret: []byte("new")}, {Secret: []byte("old"), Until: &test.until}}
		answer, got, err := called(t, now, keys, time.Minute, answering(200, ""))
		if err != nil || answer.Failure() != nil {
			t.Fatalf("%v, %v", err, answer.Failure())
		}
		if n := len(strings.Fields(got.Get("webhook-signature"))); n != test.want {
			t.Errorf("there are %d signatures, want %d", n, test.want)
		}
		for name, want := range map[string]string{"webhook-id": "m", "x-request-id": "r", "writ-instance-id": "i", "content-type": "application/json"} {
			if got.Get(name) != want {
				t.Errorf("%s is %q, want %q", name, got.Get(name), want)
			}
		}
		if answer.Sent.Get("webhook-signature") != "" || answer.Sent.Get("webhook-id") != "m" {
			t.Errorf("what is told of the call has the signature: %v", answer.Sent)
		}
	}
}

func TestNothingIsSentUnsigned(t *testing.T) {
	t.Parallel()
	_, got, err := called(t, time.Now(), nil, time.Minute, answering(200, ""))
	if !errors.Is(err, webhook.ErrNoKey) || got != nil {
		t.Errorf("got %v, and the target got %v", err, got)
	}
}

func TestTheTimeoutEndsHeadAndBody(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]http.HandlerFunc{
		"no head": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no body": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		answer, _, err := called(t, time.Now(), []webhook.Key{{Secret: []byte("k")}}, 50*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			handle(w, r)
		})
		if err == nil || !strings.Contains(err.Error(), "within 50ms") {
			t.Errorf("%s: got %+v, %v", name, answer, err)
		}
	}
}

func TestWhatAnAnswerCountsAs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status    int
		body      string
		good      bool
		forwarded int
	}{
		{200, "", true, 0},
		{204, "", true, 0},
		{299, "no JSON", true, 0},
		{300, "", false, 0},
		{404, "", false, 0},
		{500, `{"forwardedStatusCode":403}`, false, 0},
		{200, `{"forwardedStatusCode":403,"forwardedErrorMessage":"no"}`, false, 403},
		{200, `{"forwardedStatusCode":200}`, false, 200},
		{200, `{"forwarded_error_message":"no","other":{"x":[1]}}`, false, -1},
		{200, `{"forwardedStatusCode":0}`, true, 0},
		{200, `{"forwardedStatusCode":"many"}`, true, 0},
		{201, `{"forwardedStatusCode":403}`, true, 0},
		{200, `[{"forwardedStatusCode":403}]`, true, 0},
	} {
		failure := (&webhook.Answer{Status: test.status, Body: []byte(test.body)}).Failure()
		forwarded, ok := errors.AsType[*webhook.Forwarded](failure)
		if test.good != (failure == nil) || ok != (test.forwarded != 0) || ok && test.forwarded > 0 && forwarded.Status != test.forwarded {
			t.Errorf("%d %s: got %v", test.status, test.body, failure)
		}
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]time.Duration{
		"120": {2 * time.Minute, 2 * time.Minute}, "": {}, "soon": {}, "-1": {},
		time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): {},
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat):  {59 * time.Minute, time.Hour},
	} {
		answer, _, _ := called(t, time.Now(), []webhook.Key{{Secret: []byte("k")}}, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(503)
		})
		if answer.RetryAfter < want[0] || answer.RetryAfter > want[1] {
			t.Errorf("%q: got %s", value, answer.RetryAfter)
		}
	}
}

func TestATraceGoesOn(t *testing.T) {
	t.Parallel()
	incoming := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := webhook.Traceparent(incoming); !strings.HasPrefix(got, "00-0af7651916cd43dd8448eb211c80319c-") || got == incoming || len(got) != 55 {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0AF7651916CD43DD8448EB211C80319C-b7-01", "00-short-b7-01"} {
		if got := webhook.Traceparent(bad); len(got) != 55 || strings.Contains(got, "00000000000000000000000000000000") {
			t.Errorf("%q: got %q", bad, got)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`{"forwardedStatusCode":403,"forwardedErrorMessage":"no"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		failure := (&webhook.Answer{Status: status, Body: body}).Failure()
		if failure == nil && (status < 200 || status > 299) {
			t.Errorf("%d is a success", status)
		}
		if _, ok := errors.AsType[*webhook.Forwarded](failure); ok && !json.Valid(body) {
			t.Errorf("%q forwards", body)
		}
	})
}
