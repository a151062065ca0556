package contract

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// wrong is one input that breaks the contract, and how it is refused. It is
// written as far up as it can be: as a request, for all transports; as an HTTP
// request, for REST; as the bytes of a message, for gRPC and gRPC-web.
type wrong struct {
	name string

	req  proto.Message
	http *httpInput
	wire *wireInput

	status int        // of HTTP; 0 is 400
	code   codes.Code // 0 is InvalidArgument
	reason string
	field  string // the field that is blamed
	named  string // what the message has to name
}

// TestWrongInput sends everything that is wrong and expects the refusal of the
// contract, in its shape, and nothing written.
func TestWrongInput(t *testing.T) {
	all := newSuite(t)
	// Something that a wrong write could change.
	target := all.create(webhook("there before")).GetId()
	all.put(onMethod(create), []string{target}, nil)
	for _, table := range []struct {
		name string
		rows []wrong
	}{
		{"requests", wrongRequests(target)}, {"JSON", wrongJSON()}, {"paths and queries", wrongPaths(target)},
		{"HTTP", wrongHTTP(target)}, {"protobuf", wrongWire()},
	} {
		for _, row := range table.rows {
			t.Run(table.name+"/"+row.name, func(t *testing.T) {
				s := all.in(t)
				var first *outcome
				for _, got := range s.sendWrong(row) {
					s.checkWrong(row, got)
					// All transports refuse alike.
					if first == nil {
						first = &got
					} else if got.refusal != nil && !proto.Equal(first.refusal, got.refusal) {
						t.Errorf("got %s on one transport and %s on another", first, got)
					}
				}
			})
		}
	}
}

// sendWrong sends a row on every transport that can carry it.
func (s *suite) sendWrong(row wrong) (outcomes []outcome) {
	s.t.Helper()
	send := func(call func() outcome) {
		s.writesNothing(func() { outcomes = append(outcomes, call()) })
	}
	switch {
	case row.req != nil:
		for _, over := range s.transports[1:] { // the generated REST client cannot say all of it
			send(func() outcome { return over.call(s.t, s.wrong(), s.AdminToken, row.req) })
		}
	case row.http != nil:
		send(func() outcome { return s.sendHTTP(operationOf(&actionv3.GetTargetRequest{}), row.http) }) // no answer is expected
	default:
		for _, call := range s.wireCalls(row.wire) {
			send(call)
		}
	}
	return outcomes
}

func (s *suite) checkWrong(row wrong, got outcome) {
	s.t.Helper()
	code, status := row.code, row.status
	if code == 0 {
		code = codes.InvalidArgument
	}
	if status == 0 {
		status = http.StatusBadRequest
	}
	if got.refusal == nil || got.code() != code || got.http != 0 && got.http != status {
		s.t.Errorf("got %s, want HTTP %d, %s", got, status, code)
		return
	}
	s.refused(got, row.reason, row.field)
	if !strings.Contains(got.refusal.GetMessage(), row.named) {
		s.t.Errorf("%q does not name %q", got.refusal.GetMessage(), row.named)
	}
}

// wrongRequests are well-formed requests that break a rule of the contract.
func wrongRequests(target string) []wrong {
	changed := func(change func(*actionv3.Target)) proto.Message {
		target := webhook("wrong")
		change(target)
		return &actionv3.CreateTargetRequest{Target: target}
	}
	patched := func(patch *actionv3.PatchTarget) proto.Message {
		return &actionv3.PatchTargetRequest{Id: target, Target: patch}
	}
	hook := func(url string) proto.Message {
		return changed(func(t *actionv3.Target) { t.GetRestWebhook().Url = url })
	}
	targets := func(filters ...*actionv3.TargetSearchFilter) proto.Message {
		return &actionv3.SearchTargetsRequest{Filters: filters}
	}
	executions := func(filters ...*actionv3.ExecutionSearchFilter) proto.Message {
		return &actionv3.SearchExecutionsRequest{Filters: filters}
	}
	put := func(c *actionv3.Condition, targets, includes []string) proto.Message {
		return putRequest(c, targets, includes)
	}
	long := func(length int) string { return strings.Repeat("a", length) }
	many := func(n int) []string { return strings.Split(strings.Repeat("a,", n-1)+"a", ",") }
	condition := func(r *actionv3.RequestExecution) *actionv3.Condition {
		return &actionv3.Condition{ConditionType: &actionv3.Condition_Request{Request: r}}
	}
	const invalid = "INVALID_FIELD"
	rows := []wrong{
		{name: "no type", req: changed(func(t *actionv3.Target) { t.TargetType = nil }), reason: invalid, field: "target"},
		{name: "a name of 201", req: changed(func(t *actionv3.Target) { t.Name = long(201) }), reason: invalid, field: "target.name"},
		{name: "a name of 201 runes", req: changed(func(t *actionv3.Target) { t.Name = strings.Repeat("ü", 201) }), reason: invalid, field: "target.name"},
		{name: "an empty name", req: changed(func(t *actionv3.Target) { t.Name = "" }), reason: invalid, field: "target.name"},
		{name: "a NUL in a name", req: changed(func(t *actionv3.Target) { t.Name = "a\x00b" }), reason: "INVALID_TEXT", field: "target.name"},
		{name: "no timeout", req: changed(func(t *actionv3.Target) { t.Timeout = nil }), reason: invalid, field: "target.timeout"},
		{name: "a timeout of nothing", req: changed(func(t *actionv3.Target) { t.Timeout = durationpb.New(0) }), reason: invalid, field: "target.timeout"},
		{name: "a negative timeout", req: changed(func(t *actionv3.Target) { t.Timeout = durationpb.New(-time.Second) }), reason: invalid, field: "target.timeout"},
		{name: "a timeout of 271s", req: changed(func(t *actionv3.Target) { t.Timeout = durationpb.New(271 * time.Second) }), reason: invalid, field: "target.timeout"},
		{name: "a timeout of ten thousand years", req: changed(func(t *actionv3.Target) { t.Timeout = &durationpb.Duration{Seconds: 315_576_000_000} }), reason: invalid, field: "target.timeout"},

		{name: "a URL of 1001", req: hook("https://a.example/" + long(1001-18)), reason: invalid, field: "target.restWebhook.url"},
		{name: "an empty URL", req: hook(""), reason: invalid, field: "target.restWebhook.url"},
		{name: "a URL that is a word", req: hook("hooks"), reason: invalid, field: "target.restWebhook.url"},
		{name: "a URL without a scheme", req: hook("//hooks.example/a"), reason: invalid, field: "target.restWebhook.url"},
		{name: "a URL with a space", req: hook("https://hooks.example/a b"), reason: invalid, field: "target.restWebhook.url"},
		{name: "a URL with a broken escape", req: hook("https://hooks.example/%zz"), reason: invalid, field: "target.restWebhook.url"},
		{name: "a NUL in a URL", req: hook("https://hooks.example/\x00"), reason: "INVALID_TEXT", field: "target.restWebhook.url"},
		{name: "a wrong URL of the other type", req: changed(func(t *actionv3.Target) {
			t.TargetType = &actionv3.Target_RestRequestResponse{RestRequestResponse: &actionv3.RestRequestResponse{Url: "hooks"}}
		}), reason: invalid, field: "target.restRequestResponse.url"},

		{name: "a patch to an empty name", req: patched(&actionv3.PatchTarget{Name: ptr("")}), reason: invalid, field: "target.name"},
		{name: "a patch to a name of 201", req: patched(&actionv3.PatchTarget{Name: ptr(long(201))}), reason: invalid, field: "target.name"},
		{name: "a patch to no time", req: patched(&actionv3.PatchTarget{Timeout: durationpb.New(0)}), reason: invalid, field: "target.timeout"},
		{name: "a patch to a wrong URL", req: patched(&actionv3.PatchTarget{
			TargetType: &actionv3.PatchTarget_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: "hooks"}},
		}), reason: invalid, field: "target.restWebhook.url"},
		{name: "a patch of a target with an ID of 201", req: &actionv3.PatchTargetRequest{Id: long(201), Target: &actionv3.PatchTarget{}}, reason: invalid, field: "id"},

		{name: "an ID of 201", req: &actionv3.GetTargetRequest{Id: long(201)}, reason: invalid, field: "id"},
		{name: "an ID of 201 runes", req: &actionv3.GetTargetRequest{Id: strings.Repeat("日", 201)}, reason: invalid, field: "id"},
		{name: "an ID of 201 to delete", req: &actionv3.DeleteTargetRequest{Id: long(201)}, reason: invalid, field: "id"},
		{name: "an execution's ID of 201 to delete", req: &actionv3.DeleteExecutionRequest{Id: long(201)}, reason: invalid, field: "id"},
		{name: "a NUL in an ID", req: &actionv3.GetTargetRequest{Id: "a\x00"}, reason: "INVALID_TEXT", field: "id"},
		{name: "a NUL in an execution's ID", req: &actionv3.DeleteExecutionRequest{Id: "\x00"}, reason: "INVALID_TEXT", field: "id"},

		{name: "a limit of 1001", req: &actionv3.SearchTargetsRequest{Query: &object.ListQuery{Limit: 1001}}, reason: invalid, field: "query.limit"},
		{name: "the largest limit of its type", req: &actionv3.SearchExecutionsRequest{Query: &object.ListQuery{Limit: math.MaxUint32}}, reason: invalid, field: "query.limit"},

		{name: "an empty filter", req: targets(&actionv3.TargetSearchFilter{}), reason: invalid, field: "filters[0]"},
		{name: "an empty filter behind a good one", req: targets(byIDs("a"), &actionv3.TargetSearchFilter{}), reason: invalid, field: "filters[1]"},
		{name: "a name filter of 201", req: targets(byName(long(201), 0)), reason: invalid, field: "filters[0].name.name"},
		{name: "a NUL in a name filter", req: targets(byName("\x00", 0)), reason: "INVALID_TEXT", field: "filters[0].name.name"},
		{name: "an unknown method of comparison", req: targets(byName("a", 8)), reason: invalid, field: "filters[0].name.method"},
		{name: "a negative method of comparison", req: targets(byName("a", -1)), reason: invalid, field: "filters[0].name.method"},
		{name: "an ID of 201 in a filter", req: targets(byIDs("a", long(201))), reason: invalid, field: "filters[0].inIds.ids[1]"},
		{name: "an empty ID in a filter", req: targets(byIDs("")), reason: invalid, field: "filters[0].inIds.ids[0]"},
		{name: "a NUL in an ID in a filter", req: targets(byIDs("a", "\x00")), reason: "INVALID_TEXT", field: "filters[0].inIds.ids[1]"},
		{name: "1001 IDs in a filter", req: targets(byIDs(many(1001)...)), reason: invalid, field: "filters[0].inIds.ids"},
		{name: "101 filters", req: targets(make([]*actionv3.TargetSearchFilter, 101)...), reason: invalid, field: "filters"},

		{name: "an empty execution filter", req: executions(&actionv3.ExecutionSearchFilter{}), reason: invalid, field: "filters[0]"},
		{name: "no type in a filter", req: executions(byType(0)), reason: invalid, field: "filters[0].executionType.type"},
		{name: "an unknown type in a filter", req: executions(byType(5)), reason: invalid, field: "filters[0].executionType.type"},
		{name: "an empty target in a filter", req: executions(byTarget("")), reason: invalid, field: "filters[0].target.id"},
		{name: "a target of 201 in a filter", req: executions(byTarget(long(201))), reason: invalid, field: "filters[0].target.id"},
		{name: "an empty include in a filter", req: executions(byInclude("")), reason: invalid, field: "filters[0].include.include"},
		{name: "an include of 201 in a filter", req: executions(byInclude(long(201))), reason: invalid, field: "filters[0].include.include"},
		{name: "an empty condition in a filter", req: executions(byConditions(&actionv3.Condition{})), reason: invalid, field: "filters[0].inConditions.conditions[0]"},
		{name: "an event of 1001 in a filter", req: executions(byConditions(onEvent(long(1001)))), reason: invalid, field: "filters[0].inConditions.conditions[0].event.event"},

		{name: "no condition", req: put(nil, nil, nil), reason: invalid, field: "execution.condition"},
		{name: "an empty condition", req: put(&actionv3.Condition{}, nil, nil), reason: invalid, field: "execution.condition"},
		{name: "a request condition of nothing", req: put(condition(&actionv3.RequestExecution{}), nil, nil), reason: invalid, field: "execution.condition.request"},
		{name: "all, false", req: put(condition(&actionv3.RequestExecution{Condition: &actionv3.RequestExecution_All{All: false}}), nil, nil), reason: invalid, field: "execution.condition.request.all"},
		{name: "all responses, false", req: put(&actionv3.Condition{ConditionType: &actionv3.Condition_Response{
			Response: &actionv3.ResponseExecution{Condition: &actionv3.ResponseExecution_All{All: false}},
		}}, nil, nil), reason: invalid, field: "execution.condition.response.all"},
		{name: "all events, false", req: put(&actionv3.Condition{ConditionType: &actionv3.Condition_Event{
			Event: &actionv3.EventExecution{Condition: &actionv3.EventExecution_All{All: false}},
		}}, nil, nil), reason: invalid, field: "execution.condition.event.all"},
		{name: "an empty method", req: put(onMethod(""), nil, nil), reason: invalid, field: "execution.condition.request.method"},
		{name: "a method of 1001", req: put(onMethod(long(1001)), nil, nil), reason: invalid, field: "execution.condition.request.method"},
		{name: "a service of 1001", req: put(onService(long(1001)), nil, nil), reason: invalid, field: "execution.condition.request.service"},
		{name: "a response method of 1001", req: put(onMethodResponse(long(1001)), nil, nil), reason: invalid, field: "execution.condition.response.method"},
		{name: "an empty function", req: put(onFunction(""), nil, nil), reason: invalid, field: "execution.condition.function"},
		{name: "a function of 1001", req: put(onFunction(long(1001)), nil, nil), reason: invalid, field: "execution.condition.function"},
		{name: "an empty event", req: put(onEvent(""), nil, nil), reason: invalid, field: "execution.condition.event.event"},
		{name: "an empty group", req: put(onGroup(""), nil, nil), reason: invalid, field: "execution.condition.event.group"},
		{name: "a group of 1001", req: put(onGroup(long(1001)), nil, nil), reason: invalid, field: "execution.condition.event.group"},
		{name: "a NUL in a group", req: put(onGroup("user\x00"), nil, nil), reason: "INVALID_TEXT", field: "execution.condition.event.group"},
		{name: "101 targets", req: put(onMethod(create), many(101), nil), reason: invalid, field: "execution.targets"},
		{name: "a target of 201", req: put(onMethod(create), []string{target, long(201)}, nil), reason: invalid, field: "execution.targets[1]"},
		{name: "an empty target", req: put(onMethod(create), []string{""}, nil), reason: invalid, field: "execution.targets[0]"},
		{name: "a NUL in a target", req: put(onMethod(create), []string{"\x00"}, nil), reason: "INVALID_TEXT", field: "execution.targets[0]"},
		{name: "101 includes", req: put(onMethod(create), nil, many(101)), reason: invalid, field: "execution.includes"},
		{name: "an include of 201", req: put(onMethod(create), nil, []string{long(201)}), reason: invalid, field: "execution.includes[0]"},

		{name: "an empty instance ID", req: &featurev2.GetInstanceFeaturesRequest{Ctx: instanceByID("")}, reason: invalid, field: "ctx.instanceId"},
		{name: "an instance ID of 201", req: &featurev2.ResetInstanceFeaturesRequest{Ctx: instanceByID(long(201))}, reason: invalid, field: "ctx.instanceId"},
		{name: "a domain of 254", req: &featurev2.GetInstanceFeaturesRequest{Ctx: instanceByDomain(long(254))}, reason: invalid, field: "ctx.instanceDomain"},
		{name: "a NUL in an instance ID", req: &featurev2.GetInstanceFeaturesRequest{Ctx: instanceByID("\x00")}, reason: "INVALID_TEXT", field: "ctx.instanceId"},
	}
	for _, row := range rows { // 101 filters of nothing would be refused one by one
		if search, ok := row.req.(*actionv3.SearchTargetsRequest); ok && len(search.GetFilters()) == 101 {
			for i := range search.Filters {
				search.Filters[i] = byIDs("a")
			}
		}
	}
	return rows
}
