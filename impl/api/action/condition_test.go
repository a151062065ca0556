package action

import (
	"testing"

	"google.golang.org/protobuf/proto"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
)

func request(c *actionv3.RequestExecution) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Request{Request: c}}
}

func response(c *actionv3.ResponseExecution) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Response{Response: c}}
}

func onEventOf(c *actionv3.EventExecution) *actionv3.Condition {
	return &actionv3.Condition{ConditionType: &actionv3.Condition_Event{Event: c}}
}

// TestExecutionIDIsTheCondition walks every kind of condition there and back.
func TestExecutionIDIsTheCondition(t *testing.T) {
	t.Parallel()
	for id, condition := range map[string]*actionv3.Condition{
		"request./pkg.Service/Method": request(&actionv3.RequestExecution{Condition: &actionv3.RequestExecution_Method{Method: "/pkg.Service/Method"}}),
		"request.pkg.Service":         request(&actionv3.RequestExecution{Condition: &actionv3.RequestExecution_Service{Service: "pkg.Service"}}),
		"request":                     request(&actionv3.RequestExecution{Condition: &actionv3.RequestExecution_All{All: true}}),
		"response./p.S/M":             response(&actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_Method{Method: "/p.S/M"}}),
		"response.p.S":                response(&actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_Service{Service: "p.S"}}),
		"response":                    response(&actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_All{All: true}}),
		"function.preuserinfo":        {ConditionType: &actionv3.Condition_Function{Function: "preuserinfo"}},
		"event.user.human.added":      onEventOf(&actionv3.EventExecution{Condition: &actionv3.EventExecution_Event{Event: "user.human.added"}}),
		"event.user.*":                onEventOf(&actionv3.EventExecution{Condition: &actionv3.EventExecution_Group{Group: "user"}}),
		"event":                       onEventOf(&actionv3.EventExecution{Condition: &actionv3.EventExecution_All{All: true}}),
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			if got := executionID(condition); got != id {
				t.Errorf("executionID: got %q, want %q", got, id)
			}
			if got := conditionOf(id); !proto.Equal(got, condition) {
				t.Errorf("conditionOf: got %v, want %v", got, condition)
			}
		})
	}
}

func TestAGroupIsOneGroupHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	group := func(name string) string {
		return executionID(onEventOf(&actionv3.EventExecution{Condition: &actionv3.EventExecution_Group{Group: name}}))
	}
	if a, b := group("user"), group("user.*"); a != b {
		t.Errorf("got %q and %q, want one ID", a, b)
	}
}
