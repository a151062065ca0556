package contract

import (
	"net/http"
	"testing"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
)

// TestIncludes puts executions on methods, which the tables name a to f, in the
// order of the steps. The last step is the one that is tested.
func TestIncludes(t *testing.T) {
	methods := map[string]string{
		"a": actionv3.ServiceActions_CreateTarget_FullMethodName, "b": actionv3.ServiceActions_GetTarget_FullMethodName,
		"c": actionv3.ServiceActions_PatchTarget_FullMethodName, "d": actionv3.ServiceActions_DeleteTarget_FullMethodName,
		"e": actionv3.ServiceActions_PutExecution_FullMethodName, "f": featurev2.ServiceFeatures_GetInstanceFeatures_FullMethodName,
	}
	all := newSuite(t)
	for _, test := range []struct {
		name   string
		steps  []string // "a:bc" puts a with the includes b and c
		reason string   // "" when the last step succeeds
		field  string
	}{
		{"one that exists", []string{"b:", "a:b"}, "", ""},
		{"several", []string{"b:", "c:", "a:bc"}, "", ""},
		{"one of two that does not exist", []string{"b:", "a:bc"}, "INCLUDE_NOT_FOUND", "execution.includes[1]"},
		{"itself, when new", []string{"a:a"}, "INCLUDE_CYCLE", "execution.includes[0]"},
		{"itself, when there", []string{"a:", "a:a"}, "INCLUDE_CYCLE", "execution.includes[0]"},
		{"what includes it", []string{"b:", "a:b", "b:a"}, "INCLUDE_CYCLE", "execution.includes[0]"},
		{"what includes it over two", []string{"c:", "b:c", "a:b", "c:a"}, "INCLUDE_CYCLE", "execution.includes[0]"},
		{"what no longer includes it", []string{"b:", "a:b", "a:", "b:a"}, "", ""},
		{"3 deep, built from below", []string{"d:", "c:d", "b:c", "a:b"}, "", ""},
		{"4 deep, built from below", []string{"e:", "d:e", "c:d", "b:c", "a:b"}, "INCLUDE_DEPTH", "execution.includes[0]"},
		{"3 deep, built from above", []string{"d:", "c:", "b:", "a:b", "b:c", "c:d"}, "", ""},
		{"4 deep, built from above", []string{"e:", "d:", "c:", "b:", "a:b", "b:c", "c:d", "d:e"}, "INCLUDE_DEPTH", "execution.includes[0]"},
		{"4 deep, joined in the middle", []string{"e:", "d:e", "c:d", "b:", "a:b", "b:c"}, "INCLUDE_DEPTH", "execution.includes[0]"},
		{"4 deep by the second", []string{"f:", "e:", "d:e", "c:d", "b:c", "a:fb"}, "INCLUDE_DEPTH", "execution.includes[1]"},
		{"the same below two", []string{"d:", "c:d", "b:d", "a:bc"}, "", ""},
		{"3 deep after a chain was cut", []string{"e:", "d:e", "c:d", "b:c", "d:", "a:b"}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := all.in(t)
			s.empty()
			request := func(step string) *actionv3.PutExecutionRequest {
				var includes []string
				for _, include := range step[2:] {
					includes = append(includes, "request."+methods[string(include)])
				}
				return putRequest(onMethod(methods[step[:1]]), nil, includes)
			}
			last := len(test.steps) - 1
			for _, step := range test.steps[:last] {
				must[*actionv3.PutExecutionResponse](s, request(step))
			}
			if test.reason == "" {
				must[*actionv3.PutExecutionResponse](s, request(test.steps[last]))
				return
			}
			s.writesNothing(func() { s.refused(s.try(request(test.steps[last])), test.reason, test.field) })
		})
	}
	t.Run("of another condition type", func(t *testing.T) {
		s := all.in(t)
		s.empty()
		s.put(onMethodResponse(create), nil, nil)
		s.put(onEvent("target.added"), nil, nil)
		s.put(onFunction("preuserinfo"), nil, nil)
		for _, include := range []string{"response." + create, "event.target.added", "function.preuserinfo"} {
			s.writesNothing(func() {
				got := s.try(putRequest(onMethod(create), nil, []string{include}))
				s.refused(got, "INCLUDE_TYPE", "execution.includes[0]", include)
				if got.http != http.StatusBadRequest {
					t.Errorf("got HTTP %d, want 400", got.http)
				}
			})
		}
	})
	t.Run("of another kind of the same type", func(t *testing.T) {
		s := all.in(t)
		s.empty()
		s.put(onEvent("target.added"), nil, nil)
		s.put(onGroup("target"), nil, []string{"event.target.added"})
		s.put(onAllEvents(), nil, []string{"event.target.*"})
	})
	t.Run("an unknown one is refused by name", func(t *testing.T) {
		s := all.in(t)
		s.empty()
		s.writesNothing(func() {
			got := s.try(putRequest(onMethod(create), nil, []string{"request./a.B/C"}))
			s.refused(got, "INCLUDE_NOT_FOUND", "execution.includes[0]", "request./a.B/C")
			if got.http != http.StatusNotFound {
				t.Errorf("got HTTP %d, want 404", got.http)
			}
		})
	})
}
