package contract

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// everyFeature switches all features on, for as long as the test runs.
func (s *suite) everyFeature() {
	s.t.Helper()
	s.restoreFeatures()
	on := &featurev2.SetFeatures{}
	fields := on.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		on.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfBool(true))
	}
	must[*featurev2.SetInstanceFeaturesResponse](s, &featurev2.SetInstanceFeaturesRequest{Features: on})
}

// alike makes a call on each transport and fails the test unless all are
// answered alike: with the same refusal, or all with an answer.
func (s *suite) alike(transports []transport, token string, req proto.Message) outcome {
	s.t.Helper()
	var first outcome
	for i, over := range transports {
		got := over.call(s.t, s.t.Context(), token, req)
		if i == 0 {
			first = got
		} else if (first.refusal == nil) != (got.refusal == nil) || !proto.Equal(first.refusal, got.refusal) {
			s.t.Errorf("got %s over %s and %s over %s", first, transports[0].name(), got, over.name())
		}
	}
	return first
}

// unknownContext returns req in a context that does not exist, or nil where an
// operation takes none.
func unknownContext(op *operation, req proto.Message) proto.Message {
	field := op.method.Input().Fields().ByName("ctx")
	if field == nil || field.Message().FullName() != (&object.RequestContext{}).ProtoReflect().Descriptor().FullName() {
		return nil
	}
	levels := op.policy().GetLevels()
	ctx := instanceByID("unknown")
	if len(levels) > 0 && !slices.Contains(levels, policyv1.Level_LEVEL_INSTANCE) {
		if !slices.Contains(levels, policyv1.Level_LEVEL_ORG) {
			return nil
		}
		ctx = &object.RequestContext{Owner: &object.RequestContext_OrgId{OrgId: "unknown"}}
	}
	req = proto.Clone(req)
	req.ProtoReflect().Set(field, protoreflect.ValueOfMessage(ctx.ProtoReflect()))
	return req
}

// TestSEC230_EveryOperationRefusesAndAnswersAlike asks each operation of the
// contract, on each transport: without a token, as who has no role, for what
// does not exist, in a context that does not exist. The request is the published
// example; what an operation does when it succeeds is for the tests of its
// service.
func TestSEC230_EveryOperationRefusesAndAnswersAlike(t *testing.T) {
	all := newSuite(t)
	all.everyFeature()
	for _, op := range sortedOperations() {
		t.Run(string(op.method.Name()), func(t *testing.T) {
			s := all.in(t)
			req, err := example(t, s.Server, op)
			s.writesNothing(func() {
				if err == nil {
					s.refusesAndAnswersAlike(op, req)
				} else if got := s.alike(s.transports[1:6], "", op.question()); got.code() != codes.Unauthenticated { // REST asks for a path first
					t.Errorf("without a token: got %s, want Unauthenticated", got)
				}
			})
			if err != nil {
				t.Skipf("only asked without a token, because no valid request is known: %v", err)
			}
		})
	}
}

func (s *suite) refusesAndAnswersAlike(op *operation, req proto.Message) {
	s.t.Helper()
	expect := func(who string, got outcome, statuses ...int) {
		s.t.Helper()
		if got.refusal == nil || !slices.Contains(statuses, got.http) || got.reason() == "INVALID_FIELD" {
			s.t.Errorf("%s: got %s, want HTTP %v", who, got, statuses)
		}
	}
	expect("without a token", s.alike(s.transports, "", req), 401)
	rule := op.rule()
	switch own := len(rule.variables) == 0 && op.policy().GetSelf(); {
	case op.policy().GetPermission() == "":
	case !own:
		expect("without a role", s.alike(s.transports, s.NobodyToken, req), 403, 404)
	case reads(op): // what belongs to who asks may be found
		s.alike(s.transports, s.NobodyToken, req)
	}
	if elsewhere := unknownContext(op, req); elsewhere != nil {
		got := s.alike(s.transports, s.AdminToken, elsewhere)
		expect("in an unknown context", got, 404)
		s.refused(got, "CONTEXT_NOT_FOUND", "")
	}
	switch {
	case len(rule.variables) > 0 && slices.Contains(op.policy().GetRefusals(), policyv1.Refusal_REFUSAL_NOT_FOUND):
		// 403 is for who may not know, 400 for a caller without such a thing.
		expect("for an unknown ID", s.alike(s.transports, s.AdminToken, req), 400, 403, 404)
	case reads(op):
		s.alike(s.transports, s.AdminToken, req)
	}
}

// reads reports whether an operation changes nothing.
func reads(op *operation) bool {
	rule := op.rule()
	return rule.verb == http.MethodGet || strings.HasSuffix(rule.pattern, "/_search")
}
