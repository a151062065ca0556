package contract

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// Names that conditions can have.
const (
	create  = actionv3.ServiceActions_CreateTarget_FullMethodName
	read    = actionv3.ServiceActions_GetTarget_FullMethodName
	service = "writ.action.v3alpha.ServiceActions"
	other   = featurev2.ServiceFeatures_GetInstanceFeatures_FullMethodName
)

func putRequest(c *actionv3.Condition, targets, includes []string) *actionv3.PutExecutionRequest {
	return &actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Condition: c, Targets: targets, Includes: includes}}
}

// put puts an execution and returns its details.
func (s *suite) put(c *actionv3.Condition, targets, includes []string) *object.Details {
	s.t.Helper()
	return must[*actionv3.PutExecutionResponse](s, putRequest(c, targets, includes)).GetDetails()
}

// execution returns the execution of a condition, or nil.
func (s *suite) execution(c *actionv3.Condition) *actionv3.GetExecution {
	s.t.Helper()
	found := must[*actionv3.SearchExecutionsResponse](s, &actionv3.SearchExecutionsRequest{
		Filters: []*actionv3.ExecutionSearchFilter{byConditions(c)},
	}).GetResult()
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// TestAnExecutionIsKeyedByItsCondition puts every kind of condition twice: 201,
// then 200, under the canonical ID.
func TestAnExecutionIsKeyedByItsCondition(t *testing.T) {
	s := newSuite(t)
	target := s.create(webhook("called")).GetId()
	for _, test := range []struct {
		id        string
		condition *actionv3.Condition
		canonical *actionv3.Condition // nil: as it was written
	}{
		{"request." + create, onMethod(create), nil},
		{"request." + service, onService(service), nil},
		{"request", onAllRequests(), nil},
		{"response." + create, onMethodResponse(create), nil},
		{"response." + service, onServiceResponse(service), nil},
		{"response", onAllResponses(), nil},
		{"function.preuserinfo", onFunction("preuserinfo"), nil},
		{"event.user.human.added", onEvent("user.human.added"), nil},
		{"event.user.human.*", onGroup("user.human"), nil},
		{"event.target.*", onGroup("target.*"), onGroup("target")},
		{"event", onAllEvents(), nil},
	} {
		t.Run(test.id, func(t *testing.T) {
			s := s.in(t)
			created := s.try(putRequest(test.condition, nil, nil))
			if created.refusal != nil || created.http != http.StatusCreated {
				t.Fatalf("got HTTP %d, want 201: %s", created.http, created)
			}
			details := created.message.(*actionv3.PutExecutionResponse).GetDetails()
			s.checkDetails(details)
			if details.GetId() != test.id {
				t.Errorf("got ID %q, want %q", details.GetId(), test.id)
			}
			for _, step := range []struct {
				name    string
				targets []string
				grows   bool
			}{{"the same again", nil, false}, {"another target", []string{target}, true}, {"that again", []string{target}, false}, {"none again", nil, true}} {
				again := s.try(putRequest(test.condition, step.targets, nil))
				if again.refusal != nil || again.http != http.StatusOK {
					t.Fatalf("%s: got HTTP %d, want 200: %s", step.name, again.http, again)
				}
				now := again.message.(*actionv3.PutExecutionResponse).GetDetails()
				if grows := now.GetSequence() > details.GetSequence(); grows != step.grows || !step.grows && !proto.Equal(now, details) {
					t.Errorf("%s: got details %v after %v, want a change: %t", step.name, now, details, step.grows)
				}
				details = now
			}
			condition := test.condition
			if test.canonical != nil {
				condition = test.canonical
			}
			want := &actionv3.GetExecution{Details: details, Execution: &actionv3.Execution{Condition: condition}}
			if diff := gocmp.Diff(want, s.execution(test.condition), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("a group is one group with and without .*", func(t *testing.T) {
		s := s.in(t)
		for _, condition := range []*actionv3.Condition{onGroup("target"), onGroup("user.human.*")} {
			if got := s.try(putRequest(condition, nil, nil)); got.http != http.StatusOK {
				t.Errorf("got HTTP %d, want 200, the execution is there: %s", got.http, got)
			}
		}
	})
}

func TestConditionsMustNameWhatExists(t *testing.T) {
	s := newSuite(t)
	for _, test := range []struct {
		name      string
		condition *actionv3.Condition
		field     string
		named     string
	}{
		{"a method", onMethod("/writ.action.v3alpha.ServiceActions/Nothing"), "request.method", "/writ.action.v3alpha.ServiceActions/Nothing"},
		{"a method in other case", onMethod("/writ.action.v3alpha.ServiceActions/createtarget"), "request.method", "createtarget"},
		{"a method without its slash", onMethod(create[1:]), "request.method", create[1:]},
		{"a method of reflection", onMethod("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"), "request.method", "ServerReflectionInfo"},
		{"a method of responses", onMethodResponse("/a.B/C"), "response.method", "/a.B/C"},
		{"a service", onService("writ.nothing.Service"), "request.service", "writ.nothing.Service"},
		{"a service of responses", onServiceResponse("writ.nothing.Service"), "response.service", "writ.nothing.Service"},
		{"a part of a service's name", onService("writ.action"), "request.service", "writ.action"},
		{"a method as a service", onService(create), "request.service", create},
		{"a function", onFunction("postuserinfo"), "function", "postuserinfo"},
		{"an event", onEvent("user.human.vanished"), "event.event", "user.human.vanished"},
		{"a group as an event", onEvent("user.human"), "event.event", "user.human"},
		{"a group as an event with .*", onEvent("user.human.*"), "event.event", "user.human.*"},
		{"a group", onGroup("nothing"), "event.group", "nothing"},
		{"a group with .*", onGroup("nothing.*"), "event.group", "nothing.*"},
		{"a part of a group's name", onGroup("us"), "event.group", "us"},
		{"an event as a group", onGroup("user.human.added"), "event.group", "user.human.added"},
		{"only .*", onGroup(".*"), "event.group", ".*"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			s.writesNothing(func() {
				got := s.try(putRequest(test.condition, nil, nil))
				s.refused(got, "CONDITION_NOT_FOUND", "execution.condition."+test.field, test.named)
				if got.http != http.StatusNotFound {
					t.Errorf("got HTTP %d, want 404", got.http)
				}
			})
		})
	}
	t.Run("all that is listed exists", func(t *testing.T) {
		s := s.in(t)
		events, functions := catalogue(t, s.Server)
		var conditions []*actionv3.Condition
		for _, name := range must[*actionv3.ListAvailableExecutionMethodsResponse](s, &actionv3.ListAvailableExecutionMethodsRequest{}).GetMethods() {
			conditions = append(conditions, onMethod(name), onMethodResponse(name))
		}
		for _, name := range must[*actionv3.ListAvailableExecutionServicesResponse](s, &actionv3.ListAvailableExecutionServicesRequest{}).GetServices() {
			conditions = append(conditions, onService(name), onServiceResponse(name))
		}
		for _, name := range functions {
			conditions = append(conditions, onFunction(name))
		}
		for _, name := range events {
			conditions = append(conditions, onEvent(name))
		}
		for _, condition := range conditions {
			if got := s.try(putRequest(condition, nil, nil)); got.http != http.StatusCreated {
				t.Errorf("%v: got HTTP %d, want 201: %s", condition, got.http, got)
			}
		}
	})
}

func TestExecutionsKeepTheOrderOfTheirTargets(t *testing.T) {
	s := newSuite(t)
	a, b, c := s.create(webhook("a")).GetId(), s.create(webhook("b")).GetId(), s.create(webhook("c")).GetId()
	for _, targets := range [][]string{{b, a, c}, {c, b, a}, {a}, {}, {b, c}} {
		s.put(onMethod(create), targets, nil)
		if got := s.execution(onMethod(create)).GetExecution().GetTargets(); !slices.Equal(got, targets) {
			t.Errorf("got %v, want %v", got, targets)
		}
	}
	t.Run("an unknown target is refused by name", func(t *testing.T) {
		s := s.in(t)
		s.writesNothing(func() {
			got := s.try(putRequest(onMethod(create), []string{a, "unknown"}, nil))
			s.refused(got, "TARGET_NOT_FOUND", "execution.targets[1]", "unknown")
			if got.http != http.StatusNotFound {
				t.Errorf("got HTTP %d, want 404", got.http)
			}
		})
	})
}

// TestREL025_DeletingATargetTakesItOutOfItsExecutions: in one step, and each
// execution that loses it changes.
func TestREL025_DeletingATargetTakesItOutOfItsExecutions(t *testing.T) {
	s := newSuite(t)
	gone, kept := s.create(webhook("gone")).GetId(), s.create(webhook("kept")).GetId()
	both := s.put(onMethod(create), []string{gone, kept, gone}, nil)
	alone := s.put(onEvent("target.added"), []string{gone}, nil)
	untouched := s.put(onAllEvents(), []string{kept}, nil)
	deleted := must[*actionv3.DeleteTargetResponse](s, &actionv3.DeleteTargetRequest{Id: gone}).GetDetails()
	for _, test := range []struct {
		condition *actionv3.Condition
		before    *object.Details
		targets   []string
		changes   bool
	}{{onMethod(create), both, []string{kept}, true}, {onEvent("target.added"), alone, nil, true}, {onAllEvents(), untouched, []string{kept}, false}} {
		got := s.execution(test.condition)
		if !slices.Equal(got.GetExecution().GetTargets(), test.targets) {
			t.Errorf("%s: got targets %v, want %v", test.before.GetId(), got.GetExecution().GetTargets(), test.targets)
		}
		grew := got.GetDetails().GetSequence() > test.before.GetSequence() &&
			got.GetDetails().GetChangeDate().AsTime().Equal(deleted.GetChangeDate().AsTime())
		if grew != test.changes || !test.changes && !proto.Equal(got.GetDetails(), test.before) {
			t.Errorf("%s: got details %v after %v, want a change: %t", test.before.GetId(), got.GetDetails(), test.before, test.changes)
		}
	}
	if found := must[*actionv3.SearchExecutionsResponse](s, &actionv3.SearchExecutionsRequest{
		Filters: []*actionv3.ExecutionSearchFilter{byTarget(gone)},
	}); len(found.GetResult()) != 0 {
		t.Errorf("the deleted target is still found: %v", found)
	}
}

func TestDeletingAnExecution(t *testing.T) {
	s := newSuite(t)
	for _, test := range []struct {
		name string
		id   string
		path func(id string) string
	}{
		{"by its ID with escaped slashes", "request." + create, url.PathEscape},
		{"by its ID as it is", "request." + read, func(id string) string { return id }},
		{"by an ID with an escaped star", "event.user.*", func(string) string { return "event.user.%2A" }},
		{"by an ID that is a word", "response", url.PathEscape},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			conditions := map[string]*actionv3.Condition{
				"request." + create: onMethod(create), "request." + read: onMethod(read), "event.user.*": onGroup("user"), "response": onAllResponses(),
			}
			put := s.put(conditions[test.id], nil, nil)
			raw := s.transports[len(s.transports)-1].(plain)
			// The document has no word for a path variable with slashes.
			request, err := http.NewRequestWithContext(s.wrong(), http.MethodDelete, s.Issuer+"/resources/v3alpha/executions/"+test.path(test.id), nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+s.AdminToken)
			if test.path(test.id) == test.id {
				raw.client = &http.Client{CheckRedirect: noRedirect}
			}
			got := raw.send(t, operationOf(&actionv3.DeleteExecutionRequest{}), request)
			if got.refusal != nil {
				t.Fatalf("got %s", got)
			}
			details := got.message.(*actionv3.DeleteExecutionResponse).GetDetails()
			s.checkDetails(details)
			if details.GetId() != test.id || details.GetSequence() <= put.GetSequence() {
				t.Errorf("got details %v after %v, want the same ID and a greater sequence", details, put)
			}
			if found := s.execution(conditions[test.id]); found != nil {
				t.Errorf("it is still found: %v", found)
			}
			s.refused(s.try(&actionv3.DeleteExecutionRequest{Id: test.id}), "NOT_FOUND", "", test.id)
		})
	}
	t.Run("takes it out of what includes it", func(t *testing.T) {
		s := s.in(t)
		s.put(onService(service), nil, nil)
		s.put(onMethod(other), nil, nil)
		before := s.put(onAllRequests(), nil, []string{"request." + service, "request." + other})
		must[*actionv3.DeleteExecutionResponse](s, &actionv3.DeleteExecutionRequest{Id: "request." + service})
		got := s.execution(onAllRequests())
		if want := []string{"request." + other}; !slices.Equal(got.GetExecution().GetIncludes(), want) {
			t.Errorf("got includes %v, want %v", got.GetExecution().GetIncludes(), want)
		}
		if got.GetDetails().GetSequence() <= before.GetSequence() {
			t.Errorf("the sequence did not grow: %v after %v", got.GetDetails(), before)
		}
	})
	t.Run("refuses what is not there", func(t *testing.T) {
		s := s.in(t)
		for _, id := range []string{"unknown", "request./a.B/C", "event.user", "targets/1", "EVENT", fmt.Sprintf("%0200d", 1)} {
			s.writesNothing(func() { s.refused(s.try(&actionv3.DeleteExecutionRequest{Id: id}), "NOT_FOUND", "", id) })
		}
	})
}
