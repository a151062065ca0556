package executions

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// Times that targets may take: so long that nothing waits for it, and so short that
// nobody waits long for it.
const (
	patient = "60s"
	hasty   = "0.060s"
)

// TestRequestsAndResponses goes through condition × transport × target type × execution
// type × way to answer.
func TestRequestsAndResponses(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"request.method", "request.service", "request.all", "response.method", "response.service", "response.all"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t, strings.ReplaceAll(kind, ".", "-"))
			before := strings.HasPrefix(kind, "request")
			cells := 0
			for _, of := range []string{webhook, answering} {
				for _, exec := range []string{waiting, async, interrupting} {
					for _, one := range ways {
						timeout := patient
						if one.slow {
							timeout = hasty
						}
						at := n.register(fmt.Sprintf("%s, %s, %s", of, exec, one.name), of, exec, n.receiver.at(one, "x"), timeout)
						n.put(in(kind), nil, at)
						for _, transport := range transports {
							// A call that the server gives up at once may not even have come, on a busy
							// machine: then the cell is tried again.
							for tries := 1; !n.cell(cellOf{kind, transport, of, exec, before, one}, at, cells); tries++ {
								if tries == 100 {
									t.Fatalf("of %d slow calls none came", tries)
								}
								cells++
							}
							cells++
						}
					}
				}
			}
			t.Logf("%d cells", cells)
		})
	}
}

type cellOf struct {
	kind, transport, of, exec string
	before                    bool
	way                       *way
}

// cell holds one cell of the matrix to the model. It reports false when the target, which
// answers too late, was not called before the server gave up.
func (n *tenant) cell(c cellOf, at *target, number int) bool {
	n.Helper()
	what := fmt.Sprintf("%s, %s, %s, %q, %s", c.kind, c.transport, c.of, c.exec, c.way.name)
	n.receiver.forget()
	was, name := n.name(), fmt.Sprint("name ", number)
	got := n.rename(c.transport, name)
	want := expect(c.before, c.of, c.exec, c.way)
	if got.OK == want.refused {
		n.Errorf("%s: got %+v, want %+v", what, got, want)
	}
	if want.refused {
		n.refusal(what, c.transport, got, want, at)
	}
	// What was done.
	left := name
	switch {
	case !want.done:
		left = was
	case want.changed && c.before:
		left = called
	}
	is := n.name()
	switch {
	case is != left:
		n.Errorf("%s: the project was %q and is %q, want %q", what, was, is, left)
	case !want.refused && !c.before && want.changed != (got.ID == called), !want.refused && !want.changed && got.ID != n.project:
		n.Errorf("%s: the answer is about %q", what, got.ID)
	}
	// Who was told.
	if c.way.silent {
		return true
	}
	for waited := 0; c.way.slow && len(n.receiver.calls()) == 0; waited++ {
		if c.exec != async || waited == 5000 {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	calls := n.receiver.await(1 + c.way.hops)
	told := calls[0].JSON
	request, _ := told["request"].(map[string]any)
	project, _ := request["project"].(map[string]any)
	if told["fullMethod"] != patchProject || told["instanceID"] != n.id || told["orgID"] != n.org || told["userID"] != n.own ||
		request["id"] != n.project || project["name"] != name || (told["response"] == nil) != c.before {
		n.Errorf("%s: the target was told %s", what, calls[0].Body)
	}
	if len(calls) != 1+c.way.hops {
		n.Errorf("%s: it was called %d times", what, len(calls))
	}
	return true
}

// refusal checks how a call is refused.
func (n *tenant) refusal(what, transport string, got *outcome, want expected, at *target) {
	n.Helper()
	code := int(codes.FailedPrecondition)
	if want.forwarded != 0 {
		if transport == "REST" && got.Status != want.forwarded || got.Message != forwarded || transport != "REST" && got.Code == 0 {
			n.Errorf("%s: got %+v, want the refusal of the target", what, got)
		}
		return
	}
	reason := ""
	if details, _ := got.Body["details"].([]any); len(details) > 0 {
		first, _ := details[0].(map[string]any)
		reason = text(first, "reason")
	}
	failed := "EXECUTION_FAILED"
	if want.done { // so that no client does it again
		failed += "_AFTER_CALL"
	}
	if got.Code != code || !strings.Contains(got.Message, at.id) || transport == "REST" && (got.Status != http.StatusBadRequest || reason != failed) {
		n.Errorf("%s: got %+v (%s), want %s naming %s", what, got, reason, failed, at.id)
	}
}
