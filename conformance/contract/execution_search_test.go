package contract

import (
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

func idsOf(found []*actionv3.GetExecution) []string {
	list := []string{}
	for _, execution := range found {
		list = append(list, execution.GetDetails().GetId())
	}
	return list
}

// TestSearchExecutions finds by every filter, sorted by creation.
func TestSearchExecutions(t *testing.T) {
	s := newSuite(t)
	x, y := s.create(webhook("x")).GetId(), s.create(webhook("y")).GetId()
	made := []string{}
	for _, execution := range []struct {
		condition         *actionv3.Condition
		targets, includes []string
	}{
		{onService(service), []string{x}, nil},
		{onMethod(create), []string{x, y}, []string{"request." + service}},
		{onAllRequests(), nil, []string{"request." + service, "request." + create}},
		{onMethodResponse(create), []string{y}, nil},
		{onAllResponses(), []string{y, x, y}, []string{"response." + create}},
		{onFunction("preuserinfo"), []string{x}, nil},
		{onEvent("user.human.added"), nil, nil},
		{onGroup("user"), []string{x}, []string{"event.user.human.added"}},
	} {
		made = append(made, s.put(execution.condition, execution.targets, execution.includes).GetId())
	}
	s.put(onService(service), []string{x, y}, nil) // a change does not move it in the order
	const (
		onRequest  = actionv3.ExecutionType_EXECUTION_TYPE_REQUEST
		onResponse = actionv3.ExecutionType_EXECUTION_TYPE_RESPONSE
		onEvents   = actionv3.ExecutionType_EXECUTION_TYPE_EVENT
		onFunc     = actionv3.ExecutionType_EXECUTION_TYPE_FUNCTION
	)
	for _, test := range []struct {
		name    string
		filters []*actionv3.ExecutionSearchFilter
		want    []string // in the order of creation
	}{
		{"no filter finds all", nil, made},
		{"by type: request", []*actionv3.ExecutionSearchFilter{byType(onRequest)}, made[:3]},
		{"by type: response", []*actionv3.ExecutionSearchFilter{byType(onResponse)}, made[3:5]},
		{"by type: function", []*actionv3.ExecutionSearchFilter{byType(onFunc)}, made[5:6]},
		{"by type: event", []*actionv3.ExecutionSearchFilter{byType(onEvents)}, made[6:]},
		{"by two types", []*actionv3.ExecutionSearchFilter{byType(onEvents), byType(onRequest)}, nil},
		{"by a type twice", []*actionv3.ExecutionSearchFilter{byType(onFunc), byType(onFunc)}, made[5:6]},
		{"by conditions", []*actionv3.ExecutionSearchFilter{byConditions(onFunction("preuserinfo"), onService(service))}, []string{made[0], made[5]}},
		{"by a group in either spelling", []*actionv3.ExecutionSearchFilter{byConditions(onGroup("user.*"))}, made[7:]},
		{"by conditions of which one has no execution", []*actionv3.ExecutionSearchFilter{byConditions(onAllEvents(), onAllRequests())}, made[2:3]},
		{"by a condition that names nothing", []*actionv3.ExecutionSearchFilter{byConditions(onMethod("/a.B/C"))}, nil},
		{"by no condition", []*actionv3.ExecutionSearchFilter{byConditions()}, nil},
		{"by two lists of conditions", []*actionv3.ExecutionSearchFilter{byConditions(onAllRequests(), onService(service)), byConditions(onService(service))}, made[:1]},
		{"by target", []*actionv3.ExecutionSearchFilter{byTarget(y)}, []string{made[0], made[1], made[3], made[4]}},
		{"by two targets", []*actionv3.ExecutionSearchFilter{byTarget(x), byTarget(y)}, []string{made[0], made[1], made[4]}},
		{"by a target twice", []*actionv3.ExecutionSearchFilter{byTarget(x), byTarget(x)}, []string{made[0], made[1], made[4], made[5], made[7]}},
		{"by an unknown target", []*actionv3.ExecutionSearchFilter{byTarget("unknown")}, nil},
		{"by include", []*actionv3.ExecutionSearchFilter{byInclude("request." + service)}, made[1:3]},
		{"by two includes", []*actionv3.ExecutionSearchFilter{byInclude("request." + service), byInclude("request." + create)}, made[2:3]},
		{"by an unknown include", []*actionv3.ExecutionSearchFilter{byInclude("unknown")}, nil},
		{"by type and target", []*actionv3.ExecutionSearchFilter{byType(onRequest), byTarget(x)}, made[:2]},
		{"by all kinds at once", []*actionv3.ExecutionSearchFilter{
			byType(onRequest), byTarget(x), byInclude("request." + service), byConditions(onMethod(create), onAllRequests()),
		}, made[1:2]},
		{"by all kinds at once, one unmet", []*actionv3.ExecutionSearchFilter{
			byType(onResponse), byTarget(x), byInclude("request." + service), byConditions(onMethod(create)),
		}, nil},
	} {
		for _, asc := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s asc=%t", test.name, asc), func(t *testing.T) {
				s := s.in(t)
				want := append([]string{}, test.want...)
				if !asc {
					slices.Reverse(want)
				}
				got := []string{}
				for offset := 0; ; offset += 2 {
					found := must[*actionv3.SearchExecutionsResponse](s, &actionv3.SearchExecutionsRequest{
						Query: &object.ListQuery{Offset: uint64(offset), Limit: 2, Asc: asc}, Filters: test.filters,
					})
					got = append(got, idsOf(found.GetResult())...)
					details := found.GetDetails()
					if details.GetTotalResult() != uint64(len(want)) || details.GetAppliedLimit() != 2 || details.GetEndOfList() != (offset+2 >= len(want)) {
						t.Errorf("offset %d: got details %v, want a total of %d", offset, details, len(want))
					}
					if details.GetEndOfList() || offset > len(made) {
						break
					}
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
	t.Run("past the end the total is right", func(t *testing.T) {
		found := must[*actionv3.SearchExecutionsResponse](s.in(t), &actionv3.SearchExecutionsRequest{Query: &object.ListQuery{Offset: 50}})
		if details := found.GetDetails(); len(found.GetResult()) != 0 || !details.GetEndOfList() || details.GetTotalResult() != uint64(len(made)) || details.GetAppliedLimit() != 100 {
			t.Errorf("got %v, want nothing of %d and the end of the list", found, len(made))
		}
	})
	t.Run("what is found is whole", func(t *testing.T) {
		s := s.in(t)
		got := s.execution(onAllResponses())
		s.checkDetails(got.GetDetails())
		if execution := got.GetExecution(); !slices.Equal(execution.GetTargets(), []string{y, x, y}) || !slices.Equal(execution.GetIncludes(), []string{"response." + create}) {
			t.Errorf("got %v", execution)
		}
	})
}
