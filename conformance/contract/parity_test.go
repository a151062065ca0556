package contract

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// scenario is a conversation with the server that leaves nothing behind.
type scenario struct {
	name string
	play func(*script)
}

// script is a scenario on one transport.
type script struct {
	*suite
	over     transport
	token    string
	outcomes []any // with what differs from run to run written as "sequence 1", "id 2"…
	seen     map[string]string
	answered map[string]bool // methods that succeeded at least once
	refusals map[string]bool // and that refused at least once
}

// say makes a call and writes its outcome down.
func (p *script) say(req proto.Message) outcome {
	p.t.Helper()
	got := p.over.call(p.t, p.wrong(), p.token, req)
	op := operationOf(req)
	if got.refusal == nil {
		p.answered[op.path()] = true
		p.outcomes = append(p.outcomes, p.normal("", tree(got.message)))
		success := op.policy().GetSuccess()
		if got.http != 0 && !slices.Contains(success, uint32(got.http)) && (len(success) > 0 || got.http != 200) {
			p.t.Errorf("%s: got HTTP %d, the contract has %v", op.method.Name(), got.http, success)
		}
	} else {
		p.refusals[op.path()] = true
		p.outcomes = append(p.outcomes, p.normal("", tree(got.refusal)))
	}
	return got
}

// kinds are the members whose values differ from run to run.
var kinds = map[string]string{
	"id": "id", "sequence": "sequence", "processedSequence": "sequence", "changeDate": "date", "timestamp": "date", "signingKey": "key",
}

// made is an ID that the server made; those of executions are the same each time.
var made = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// normal replaces what differs from run to run by its order of appearance, so
// that what was equal stays equal.
func (p *script) normal(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			value[key] = p.normal(key, value[key])
		}
	case []any:
		for i := range value {
			value[i] = p.normal(name, value[i])
		}
	case string:
		if kind := kinds[name]; kind != "" && kind != "id" {
			return p.alias(kind, value)
		}
		return made.ReplaceAllStringFunc(value, func(id string) string { return p.alias("id", id) })
	}
	return value
}

func (p *script) alias(kind, value string) string {
	if p.seen[value] == "" {
		p.seen[value] = fmt.Sprintf("%s %d", kind, len(p.seen))
	}
	return p.seen[value]
}

func (p *script) created(name string) string {
	p.t.Helper()
	got := p.say(&actionv3.CreateTargetRequest{Target: webhook(name)})
	if got.refusal != nil {
		p.t.Fatalf("create target %s: %s", name, got)
	}
	return got.message.(*actionv3.CreateTargetResponse).GetDetails().GetId()
}

// webhook returns a valid target.
func webhook(name string) *actionv3.Target {
	return &actionv3.Target{
		Name: name, Timeout: durationpb.New(10 * time.Second),
		TargetType: &actionv3.Target_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: "https://hooks.example.com/" + "a"}},
	}
}

func ptr[T any](v T) *T { return &v }

var scenarios = []scenario{
	{"a target is created, read, changed, found and deleted", func(p *script) {
		id := p.created("parity")
		p.say(&actionv3.CreateTargetRequest{Target: webhook("parity")}) // the name is taken
		p.say(&actionv3.CreateTargetRequest{Target: &actionv3.Target{Name: "no type", Timeout: durationpb.New(1)}})
		p.say(&actionv3.GetTargetRequest{Id: id})
		p.say(&actionv3.GetTargetRequest{Id: "unknown"})
		p.say(&actionv3.PatchTargetRequest{Id: id, Target: &actionv3.PatchTarget{}}) // nothing changes
		p.say(&actionv3.PatchTargetRequest{Id: id, Target: &actionv3.PatchTarget{
			Name: ptr("changed"), Timeout: durationpb.New(1500 * time.Millisecond),
			TargetType:    &actionv3.PatchTarget_RestRequestResponse{RestRequestResponse: &actionv3.RestRequestResponse{Url: "http://other.example/?q=ü&<>"}},
			ExecutionType: &actionv3.PatchTarget_IsAsync{IsAsync: false},
		}})
		p.say(&actionv3.PatchTargetRequest{Id: "unknown", Target: &actionv3.PatchTarget{Name: ptr("x")}})
		p.say(&actionv3.PatchTargetRequest{Id: id, Target: &actionv3.PatchTarget{Name: ptr("")}})
		p.say(&actionv3.GetTargetRequest{Id: id})
		for _, asc := range []bool{false, true} {
			p.say(&actionv3.SearchTargetsRequest{
				Query: &object.ListQuery{Limit: 5, Asc: asc}, SortingColumn: actionv3.TargetFieldName_TARGET_FIELD_NAME_NAME,
				Filters: []*actionv3.TargetSearchFilter{
					byName("CHANG", object.TextFilterMethod_TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE), byIDs(id, "unknown"),
				},
			})
		}
		p.say(&actionv3.SearchTargetsRequest{})
		p.say(&actionv3.SearchTargetsRequest{Query: &object.ListQuery{Limit: 1001}})
		p.say(&actionv3.DeleteTargetRequest{Id: id})
		p.say(&actionv3.DeleteTargetRequest{Id: id})
		p.say(&actionv3.GetTargetRequest{Id: id})
	}},
	{"every kind of target comes back as it was sent", func(p *script) {
		for i, target := range []*actionv3.Target{
			{ExecutionType: &actionv3.Target_IsAsync{IsAsync: true}},
			{ExecutionType: &actionv3.Target_IsAsync{IsAsync: false}},
			{ExecutionType: &actionv3.Target_InterruptOnError{InterruptOnError: true}},
			{ExecutionType: &actionv3.Target_InterruptOnError{InterruptOnError: false}},
			{TargetType: &actionv3.Target_RestRequestResponse{RestRequestResponse: &actionv3.RestRequestResponse{Url: "https://x.example"}}},
			{Timeout: durationpb.New(1)}, {Timeout: durationpb.New(270 * time.Second)},
			{Name: "Straße \"\\ 日本 \u2028 <script>& 🙂"},
		} {
			sent := webhook(fmt.Sprintf("kind %d", i))
			proto.Merge(sent, target)
			got := p.say(&actionv3.CreateTargetRequest{Target: sent})
			if got.refusal != nil {
				p.t.Fatalf("%s", got)
			}
			id := got.message.(*actionv3.CreateTargetResponse).GetDetails().GetId()
			read := p.say(&actionv3.GetTargetRequest{Id: id})
			if read.refusal != nil {
				p.t.Fatalf("%s", read)
			}
			if back := read.message.(*actionv3.GetTargetResponse).GetTarget().GetTarget(); !proto.Equal(back, sent) {
				p.t.Errorf("got %v, want %v", back, sent)
			}
			p.say(&actionv3.DeleteTargetRequest{Id: id})
		}
	}},
	{"an execution is put, found and deleted", func(p *script) {
		id := p.created("called")
		p.say(&actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: onEvent("target.added"), Targets: []string{id}}})
		put := &actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: onGroup("target"), Targets: []string{id}, Includes: []string{"event.target.added"}}}
		for _, wantHTTP := range []int{201, 200} { // the second changes nothing
			if got := p.say(put); got.http != 0 && got.http != wantHTTP {
				p.t.Errorf("got HTTP %d, want %d", got.http, wantHTTP)
			}
		}
		p.say(&actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: onGroup("target")}})
		p.say(&actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: onGroup("no.such")}})
		p.say(&actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: onEvent("target.added"), Targets: []string{"unknown"}}})
		p.say(&actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: onEvent("target.added"), Includes: []string{"event.target.added"}}})
		p.say(&actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: &actionv3.Condition{}}})
		p.say(&actionv3.SearchExecutionsRequest{})
		p.say(&actionv3.SearchExecutionsRequest{Query: &object.ListQuery{Limit: 1, Offset: 1, Asc: true}, Filters: []*actionv3.ExecutionSearchFilter{
			byType(actionv3.ExecutionType_EXECUTION_TYPE_EVENT),
		}})
		p.say(&actionv3.SearchExecutionsRequest{Filters: []*actionv3.ExecutionSearchFilter{byTarget(id), byConditions(onGroup("target.*"), onEvent("target.added"))}})
		p.say(&actionv3.SearchExecutionsRequest{Filters: []*actionv3.ExecutionSearchFilter{{}}})
		p.say(&actionv3.DeleteTargetRequest{Id: id}) // changes the execution too
		p.say(&actionv3.SearchExecutionsRequest{})
		p.say(&actionv3.DeleteExecutionRequest{Id: "event.target.*"})
		p.say(&actionv3.DeleteExecutionRequest{Id: "event.target.*"})
		p.say(&actionv3.DeleteExecutionRequest{Id: "event.target.added"})
	}},
	{"an execution on a method is deleted by an ID with slashes", func(p *script) {
		p.say(&actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: onMethod(actionv3.ServiceActions_GetTarget_FullMethodName)}})
		p.say(&actionv3.DeleteExecutionRequest{Id: "request." + actionv3.ServiceActions_GetTarget_FullMethodName})
	}},
	{"what conditions can name is listed", func(p *script) {
		p.say(&actionv3.ListAvailableExecutionFunctionsRequest{})
		p.say(&actionv3.ListAvailableExecutionMethodsRequest{})
		p.say(&actionv3.ListAvailableExecutionServicesRequest{})
	}},
	{"callers without permission are refused", func(p *script) {
		p.token = p.NobodyToken
		p.say(&actionv3.ListAvailableExecutionFunctionsRequest{})
		p.say(&actionv3.ListAvailableExecutionMethodsRequest{})
		p.say(&actionv3.ListAvailableExecutionServicesRequest{})
		p.say(&featurev2.SetSystemFeaturesRequest{Features: &featurev2.SetFeatures{}})
		p.say(&featurev2.SetInstanceFeaturesRequest{Features: &featurev2.SetFeatures{}})
		p.say(&featurev2.ResetSystemFeaturesRequest{})
		p.say(&featurev2.ResetInstanceFeaturesRequest{})
		p.token = "writ_pat_unknown"
		p.say(&featurev2.GetSystemFeaturesRequest{})
		p.say(&featurev2.GetInstanceFeaturesRequest{})
		p.token = ""
		p.say(&featurev2.GetInstanceFeaturesRequest{})
	}},
	{"features of the system are set and reset", func(p *script) {
		p.token = p.SystemToken
		p.over.call(p.t, p.t.Context(), p.token, &featurev2.SetSystemFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(true)}}) // so that there is a change to date
		p.say(&featurev2.ResetSystemFeaturesRequest{})
		p.say(&featurev2.GetSystemFeaturesRequest{})
		p.say(&featurev2.SetSystemFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(true)}})
		p.say(&featurev2.SetSystemFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(true)}}) // nothing changes
		p.say(&featurev2.GetSystemFeaturesRequest{})
		p.say(&featurev2.GetInstanceFeaturesRequest{})
		p.say(&featurev2.ResetSystemFeaturesRequest{})
	}},
	{"features of an instance are set and reset", func(p *script) {
		p.say(&featurev2.SetInstanceFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(true), OidcTokenExchange: ptr(false)}})
		p.say(&featurev2.GetInstanceFeaturesRequest{})
		p.say(&featurev2.GetInstanceFeaturesRequest{Ctx: instanceByID(p.InstanceID)})
		p.say(&featurev2.GetInstanceFeaturesRequest{Ctx: instanceByID("unknown")})
		p.say(&featurev2.ResetInstanceFeaturesRequest{})
		p.say(&featurev2.GetInstanceFeaturesRequest{})
		p.say(&actionv3.ListAvailableExecutionMethodsRequest{}) // its feature is off now
		p.say(&featurev2.SetInstanceFeaturesRequest{
			Ctx: instanceByDomain("localhost"), Features: &featurev2.SetFeatures{MultitenancyResourcesApi: ptr(true), MultitenancySettings: ptr(true)},
		})
	}},
}

// TestEveryTransportAnswersTheSame plays each scenario on each transport and
// compares what was said, refusals included. An operation without a scenario is
// compared in TestSEC230_EveryOperationRefusesAndAnswersAlike.
func TestEveryTransportAnswersTheSame(t *testing.T) {
	all := newSuite(t)
	answered, refusals := map[string]bool{}, map[string]bool{}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			s := all.in(t)
			var want []any
			for _, over := range s.transports {
				p := &script{
					suite: s, over: over, token: s.AdminToken, seen: map[string]string{}, answered: answered, refusals: refusals,
				}
				scenario.play(p)
				if want == nil {
					want = p.outcomes
				} else if diff := cmp.Diff(want, p.outcomes); diff != "" {
					t.Errorf("%s and %s differ:\n%s", s.transports[0].name(), over.name(), diff)
				}
			}
		})
	}
	for _, op := range sortedOperations() { // the others have the parity of requests that are refused
		if !answered[op.path()] || !refusals[op.path()] {
			t.Logf("no scenario has an answer and a refusal of %s", op.path())
		}
	}
}
