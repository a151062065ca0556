// Package contract holds a server to its published contract: every operation on
// REST, gRPC and gRPC-web, every rule of document 1, every refusal.
//
// The tests share one server and run one after the other: what they check
// (totals, the newest event, which conditions have an execution, whether a
// feature is on) belongs to the whole instance. A test empties the instance
// when it starts, so what another left behind cannot matter.
package contract

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"

	"github.com/writ-id/writ/conformance/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, checkDistribution, checkInvariants, checkCatalogue, checkCases)
}

// suite is one test's view of the server.
type suite struct {
	*harness.Server
	t          *testing.T
	transports []transport // REST first
}

// newSuite returns the shared server, emptied, with its features as seeded.
func newSuite(t *testing.T) *suite {
	t.Helper()
	s := suiteOf(t, harness.Shared(t))
	s.empty()
	return s
}

// suiteOf returns a view of a server as it is.
func suiteOf(t *testing.T, server *harness.Server) *suite {
	t.Helper()
	return &suite{Server: server, t: t, transports: newTransports(t, server)}
}

// in returns the view of a sub-test.
func (s *suite) in(t *testing.T) *suite {
	sub := *s
	sub.t = t
	return &sub
}

// try makes a call as the administrator on the REST transport.
func (s *suite) try(req proto.Message) outcome {
	s.t.Helper()
	return s.transports[0].call(s.t, s.t.Context(), s.AdminToken, req)
}

// must is try for a call that has to succeed.
func must[Res proto.Message](s *suite, req proto.Message) Res {
	s.t.Helper()
	got := s.try(req)
	if got.refusal != nil {
		s.t.Fatalf("%s: %s", req.ProtoReflect().Descriptor().Name(), got)
	}
	return got.message.(Res)
}

// anyField stands for a field that is not foreseeable.
const anyField = "*"

// refused fails the test unless got is this refusal. The field is the one that
// is blamed, "" for none; what has to be in the message.
func (s *suite) refused(got outcome, reason, field string, what ...string) {
	s.t.Helper()
	if got.refusal == nil {
		s.t.Errorf("got %s, want the refusal %s", got, reason)
		return
	}
	if got.reason() != reason || field != anyField && got.field() != field {
		s.t.Errorf("got %s at %q, want %s at %q: %s", got.reason(), got.field(), reason, field, got)
	}
	for _, part := range what {
		if !strings.Contains(got.refusal.GetMessage(), part) {
			s.t.Errorf("the message %q does not name %q", got.refusal.GetMessage(), part)
		}
	}
}

// empty deletes all targets and executions and switches the features on.
func (s *suite) empty() {
	s.t.Helper()
	on := true
	must[*featurev2.SetInstanceFeaturesResponse](s, &featurev2.SetInstanceFeaturesRequest{
		Features: &featurev2.SetFeatures{MultitenancyResourcesApi: &on, MultitenancySettings: &on},
	})
	for {
		found := must[*actionv3.SearchExecutionsResponse](s, &actionv3.SearchExecutionsRequest{})
		for _, execution := range found.GetResult() {
			must[*actionv3.DeleteExecutionResponse](s, &actionv3.DeleteExecutionRequest{Id: execution.GetDetails().GetId()})
		}
		if found.GetDetails().GetEndOfList() {
			break
		}
	}
	for {
		found := must[*actionv3.SearchTargetsResponse](s, &actionv3.SearchTargetsRequest{Query: &object.ListQuery{Limit: 1000}})
		for _, target := range found.GetResult() {
			must[*actionv3.DeleteTargetResponse](s, &actionv3.DeleteTargetRequest{Id: target.GetDetails().GetId()})
		}
		if found.GetDetails().GetEndOfList() {
			break
		}
	}
}

// state is what every write changes.
type state struct {
	targets, executions, newest uint64
}

// state reads it.
func (s *suite) state() state {
	s.t.Helper()
	targets := must[*actionv3.SearchTargetsResponse](s, &actionv3.SearchTargetsRequest{Query: &object.ListQuery{Limit: 1}})
	executions := must[*actionv3.SearchExecutionsResponse](s, &actionv3.SearchExecutionsRequest{Query: &object.ListQuery{Limit: 1}})
	return state{
		targets.GetDetails().GetTotalResult(), executions.GetDetails().GetTotalResult(), executions.GetDetails().GetProcessedSequence(),
	}
}

// writesNothing fails the test if call changes anything.
func (s *suite) writesNothing(call func()) {
	s.t.Helper()
	before := s.state()
	call()
	if after := s.state(); after != before {
		s.t.Errorf("a refused call wrote: before %+v, after %+v", before, after)
	}
}

// rememberSecret makes the test that sees value in any later answer fail
// (SEC-059). Those of the operations allowed, by gRPC path, may show it; what
// created it was answered before.
func (s *suite) rememberSecret(value string, allowed ...string) {
	s.t.Helper()
	if err := harness.RememberSecret(value, allowed...); err != nil {
		s.t.Error(err)
	}
}

// wrong returns a context for requests that break the contract on purpose.
func (s *suite) wrong() context.Context { return harness.WrongOnPurpose(s.t.Context()) }
