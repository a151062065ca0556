package idp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/writ-id/writ/impl/server/servertest"
)

// place is a context of the tree that the seed makes.
type place struct{ name, parent, host, header, query string }

func tree(c *servertest.Cluster) []place {
	org := func(name, instance string) place {
		return place{name, instance, instance + ".example", "org/" + c.Org(name), "?ctx.orgId=" + c.Org(name)}
	}
	return []place{
		{"system", "", "a.example", "system", "?ctx.system=true"},
		{"a", "system", "a.example", "instance", ""},
		{"b", "system", "b.example", "instance", ""},
		org("A", "a"), org("A2", "a"), org("B", "b"),
	}
}

// model says what a context sees of a provider, by where it is defined and what each
// context said: the 20 lines that document 1 comes to.
type model struct {
	tree    []place
	defined string
	said    map[string]string
}

func (m *model) path(to string) (down []string) {
	for at := to; at != m.defined; at = m.tree[slices.IndexFunc(m.tree, func(p place) bool { return p.name == at })].parent {
		if at == "" {
			return nil // it is not below
		}
		down = append(down, at)
	}
	down = append(down, m.defined)
	slices.Reverse(down)
	return down
}

func (m *model) sees(context string) (state, policy, parent string) {
	active, ended := true, false
	for i, at := range m.path(context) {
		if i > 0 {
			parent = onOff(active)
		}
		policy = m.said[at]
		active = !ended && (policy == "ACTIVATE" || policy == "INHERIT" && active)
		ended = ended || policy == "DEACTIVATE" && at != "system" // an instance's word is final, of its own too
	}
	return onOff(active), policy, parent
}

func onOff(active bool) string {
	if active {
		return "ACTIVE"
	}
	return "INACTIVE"
}

// shown is what an answer says of a provider, as the model says it.
func shown(got map[string]any) string {
	idp, parent := got["idp"].(map[string]any), ""
	if inner, typed := idp["idp"].(map[string]any); typed {
		idp = inner
	}
	if above, ok := got["parent"].(map[string]any); ok {
		parent = above["state"].(string)
	}
	return strings.NewReplacer("EFFECTIVE_STATE_", "", "STATE_POLICY_", "").Replace(fmt.Sprintf("%v %v %s", got["state"], idp["statePolicy"], parent))
}

func TestEveryContextSeesWhatTheModelSays(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	all := tree(c)
	policies := []string{"ACTIVATE", "DEACTIVATE", "INHERIT"}
	rapid.Check(t, func(r *rapid.T) {
		defined := rapid.SampledFrom(all).Draw(r, "defined")
		m := &model{all, defined.name, map[string]string{}}
		m.said[defined.name] = rapid.SampledFrom(policies).Draw(r, "first")
		got := c.Call(0, defined.host, "system", "POST", gitlab+defined.query, fmt.Sprintf(`{"idp":{"name":"x","statePolicy":"STATE_POLICY_%s"},"config":{"clientId":"x"}}`, m.said[defined.name]))
		if got.Status != 201 {
			r.Fatalf("in %s: %d %s", defined.name, got.Status, got.Body)
		}
		made := got.Object(t, "details")["id"].(string)
		for _, at := range all {
			if len(m.path(at.name)) > 1 {
				m.said[at.name] = "INHERIT"
			}
		}
		for range rapid.IntRange(0, 6).Draw(r, "words") {
			at := rapid.SampledFrom(all).Draw(r, "context")
			word := rapid.SampledFrom(policies).Draw(r, "word")
			got := c.With(http.Header{"Writ-Context": {at.header}}).Call(0, m.host(at), "system", "PATCH", gitlab+"/"+made, fmt.Sprintf(`{"idp":{"statePolicy":"STATE_POLICY_%s"}}`, word))
			switch {
			case m.path(at.name) != nil && got.Status == 200:
				m.said[at.name] = word
			case below(all, defined.name, at.name) && got.Status == 200: // whoever may above may where it is defined
				m.said[defined.name] = word
			case got.Status != 404:
				r.Fatalf("%s says %s of what is of %s: %d %s", at.name, word, defined.name, got.Status, got.Body)
			}
		}
		for _, at := range all {
			m.compare(r, c, at, made)
		}
		if got := c.Call(0, defined.host, "system", "DELETE", idps+"/"+made, ""); got.Status != 200 {
			r.Fatalf("deleting it: %d %s", got.Status, got.Body)
		}
	})
	if got := c.Value("SELECT count(*)::text FROM state_policies"); got != "0" {
		t.Errorf("%s words are left of what is gone", got)
	}
}

// host is where a context asks for a provider by its ID, which is one of the instance of the
// host or of the system.
func (m *model) host(at place) string {
	if at.parent != "" {
		return at.host
	}
	return m.tree[slices.IndexFunc(m.tree, func(p place) bool { return p.name == m.defined })].host
}

func below(all []place, name, above string) bool {
	m := &model{tree: all, defined: above}
	return m.path(name) != nil
}

// compare holds what a context is shown, by searching and by reading, to the model.
func (m *model) compare(r *rapid.T, c *servertest.Cluster, at place, id string) {
	seenAt := at.name
	if m.path(at.name) == nil { // not below: above, which sees it as it is where it is defined, or elsewhere
		seenAt = ""
		if below(m.tree, m.defined, at.name) {
			seenAt = m.defined
		}
	}
	want := ""
	if seenAt != "" {
		state, policy, parent := m.sees(seenAt)
		want = state + " " + policy + " " + parent
	}
	for _, state := range []string{"", "ACTIVE", "INACTIVE"} {
		filters := fmt.Sprintf(`[{"id":{"id":%q}}]`, id)
		if state != "" {
			filters = fmt.Sprintf(`[{"id":{"id":%q}},{"state":{"state":"EFFECTIVE_STATE_%s"}}]`, id, state)
		}
		got := c.Call(0, at.host, "system", "POST", idps+"/_search"+at.query, filters)
		if got.Status != 200 {
			r.Fatalf("%s: %d %s", at.name, got.Status, got.Body)
		}
		found := ""
		for _, one := range got.List(c.T, "result") {
			found += shown(one)
		}
		if expected := want; found != expected && (state == "" || strings.HasPrefix(want, state+" ")) || found != "" && !strings.HasPrefix(want, state) {
			r.Fatalf("%s searches %s what is of %s, %v said: got %q, want %q", at.name, state, m.defined, m.said, found, want)
		}
	}
	got := c.With(http.Header{"Writ-Context": {at.header}}).Call(0, m.host(at), "system", "GET", gitlab+"/"+id, "")
	switch {
	case want == "" && got.Status == 404:
	case want == "" || got.Status != 200:
		r.Fatalf("%s reads what is of %s: %d %s", at.name, m.defined, got.Status, got.Body)
	default:
		if found := shown(got.Object(c.T, "idp")); found != want {
			r.Fatalf("%s reads what is of %s, %v said: got %q, want %q", at.name, m.defined, m.said, found, want)
		}
	}
}

func TestSEC233_ASearchShowsWhatTheCallerMayReadInTheirContexts(t *testing.T) {
	t.Parallel()
	c := servertest.New(t, 1, nil)
	for _, at := range tree(c) {
		if got := c.Call(0, at.host, "system", "POST", gitlab+at.query, fmt.Sprintf(`{"idp":{"name":"of %s"},"config":{"clientId":"x"}}`, at.name)); got.Status != 201 {
			t.Fatalf("%s: %s", at.name, got.Body)
		}
	}
	org := "?ctx.orgId="
	for _, test := range []struct{ user, query, want string }{
		{"system", "?ctx.system=true", "of A,of A2,of B,of a,of b,of system"},
		{"system", "", "of A,of A2,of a,of system"},
		{"viewer", "?ctx.system=true", "of A,of A2,of B,of a,of b,of system"},
		{"owner", "", "of A,of A2,of a,of system"},
		{"owner", org + c.Org("A2"), "of A2,of a,of system"},
		{"owner", "?ctx.system=true", "403"},
		{"orgowner", "", "of A,of a,of system"},
		{"orgowner", org + c.Org("A"), "of A,of a,of system"},
		{"orgowner", org + c.Org("A2"), "403"},
		{"orgowner", "?ctx.system=true", "403"},
		{"orgowner", "?ctx.instanceId=" + c.Instance("b"), "403"},
		{"owner", "?ctx.instanceId=" + c.Instance("b"), "404"},
		{"second", "", "of A2,of a,of system"},
		{"nobody", "", "403"},
	} {
		got := c.Do(test.user, "POST", idps+"/_search"+test.query, "[]")
		found := fmt.Sprint(got.Status)
		if got.Status == 200 {
			var names []string
			for _, one := range got.List(t, "result") {
				names = append(names, one["idp"].(map[string]any)["name"].(string))
			}
			slices.Sort(names)
			found = strings.Join(names, ",")
			if total := fmt.Sprint(got.Object(t, "details")["totalResult"]); total != fmt.Sprint(len(names)) {
				t.Errorf("%s %s: %s in total, %d shown", test.user, test.query, total, len(names))
			}
		}
		if found != test.want {
			t.Errorf("%s searches %q: got %s, want %s", test.user, test.query, found, test.want)
		}
	}
}
