package executions

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// letter is a way to answer that writes its name behind that of the project.
var letter = &way{name: "letter", answer: func(w http.ResponseWriter, req *http.Request, c *conversation) {
	_, whose, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	changed(200, func(message map[string]any) {
		if project, ok := message["project"].(map[string]any); ok {
			project["name"] = text(project, "name") + whose
		}
		if details, ok := message["details"].(map[string]any); ok {
			details["id"] = text(details, "id") + whose
		}
	}, "")(w, req, c)
}}

// letter makes a target that writes a letter.
func (n *tenant) letter(one string) *target {
	n.Helper()
	return n.register("letter "+one, answering, interrupting, n.receiver.at(letter, one), patient)
}

// spelled is what the letters of the targets that are called spell, at a request and at a
// response.
func (n *tenant) spelled() (request, response string) {
	n.Helper()
	got := n.rename("REST", ":")
	if !got.OK {
		n.Fatalf("got %+v", got)
	}
	return strings.TrimPrefix(n.name(), ":"), strings.TrimPrefix(got.ID, n.project)
}

func TestTheMostSpecificExecutionRuns(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "precedence")
	neighbour := newTenant(t, "neighbour")
	neighbour.put(in("request.all"), nil, neighbour.letter("x"))
	made := map[string]string{}
	for _, of := range []string{"request", "response"} {
		for i, kind := range []string{"all", "service", "method"} {
			made[of+"."+kind] = n.put(in(of+"."+kind), nil, n.letter(of+fmt.Sprint(i)))
		}
	}
	expect := func(request, response string) {
		t.Helper()
		if a, b := n.spelled(); a != request || b != response {
			t.Errorf("got %q and %q, want %q and %q", a, b, request, response)
		}
	}
	expect("request2", "response2")
	n.remove(made["request.method"])
	expect("request1", "response2")
	n.remove(made["response.method"])
	expect("request1", "response1")
	n.put(in("request.method"), nil) // nobody, in place of those less specific
	expect("", "response1")
	n.remove(made["request.method"])
	n.remove(made["request.service"])
	n.remove(made["response.service"])
	expect("request0", "response0")
	n.remove(made["request.all"])
	n.remove(made["response.all"])
	expect("", "")
	// Of events too, by each group that is around.
	kinds := []map[string]any{{"event": "project.added"}, {"group": "project"}, {"all": true}}
	for i, kind := range slices.Backward(kinds) {
		n.receiver.forget()
		n.put(map[string]any{"event": kind}, nil, n.register(fmt.Sprint("event ", i), webhook, waiting, n.receiver.at(ways[0], fmt.Sprint(i)), patient))
		project := idOf(n.must(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": fmt.Sprint(i)}))
		n.delivered(project, 1)
		for _, call := range n.receiver.calls() {
			if call.JSON["aggregateID"] == project && call.Path != fmt.Sprintf("/200-empty/%d", i) {
				t.Errorf("with %v the target %s was told", kind, call.Path)
			}
		}
	}
	person := idOf(n.must(http.MethodPost, "/resources/v3alpha/users", map[string]any{"username": "nested", "human": map[string]any{}}))
	for i, kind := range []map[string]any{{"group": "user"}, {"group": "user.human"}, {"event": "user.human.changed"}} { // each within the one before
		id := n.put(map[string]any{"event": kind}, nil, n.register(fmt.Sprint("nested ", i), webhook, waiting, n.receiver.at(ways[0], fmt.Sprint("nested", i)), patient))
		n.receiver.forget()
		n.must(http.MethodPatch, "/resources/v3alpha/users/"+person, map[string]any{"human": map[string]any{"profile": map[string]any{"givenName": fmt.Sprint(i)}}})
		n.eventually(id, func() bool {
			for _, call := range n.receiver.calls() {
				if call.JSON["event_type"] == "user.human.changed" {
					if call.Path != fmt.Sprintf("/200-empty/nested%d", i) {
						t.Errorf("with %s the target %s was told %s", id, call.Path, call.Body)
					}
					return true
				}
			}
			return false
		})
	}
	if got := neighbour.receiver.calls(); len(got) > 0 {
		t.Errorf("the target of another instance was told %s", got[0].Body)
	}
}

func TestIncludesRunInOrderAndEnd(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "includes")
	method := func(name string) map[string]any {
		return map[string]any{"request": map[string]any{"method": "/writ.project.v3alpha.ServiceProjects/" + name}}
	}
	d := n.put(method("GetProject"), nil, n.letter("d"), n.letter("D"))
	c := n.put(method("SearchProjects"), []string{d}, n.letter("c"))
	b := n.put(method("DeleteProject"), []string{c}, n.letter("b"))
	a := n.put(in("request.method"), []string{b}, n.letter("a"), n.letter("A"))
	expect := func(want string) {
		t.Helper()
		if got, _ := n.spelled(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("aAbcdD")
	refused := func(what string, condition map[string]any, includes ...string) {
		t.Helper()
		got := n.rest(http.MethodPost, "/resources/v3alpha/executions", map[string]any{"condition": condition, "includes": includes, "targets": []string{}}, skip...)
		if got.OK || got.Status != http.StatusBadRequest && got.Status != http.StatusNotFound {
			t.Errorf("%s: got %d %v", what, got.Status, got.Body)
		}
		expect("aAbcdD")
	}
	refused("a fourth include", method("CreateProject"), a)
	refused("itself", in("request.method"), a)
	refused("a circle of two", method("GetProject"), c)
	refused("a circle of four", method("GetProject"), a)
	refused("a response in a request", map[string]any{"response": map[string]any{"all": true}}, d)
	refused("what is not there", method("CreateProject"), "request./writ.project.v3alpha.ServiceProjects/Nothing")
	// Twice the same, by two ways, and in the order of the list.
	n.put(in("request.method"), []string{d, c, d}, n.letter("e"))
	expect("edDcdDdD")
	n.remove(d)
	expect("ec")
	n.put(in("request.method"), nil)
	expect("")
}

// asked waits until the test has done what it wants while the target is asked, and answers
// by a letter.
var asked = &way{name: "asked", answer: func(w http.ResponseWriter, req *http.Request, c *conversation) {
	c.mu.Lock()
	meanwhile := c.meanwhile
	c.mu.Unlock()
	meanwhile()
	letter.answer(w, req, c)
}}

func TestWhatIsDeletedWhileItRunsEndsWithTheCall(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "deleted")
	expect := func(what, want string) {
		t.Helper()
		if got, _ := n.spelled(); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	meanwhile := func(do func()) {
		n.receiver.mu.Lock()
		defer n.receiver.mu.Unlock()
		n.receiver.meanwhile = do
	}
	first := n.register("first", answering, interrupting, n.receiver.at(asked, "1"), patient)
	second, third := n.letter("2"), n.letter("3")
	id := n.put(in("request.method"), nil, first, second, third)
	meanwhile(func() {})
	expect("before", "123")
	meanwhile(func() { n.must(http.MethodDelete, "/resources/v3alpha/targets/"+second.id, nil) })
	expect("a target that comes later is deleted", "123")
	meanwhile(func() {})
	expect("after it", "13")
	meanwhile(func() { n.must(http.MethodDelete, "/resources/v3alpha/targets/"+first.id, nil) })
	expect("the target that is asked is deleted", "13")
	expect("after it", "3")
	last := n.register("last", answering, interrupting, n.receiver.at(asked, "4"), patient)
	n.put(in("request.method"), nil, last, third)
	meanwhile(func() { n.remove(id) })
	expect("the execution is deleted", "43")
	expect("after it", "")
	// Deliveries to a target that is gone end.
	hook := n.register("hook", webhook, waiting, n.receiver.at(way404(), "x"), patient)
	n.put(in("event.event"), nil, hook)
	project := idOf(n.must(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": "gone"}))
	if got := n.delivered(project, 1)[hook.id]; got != "DELIVERY_STATE_FAILED" {
		t.Errorf("the delivery is %s", got)
	}
	n.must(http.MethodDelete, "/resources/v3alpha/targets/"+hook.id, nil)
	if got := n.delivered(project, 1)[hook.id]; got != "DELIVERY_STATE_DEAD" {
		n.eventually("the delivery dies", func() bool { return n.delivered(project, 1)[hook.id] == "DELIVERY_STATE_DEAD" })
	}
}

func way404() *way {
	return ways[slices.IndexFunc(ways, func(one *way) bool { return one.name == "404" })]
}

func TestOwnersAreNeverLockedOut(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "lockout")
	other := n.as("orgowner", "ORG_OWNER")
	broken := n.register("broken", webhook, interrupting, n.receiver.at(way404(), "x"), patient)
	request, response := n.put(in("request.all"), nil, broken), n.put(in("response.all"), nil, broken)
	list := func(by *tenant, headers ...string) *outcome {
		return by.rest(http.MethodPost, "/resources/v3alpha/targets/_search", []any{}, headers...)
	}
	skipped := func() string {
		return n.value("SELECT count(*)::text FROM events WHERE instance_id = $1 AND event_type LIKE 'execution%skipped'", n.id)
	}
	before := skipped()
	for name, got := range map[string]*outcome{
		"without the header":       list(n),
		"with another value":       list(n, "writ-skip-executions", "1"),
		"of another service":       n.rest(http.MethodPatch, "/resources/v3alpha/projects/"+n.project, map[string]any{"name": "skipped"}, skip...),
		"of who is no owner of it": list(other, skip...),
	} {
		if got.OK {
			t.Errorf("%s: got %d", name, got.Status)
		}
	}
	if after := skipped(); after != before || n.name() == "skipped" {
		t.Errorf("%s calls were audited as skipping, before %s", after, before)
	}
	if got := list(n, skip...); !got.OK {
		t.Errorf("the owner: got %d %v", got.Status, got.Body)
	}
	if after := skipped(); after == before {
		t.Error("nobody learns of it")
	}
	n.remove(request)
	n.remove(response)
	if got := n.rename("gRPC-web", "free"); !got.OK {
		t.Errorf("afterwards: got %+v", got)
	}
}

func TestAnswersChangeNeitherCallerNorContextNorRights(t *testing.T) {
	t.Parallel()
	n := newTenant(t, "rights")
	other := idOf(n.must(http.MethodPost, "/resources/v3alpha/organizations", map[string]any{"name": "other"}))
	foreign := idOf(n.must(http.MethodPost, "/resources/v3alpha/projects?ctx.orgId="+other, map[string]any{"name": "foreign"}))
	small := n.as("orgowner", "ORG_OWNER")
	create := "/writ.project.v3alpha.ServiceProjects/CreateProject"
	for _, test := range []struct {
		name   string
		change map[string]any
		method string
		call   func() *outcome
	}{
		{"another project", map[string]any{"id": foreign}, patchProject, func() *outcome { return small.rename("REST", "mine") }},
		{"another organization", map[string]any{"ctx": map[string]any{"orgId": other}}, create, func() *outcome {
			return n.rest(http.MethodPost, "/resources/v3alpha/projects?ctx.orgId="+n.org, map[string]any{"name": "moved"})
		}},
		{"the default instead of the organization", map[string]any{"ctx": nil}, create, func() *outcome {
			return n.rest(http.MethodPost, "/resources/v3alpha/projects?ctx.orgId="+other, map[string]any{"name": "moved"})
		}},
	} {
		at := n.register(test.name, answering, interrupting, n.receiver.at(asks, "x"), patient)
		n.receiver.mu.Lock()
		n.receiver.change = func(message map[string]any) { maps.Copy(message, test.change) }
		n.receiver.mu.Unlock()
		id := n.put(map[string]any{"request": map[string]any{"method": test.method}}, nil, at)
		n.receiver.forget()
		if got := test.call(); got.OK || got.Status/100 != 4 {
			t.Errorf("%s: got %d %v", test.name, got.Status, got.Body)
		}
		if calls := n.receiver.await(1); len(calls) != 1 {
			t.Errorf("%s: the target was called %d times", test.name, len(calls))
		}
		n.remove(id)
	}
	if got := n.value("SELECT name FROM projects WHERE instance_id = $1 AND id = $2", n.id, foreign); got != "foreign" {
		t.Errorf("the project of the other organization is %q", got)
	}
	if got := n.value("SELECT count(*)::text FROM projects WHERE instance_id = $1 AND name = 'moved'", n.id); got != "0" {
		t.Errorf("%s projects were moved", got)
	}
	// Who may not call, or calls with what the contract refuses, makes nobody listen.
	n.put(in("request.all"), nil, n.letter("x"))
	n.put(in("response.all"), nil, n.letter("y"))
	n.receiver.forget()
	for name, got := range map[string]*outcome{
		"no permission":   small.rest(http.MethodPost, "/resources/v3alpha/targets/_search", []any{}),
		"a broken rule":   n.rename("gRPC", ""),
		"nobody's token":  n.by("nobody").rename("gRPC-web", "x"),
		"a wrong member":  n.rest(http.MethodPatch, "/resources/v3alpha/projects/"+n.project, map[string]any{"other": 1}),
		"a broken search": n.rest(http.MethodPost, "/resources/v3alpha/projects/_search", map[string]any{"x": 1}),
	} {
		if got.OK {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := n.receiver.calls(); len(got) > 0 {
		t.Errorf("%d calls: %s", len(got), got[0].Body)
	}
	// A method that refuses has no response.
	if got := n.rest(http.MethodGet, "/resources/v3alpha/projects/nothing", nil); got.OK {
		t.Errorf("got %+v", got)
	}
	for _, call := range n.receiver.calls() {
		if call.JSON["response"] != nil || strings.HasSuffix(call.Path, "y") {
			t.Errorf("a response without one: %s", call.Body)
		}
	}
}

// asks answers with what the test makes of the message.
var asks = &way{name: "asks", answer: func(w http.ResponseWriter, req *http.Request, c *conversation) {
	c.mu.Lock()
	change := c.change
	c.mu.Unlock()
	changed(200, change, "")(w, req, c)
}}
