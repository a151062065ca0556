package action

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// maxIncludeDepth is how many includes may follow one another.
const maxIncludeDepth = 3

// checkIncludes refuses includes that do not exist, are of another condition
// type, lead back to the execution or make a chain that is too long. It holds
// the include graph of the instance until the transaction ends, so two changes
// cannot build a cycle together.
func (s *Service) checkIncludes(ctx context.Context, tx pgx.Tx, id string, includes []string) error {
	if len(includes) == 0 {
		return nil // taking includes away breaks no rule
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
	return nil
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

// longest returns the length of the longest chain of edges from id.
func longest(edges map[string][]string, id string) int {
	longestBelow := 0
	for _, next := range edges[id] {
		longestBelow = max(longestBelow, 1+longest(edges, next))
	}
	return longestBelow
}
