package executions

import (
	"net/http"
	"strings"
	"testing"

	"github.com/writ-id/writ/conformance/harness"
)

// TestKeysAreRotatedWithoutALostCall checks signatures with the old key, both, and the new
// one; each call is checked by all keys that the receiver trusts.
func TestKeysAreRotatedWithoutALostCall(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "rotation")
	at := n.letter("x")
	n.put(in("request.method"), nil, at)
	signatures := func() int {
		t.Helper()
		n.receiver.forget()
		n.spelled()
		return len(strings.Fields(n.receiver.await(1)[0].Header.Get("Webhook-Signature")))
	}
	rotate := func(overlap string) *target {
		t.Helper()
		made := n.must(http.MethodPost, "/resources/v3alpha/targets/"+at.id+"/_rotate_signing_key", map[string]any{"overlap": overlap})
		return &target{at.id, at.name, text(made, "signingKey")}
	}
	if got := signatures(); got != 1 {
		t.Errorf("%d signatures", got)
	}
	next := rotate("3600s") // whose key the receiver does not know: the old one still signs
	if got := signatures(); got != 2 || next.key == at.key {
		t.Errorf("in the overlap: %d signatures", got)
	}
	n.receiver.distrust()
	n.receiver.trust(next)
	if got := signatures(); got != 2 {
		t.Errorf("in the overlap, by the new key: %d signatures", got)
	}
	last := rotate("0s")
	n.receiver.distrust()
	n.receiver.trust(last)
	if got := signatures(); got != 1 {
		t.Errorf("without an overlap: %d signatures", got)
	}
	for _, one := range []*target{at, next, last} {
		if err := harness.RememberSecret(one.key); err != nil {
			t.Error(err)
		}
	}
	if got := n.rest(http.MethodGet, "/resources/v3alpha/targets/"+at.id, nil); !got.OK { // the harness looks for keys in it
		t.Errorf("got %d", got.Status)
	}
}

// TestATargetCanBeTriedByEachCondition sends samples, by each way to answer.
func TestATargetCanBeTriedByEachCondition(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "samples")
	for _, kind := range []string{
		"request.method", "request.service", "request.all", "response.method", "response.service", "response.all",
		"event.event", "event.group", "event.all", "function.preuserinfo", "function.preaccesstoken",
	} {
		at := n.register(kind, webhook, interrupting, n.receiver.at(ways[0], "x"), patient)
		n.receiver.forget()
		got := n.must(http.MethodPost, "/resources/v3alpha/targets/"+at.id+"/_test", in(kind))
		call := n.receiver.await(1)[0]
		if text(got, "requestBody") != call.Body || got["status"] != 200.0 || text(got, "error") != "" || text(got, "callId") != call.Header.Get("Webhook-Id") {
			t.Errorf("%s: got %v, the target %s", kind, got, call.Body)
		}
		members := map[string]string{"request": "request", "response": "response", "event": "event_payload", "function": "userinfo"}
		of, _, _ := strings.Cut(kind, ".")
		if _, there := call.JSON[members[of]]; !there {
			t.Errorf("%s: the sample is %s", kind, call.Body)
		}
	}
	for _, one := range ways {
		timeout := patient
		if one.slow {
			timeout = hasty
		}
		at := n.register(one.name, webhook, waiting, n.receiver.at(one, "x"), timeout)
		got := n.must(http.MethodPost, "/resources/v3alpha/targets/"+at.id+"/_test", in("event.event"))
		if failed := text(got, "error") != ""; failed != one.failure {
			t.Errorf("%s: got %v", one.name, got)
		}
		if strings.Contains(text(got, "error"), "10.0.0.1") {
			t.Errorf("%s: the error names an address: %v", one.name, got)
		}
	}
}
