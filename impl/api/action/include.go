package action

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// maxIncludeDepth is how many includes may follow one another.
const maxIncludeDepth = 3

// checkIncludes refuses includes that do not exist, are of another condition
// type, lead back to the execution or make a chain that is too long, and what has more
// targets called than may be: by the execution, and by those that include it. It holds
// the include graph of the instance until the transaction ends, so two changes
// cannot build a cycle together.
func (s *Service) checkIncludes(ctx context.Context, tx pgx.Tx, id string, targets, includes []string) error {
	if len(targets)+len(includes) == 0 {
		return nil // taking away breaks no rule
	}
	instanceID := policy.CallFrom(ctx).Context.InstanceID
	kind := typeOfExecution(id)
	if err := s.queries.LockIncludes(ctx, tx, instanceID); err != nil {
		return err
	}
	existing, err := s.queries.ExistingExecutions(ctx, tx, db.ExistingExecutionsParams{InstanceID: instanceID, Ids: includes})
	if err != nil {
		return err
	}
	for i, include := range includes {
		field := fmt.Sprintf("execution.includes[%d]", i)
		switch {
		case include == id:
			return fault.Invalid("INCLUDE_CYCLE", field, "an execution cannot include itself")
		case !slices.Contains(existing, include):
			return fault.New(fault.NotFound, "INCLUDE_NOT_FOUND", "there is no execution %q", include).On(field)
		case typeOfExecution(include) != kind:
			return fault.Invalid("INCLUDE_TYPE", field, "%q has a condition of another type than %q", include, id)
		}
	}
	edges, err := s.queries.IncludeEdges(ctx, tx, db.IncludeEdgesParams{InstanceID: instanceID, ConditionType: kind})
	if err != nil {
		return err
	}
	graph := includeGraph{below: map[string][]string{}, above: map[string][]string{}}
	for _, edge := range edges {
		if edge.ExecutionID != id { // its includes are being replaced
			graph.add(edge.ExecutionID, edge.IncludeID)
		}
	}
	above := longest(graph.above, id)
	for i, include := range includes {
		field := fmt.Sprintf("execution.includes[%d]", i)
		if graph.leadsTo(include, id) {
			return fault.Invalid("INCLUDE_CYCLE", field, "%q already includes %q", include, id)
		}
		if depth := above + 1 + longest(graph.below, include); depth > maxIncludeDepth {
			return fault.Invalid("INCLUDE_DEPTH", field, "includes would follow one another %d deep; %d is the limit", depth, maxIncludeDepth)
		}
	}
	for _, include := range includes {
		graph.add(id, include)
	}
	counts, err := s.queries.TargetCounts(ctx, tx, db.TargetCountsParams{InstanceID: instanceID, ConditionType: kind})
	if err != nil {
		return err
	}
	sizes := sizes{graph: graph, own: map[string]int{}, known: map[string]int{}}
	for _, count := range counts {
		sizes.own[count.ExecutionID] = int(count.Targets)
	}
	sizes.own[id] = len(targets)
	for _, affected := range graph.over(id) {
		if size := sizes.of(affected); size > execution.MaxTargets {
			field := "execution.includes"
			if len(includes) == 0 {
				field = "execution.targets"
			}
			return fault.Invalid("TOO_MANY_TARGETS", field, "%q would call %d targets, those of its includes among them; %d is the limit", affected, size, execution.MaxTargets)
		}
	}
	return nil
}

// sizes are how many targets executions call, with those of their includes; an include
// without any counts as one.
type sizes struct {
	graph      includeGraph
	own, known map[string]int
}

func (s sizes) of(id string) int {
	if size, ok := s.known[id]; ok {
		return size
	}
	size := s.own[id]
	for _, include := range s.graph.below[id] {
		size += max(s.of(include), 1)
	}
	s.known[id] = size
	return size
}

// includeGraph holds who includes whom; it has no cycles.
type includeGraph struct {
	below map[string][]string // what an execution includes
	above map[string][]string // what includes it
}

func (g includeGraph) add(execution, include string) {
	g.below[execution] = append(g.below[execution], include)
	g.above[include] = append(g.above[include], execution)
}

func (g includeGraph) leadsTo(from, to string) bool {
	return from == to || slices.ContainsFunc(g.below[from], func(next string) bool { return g.leadsTo(next, to) })
}

// over returns an execution and all that include it, each once.
func (g includeGraph) over(id string) []string {
	all := []string{id}
	for i := 0; i < len(all); i++ {
		for _, next := range g.above[all[i]] {
			if !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}

// longest returns the length of the longest chain of edges from id.
func longest(edges map[string][]string, id string) int {
	longestBelow := 0
	for _, next := range edges[id] {
		longestBelow = max(longestBelow, 1+longest(edges, next))
	}
	return longestBelow
}
