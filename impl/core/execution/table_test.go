package execution

import (
	"fmt"
	"slices"
	"testing"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/webhook"
)

// prepared returns the table of executions, each with a target of its own ID.
func prepared(t *testing.T, includes map[string][]string, ids ...string) *Table {
	t.Helper()
	operations, err := policy.NewOperations(actionv3.ServiceActions_ServiceDesc.ServiceName)
	if err != nil {
		t.Fatal(err)
	}
	p := &preparing{
		engine: &Engine{Config: Config{Operations: operations}}, executions: map[string]*db.AllExecutionsRow{},
		targets: map[string]*webhook.Target{}, runs: map[string]*Run{},
	}
	for _, id := range ids {
		p.executions[id] = &db.AllExecutionsRow{ID: id, Targets: []string{id}, Includes: includes[id]}
		p.targets[id] = &webhook.Target{ID: id}
	}
	return p.table("")
}

func targetsOf(run *Run) (ids []string) {
	if run == nil {
		return nil
	}
	for _, target := range run.Targets {
		ids = append(ids, target.ID)
	}
	return ids
}

func TestTheMostSpecificExecutionRuns(t *testing.T) {
	t.Parallel()
	const added = "user.human.added"
	all := []string{"event", "event.user.*", "event.user.human.*", "event.user.human.added"}
	for n := range all {
		got := targetsOf(prepared(t, nil, all[:n+1]...).Event(added))
		if !slices.Equal(got, all[n:n+1]) {
			t.Errorf("of %q runs %q", all[:n+1], got)
		}
	}
	if run := prepared(t, nil, "event.org.*", "event.user.human.removed", "event.user.human.added.*").Event(added); run != nil {
		t.Errorf("%s runs", run.ID)
	}
	const method = "/writ.action.v3alpha.ServiceActions/GetTarget"
	points := []string{"request", "request.writ.action.v3alpha.ServiceActions", "request." + method}
	for n := range points {
		table := prepared(t, nil, points[:n+1]...)
		around := table.around[method]
		if around == nil || around.Request == nil || around.Response != nil {
			t.Fatalf("%q: %+v", points[:n+1], around)
		}
		if got := table.around["/writ.action.v3alpha.ServiceActions/PatchTarget"]; got == nil {
			t.Errorf("%q: nothing runs around another method", points[:n+1])
		}
	}
	if table := prepared(t, nil, "request."+method); len(table.around) != 1 {
		t.Errorf("something runs around %d methods, want one", len(table.around))
	}
}

func TestAnExecutionWithoutTargetsShadowsOthers(t *testing.T) {
	t.Parallel()
	p := prepared(t, nil, "event")
	if p.Event("user.removed") == nil {
		t.Fatal("nothing runs")
	}
	operations, _ := policy.NewOperations(actionv3.ServiceActions_ServiceDesc.ServiceName)
	shadowed := &preparing{
		engine:     &Engine{Config: Config{Operations: operations}},
		executions: map[string]*db.AllExecutionsRow{"event": {ID: "event", Targets: []string{"t"}}, "event.user.removed": {ID: "event.user.removed"}},
		targets:    map[string]*webhook.Target{"t": {ID: "t"}}, runs: map[string]*Run{},
	}
	if run := shadowed.table("").Event("user.removed"); run != nil {
		t.Errorf("%q runs", run.ID)
	}
}

func TestIncludesExpandInTheirPlace(t *testing.T) {
	t.Parallel()
	includes := map[string][]string{
		"event.user.removed": {"event.user.added", "event.user.*"}, "event.user.added": {"event.org.*"}, "event.org.*": {"event.org.added"},
	}
	ids := []string{"event.user.removed", "event.user.added", "event.user.*", "event.org.*", "event.org.added"}
	got := targetsOf(prepared(t, includes, ids...).Event("user.removed"))
	want := []string{"event.user.removed", "event.user.added", "event.org.*", "event.org.added", "event.user.*"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// Neither a circle nor a chain that is too long hangs: the contract refuses both, but two
	// statements read them.
	circle := map[string][]string{"event.user.removed": {"event.user.added"}, "event.user.added": {"event.user.removed"}}
	if got := targetsOf(prepared(t, circle, ids...).Event("user.removed")); len(got) != 2 {
		t.Errorf("got %q", got)
	}
	long := map[string][]string{}
	var chain []string
	for i := range 10 {
		chain = append(chain, fmt.Sprintf("event.x%d", i))
		long[fmt.Sprintf("event.x%d", i)] = []string{fmt.Sprintf("event.x%d", i+1)}
	}
	long["event.user.removed"] = []string{"event.x0"}
	if got := targetsOf(prepared(t, long, append(chain, "event.user.removed")...).Event("user.removed")); len(got) != 1+maxIncludes {
		t.Errorf("got %q", got)
	}
}

// TestREL020_WhatIsStoredCallsNoMoreTargetsThanMay prepares includes that come to a million
// targets, and includes of a million executions without any.
func TestREL020_WhatIsStoredCallsNoMoreTargetsThanMay(t *testing.T) {
	t.Parallel()
	ids, includes := []string{"event.user.removed"}, map[string][]string{}
	level := ids
	for depth := range 3 {
		var below []string
		for i := range 100 {
			below = append(below, fmt.Sprintf("event.l%d.%d", depth, i))
		}
		for _, id := range level {
			includes[id] = below
		}
		ids, level = append(ids, below...), below
	}
	p := prepared(t, includes, ids...)
	if got := len(p.Event("user.removed").Targets); got != MaxTargets {
		t.Errorf("%d targets are called, want %d", got, MaxTargets)
	}
	operations, _ := policy.NewOperations(actionv3.ServiceActions_ServiceDesc.ServiceName)
	empty := &preparing{engine: &Engine{Config: Config{Operations: operations}}, executions: map[string]*db.AllExecutionsRow{}}
	for _, id := range ids {
		empty.executions[id] = &db.AllExecutionsRow{ID: id, Includes: includes[id]}
	}
	left := MaxTargets
	if got := empty.expand("event.user.removed", nil, &left); len(got) > 0 || left > 0 || left < -maxIncludes-1 {
		t.Errorf("%d targets, and %d steps are left of %d", len(got), left, MaxTargets)
	}
}
