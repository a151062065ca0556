package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/policy"
)

// Where collects the conditions of a search. Text of requests only ever becomes
// a parameter.
type Where struct {
	conditions []string
	args       []any
	look       func(sql string, args []any) ([]string, error)
	err        error

	equal string // the column of the last condition that Equal added, and its value
	value any
}

// mostLooked bounds what Lookup returns.
const mostLooked = 10_000

// Lookup returns the texts of a column that a statement on another table finds,
// which ends in WHERE and a condition on Instance; and adds more. The planner
// knows nothing of a subselect's result but all of a list. It returns false when
// the list would be too long; a subselect does then.
func (w *Where) Lookup(sql string, and func(*Where)) ([]string, bool) {
	sub := &Where{args: w.args[:1:1]}
	and(sub)
	found, err := w.look(strings.Join(append([]string{sql}, sub.conditions...), " AND ")+fmt.Sprintf(" LIMIT %d", mostLooked+1), sub.args)
	w.err = errors.Join(w.err, err)
	return NotNull(found), len(found) <= mostLooked
}

// Arg makes value a parameter and returns how SQL refers to it.
func (w *Where) Arg(value any) string {
	w.args = append(w.args, value)
	return fmt.Sprintf("$%d", len(w.args))
}

// Instance is how SQL refers to the instance that is searched.
func (w *Where) Instance() string { return "$1" }

// And adds a condition, a text of this program.
func (w *Where) And(condition string) { w.conditions = append(w.conditions, condition) }

// Any adds the condition that one of some conditions holds.
func (w *Where) Any(conditions []string) { w.And("(" + strings.Join(conditions, " OR ") + ")") }

// SQL returns the conditions, and their parameters so far, for a statement that is not
// one of a Table.
func (w *Where) SQL() (conditions string, args []any) {
	return strings.Join(w.conditions, " AND "), w.args
}

// Text returns the condition of a text filter on a column that has a case-folded
// twin.
func (w *Where) Text(column, text string, method object.TextFilterMethod) string {
	exact, folded := Patterns(text, method)
	var conditions []string
	if exact != nil {
		conditions = append(conditions, column+" LIKE "+w.Arg(*exact))
	}
	if folded != nil {
		conditions = append(conditions, column+"_folded LIKE "+w.Arg(*folded))
	}
	return strings.Join(conditions, " AND ")
}

// Equal adds the condition that a column has a value.
func (w *Where) Equal(column string, value any) {
	w.And(column + " = " + w.Arg(value))
	w.equal, w.value = column, value
}

// In adds the condition that a column has one of some values.
func (w *Where) In(column string, values []string) {
	w.And(column + " = ANY(" + w.Arg(NotNull(values)) + "::text[])")
}

// Time adds the condition of a filter on a time.
func (w *Where) Time(column string, moment *timestamppb.Timestamp, method object.TimestampFilterMethod) {
	w.And(column + timeOperators[method] + w.Arg(moment.AsTime()))
}

// timeOperators are those of TimestampFilterMethod.
var timeOperators = [...]string{" = ", " > ", " >= ", " < ", " <= "}

// Search finds the rows that meet the conditions of filter and that the caller may see,
// within the context of the call. order is the column to sort by. Package storage calls it.
func (t *Table[R, M]) Search(ctx context.Context, query *object.ListQuery, order string, filter func(*Where)) ([]R, *object.ListDetails, error) {
	call, facts := policy.CallFrom(ctx), t.model.Facts()
	w := &Where{look: func(sql string, args []any) ([]string, error) {
		rows, err := t.DB.SearchConn().Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}}
	switch {
	case facts.Reusable:
		facts.seen(w, call)
	default:
		if !facts.System {
			w.And("t.instance_id = " + w.Arg(call.Context.InstanceID)) // $1, see Instance
		}
		within(w, facts, call)
	}
	filter(w)
	if w.err != nil {
		return nil, nil, w.err
	}
	counted := counted(w, facts)
	return Search(ctx, t.DB, call.Context.InstanceID, query, func(ctx context.Context, conn db.DBTX, page Page) ([]R, int64, error) {
		sql, args := searchSQL(w, facts, order, counted, page)
		return t.query(ctx, conn, min(page.Limit, 100), sql, args)
	})
}

// query returns the rows of a statement, each of which ends in a total.
func (t *Table[R, M]) query(ctx context.Context, conn db.DBTX, about int32, sql string, args []any) ([]R, int64, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	found := make([]R, 0, about)
	var total int64
	for rows.Next() {
		found = append(found, *new(R))
		if err := t.model.Scan(rows, &found[len(found)-1], &total); err != nil {
			return nil, 0, err
		}
	}
	return found, total, rows.Err()
}

// counted returns the name under which row_counts has the total of a search, ""
// when it has none: of the whole table, or of one value of a counted column.
func counted(w *Where, facts *Facts) string {
	switch {
	case facts.System, facts.Reusable:
		return ""
	case len(w.conditions) == 1:
		return facts.Table
	case len(w.conditions) == 2 && slices.Contains(facts.Counted, w.equal):
		return fmt.Sprintf("%s/%s/%v", facts.Table, strings.TrimPrefix(w.equal, "t."), w.value)
	}
	return ""
}

// searchSQL returns the statement of a page with its exact total: known from the
// page, from row_counts, or counted.
func searchSQL(w *Where, facts *Facts, sorting, counted string, page Page) (string, []any) {
	where := strings.Join(w.conditions, " AND ")
	if where == "" {
		where = "true"
	}
	args := append(append([]any(nil), w.args...), page.Limit, page.Offset)
	limit, offset := fmt.Sprintf("$%d::int", len(args)-1), fmt.Sprintf("$%d::bigint", len(args))
	direction := " DESC"
	if page.Asc {
		direction = ""
	}
	order := sorting + direction
	if sorting != "t.id" {
		order += ", t.id" + direction
	}
	total := "(SELECT count(*) FROM " + facts.Table + " t WHERE " + where + ")"
	if counted != "" { // $1 is the instance
		args = append(args, counted)
		total = fmt.Sprintf("(SELECT sum(n) FROM row_counts c WHERE c.instance_id = $1 AND c.resource = $%d)", len(args))
	}
	return "WITH page AS (" + facts.Select + " WHERE " + where + " ORDER BY " + order + " LIMIT " + limit + " OFFSET " + offset + ")" +
		" SELECT page.*, CASE WHEN (SELECT count(*) FROM page) < " + limit +
		" THEN (SELECT count(*) FROM page) + " + offset + " ELSE " + total + " END::bigint FROM page", args
}

// within keeps a search to the context of the call and to what the caller may see.
func within(w *Where, facts *Facts, call *policy.Call) {
	scope := call.Scope()
	if call.Context.Level == policyv1.Level_LEVEL_ORG && facts.Org != "" {
		if facts.Reader == "" {
			w.Equal(facts.Org, call.Context.OrgID)
		} else {
			org := w.Arg(call.Context.OrgID)
			w.And("(" + facts.Org + " = " + org + " OR " + facts.Reader + " = " + org + ")")
		}
		if slices.Contains(scope.Orgs, call.Context.OrgID) {
			return
		}
	}
	if scope.All {
		return
	}
	if facts.Org != "" && facts.Reader == "" && len(scope.Orgs) == 1 && len(scope.Projects)+len(scope.ProjectGrants) == 0 && scope.UserID == "" {
		w.Equal(facts.Org, scope.Orgs[0]) // so that its total is known
		return
	}
	var parts []string
	for _, in := range []struct {
		column string
		ids    []string
	}{{facts.Org, scope.Orgs}, {facts.Project, scope.Projects}, {facts.ProjectGrant, scope.ProjectGrants}, {facts.User, []string{scope.UserID}}} {
		if in.column != "" && len(in.ids) > 0 && in.ids[0] != "" {
			parts = append(parts, in.column+" = ANY("+w.Arg(in.ids)+"::text[])")
		}
	}
	if facts.Reader != "" && len(scope.Orgs) > 0 {
		parts = append(parts, facts.Reader+" = ANY("+w.Arg(scope.Orgs)+"::text[])")
	}
	if len(parts) == 0 {
		parts = []string{"false"}
	}
	w.Any(parts)
}
