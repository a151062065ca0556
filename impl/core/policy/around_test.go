package policy

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/fault"
)

// TestSEC291_AnswersOfTargetsAreCheckedUpToTheFirstRule has targets answer with many elements,
// each of which breaks rules. Nobody has them explained, so the check ends at the first one.
func TestSEC291_AnswersOfTargetsAreCheckedUpToTheFirstRule(t *testing.T) { //nolint:paralleltest // it counts allocations
	v, err := NewValidator(allOperations(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &Chain{Config: Config{Rules: v, Limits: SearchLimits{}.OrDefault()}}
	call := &Call{Operation: &Operation{}, Instance: &Instance{}, Caller: &Caller{}, request: &Request{}}
	for name, road := range map[string]struct {
		answer func(n int) proto.Message
		around func(answer proto.Message, note func(error)) *Around
	}{
		"request": {
			func(n int) proto.Message {
				req := &actionv3.SearchTargetsRequest{}
				for range n {
					req.Filters = append(req.Filters, &actionv3.TargetSearchFilter{})
				}
				return req
			},
			func(answer proto.Message, note func(error)) *Around {
				return &Around{Request: func(_ context.Context, _ *Call, _ proto.Message, check func(proto.Message) error) (proto.Message, error) {
					err := check(answer)
					note(err)
					return nil, err
				}}
			},
		},
		"response": {
			func(n int) proto.Message {
				res := &actionv3.SearchTargetsResponse{}
				for range n {
					res.Result = append(res.Result, &actionv3.GetTarget{})
				}
				return res
			},
			func(answer proto.Message, note func(error)) *Around {
				return &Around{Response: func(_ context.Context, _ *Call, _, _ proto.Message, check func(proto.Message) error) (proto.Message, error) {
					err := check(answer)
					note(err)
					return nil, err
				}}
			},
		},
	} {
		cost := func(answer proto.Message) uint64 {
			around := road.around(answer, func(err error) {
				if refusal, ok := errors.AsType[*fault.Error](err); !ok || len(refusal.Fields) != 1 {
					t.Errorf("%s: got %.200v, want one rule that it breaks", name, err)
				}
			})
			around.Limit = time.Minute
			return allocated(func() {
				_, _ = c.runAround(t.Context(), call, around, &actionv3.SearchTargetsRequest{}, func(context.Context, any) (any, error) { return &actionv3.SearchTargetsResponse{}, nil })
			})
		}
		wide := road.answer(100_000)
		few, many, walked := cost(road.answer(2)), cost(wide), allocated(func() { _, _ = checkWire(wide.ProtoReflect()) })
		if many > few+walked+1<<20 {
			t.Errorf("%s: to check many elements makes %d bytes, two make %d, and to look at the many makes %d", name, many, few, walked)
		}
		t.Logf("%s: %d bytes for two elements, %d for many, %d to look at them", name, few, many, walked)
	}
}

// TestSEC221_AnAnswerOfATargetWaitsForNoPlace has others take all places while a response
// target is asked: the call is done, and its long answer would be in memory meanwhile.
func TestSEC221_AnAnswerOfATargetWaitsForNoPlace(t *testing.T) {
	t.Parallel()
	c := &Chain{}
	gate := admission.New(2, 10)
	for _, side := range []string{"request", "response"} {
		request := &Request{place: place{gate: gate, tenant: "i"}}
		if err := request.place.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		call := &Call{Operation: &Operation{}, Instance: &Instance{}, Caller: &Caller{}, request: request}
		around := &Around{Limit: time.Minute}
		take := func(message proto.Message) (proto.Message, error) { return message, gate.Enter(t.Context(), "i") }
		if side == "request" {
			around.Request = func(_ context.Context, _ *Call, req proto.Message, _ func(proto.Message) error) (proto.Message, error) {
				return take(req)
			}
		} else {
			around.Response = func(_ context.Context, _ *Call, _, res proto.Message, _ func(proto.Message) error) (proto.Message, error) {
				return take(res)
			}
		}
		_, err := c.runAround(t.Context(), call, around, &actionv3.SearchTargetsRequest{}, func(context.Context, any) (any, error) { return &actionv3.SearchTargetsResponse{}, nil })
		if refused := err != nil; refused != (side == "request") {
			t.Errorf("%s: got %v", side, err)
		}
		request.place.leave()
		gate.Leave("i")
	}
	if !gate.Try("i") {
		t.Error("a place was lost")
	}
}
