package resource

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/policy"
)

// Where collects the conditions of a search. Text of requests only ever becomes
// a parameter.
type Where struct {
	conditions []string
	args       []any
	look       func(sql string, args []any) ([]string, error)
	err        error
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

// FilterFunc adds the condition of one filter, the value of a member of the
// filter oneof.
type FilterFunc func(*Where, protoreflect.Value)

// Search finds the rows that meet all filters of a request and that the caller
// may see, within the context of the call. The request has the fields query,
// filters and, where the contract has it, sorting_column.
//
// A member of the filter oneof compares the column of its name: a scalar by
// equality, an enum or bool by its value, a list (in_ids: id) by membership, a
// text or time by the method it says.
func (t *Table[R]) Search(ctx context.Context, req proto.Message, keys ...Key) ([]R, *object.ListDetails, error) {
	call, request := policy.CallFrom(ctx), req.ProtoReflect()
	w := &Where{look: func(sql string, args []any) ([]string, error) {
		rows, err := t.DB.SearchConn(ctx).Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}}
	if !t.System {
		w.And("t.instance_id = " + w.Arg(call.Context.InstanceID)) // $1, see Instance
	}
	for _, key := range keys {
		w.And(t.column(key.Column).sql + " = " + w.Arg(key.Value))
	}
	t.within(w, call)
	t.filter(w, request)
	if w.err != nil {
		return nil, nil, w.err
	}
	counted := t.counted(w)
	query, _ := request.Get(request.Descriptor().Fields().ByName("query")).Message().Interface().(*object.ListQuery)
	sorting := t.sorting(request)

	type found struct {
		row   R
		total int64
	}
	rows, details, err := Search(ctx, t.DB, call.Context.InstanceID, query,
		func(ctx context.Context, tx db.DBTX, page Page) ([]found, error) {
			sql, args := t.searchSQL(w, sorting, counted, page)
			rows, err := tx.Query(ctx, sql, args...)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			var all []found
			for rows.Next() {
				all = append(all, found{})
				last := &all[len(all)-1]
				if err := rows.Scan(append(t.targets(&last.row), &last.total)...); err != nil {
					return nil, err
				}
			}
			return all, rows.Err()
		}, func(f *found) int64 { return f.total })
	if err != nil {
		return nil, nil, err
	}
	result := make([]R, len(rows))
	for i := range rows {
		result[i] = rows[i].row
	}
	return result, details, nil
}

// counted returns the name under which row_counts has the total of a search, ""
// when it has none: of the whole table, or of one value of a counted column.
func (t *Table[R]) counted(w *Where) string {
	switch {
	case t.System:
		return ""
	case len(w.conditions) == 1:
		return t.Table
	case len(w.conditions) == 2 && len(w.args) == 2:
		for _, name := range t.Counted {
			if w.conditions[1] == t.column(name).sql+" = $2" {
				return fmt.Sprintf("%s/%s/%v", t.Table, name, reflect.Indirect(reflect.ValueOf(w.args[1])).Interface())
			}
		}
	}
	return ""
}

// searchSQL returns the statement of a page with its exact total: known from the
// page, from row_counts, or counted.
func (t *Table[R]) searchSQL(w *Where, sorting, counted string, page Page) (string, []any) {
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
	total := "(SELECT count(*) FROM " + t.Table + " t WHERE " + where + ")"
	if counted != "" { // $1 is the instance
		args = append(args, counted)
		total = fmt.Sprintf("(SELECT sum(n) FROM row_counts c WHERE c.instance_id = $1 AND c.resource = $%d)", len(args))
	}
	return "WITH page AS (" + t.selectSQL + where + " ORDER BY " + order + " LIMIT " + limit + " OFFSET " + offset + ")" +
		" SELECT page.*, CASE WHEN (SELECT count(*) FROM page) < " + limit +
		" THEN (SELECT count(*) FROM page) + " + offset + " ELSE " + total + " END::bigint FROM page", args
}

// within keeps a search to the context of the call and to what the caller may see.
func (t *Table[R]) within(w *Where, call *policy.Call) {
	scope := call.Scope()
	if call.Context.Level == policyv1.Level_LEVEL_ORG && t.place[0] != nil {
		org := w.Arg(call.Context.OrgID)
		condition := t.place[0].sql + " = " + org
		if t.reader != nil {
			condition = "(" + condition + " OR " + t.reader.sql + " = " + org + ")"
		}
		w.And(condition)
		if slices.Contains(scope.Orgs, call.Context.OrgID) {
			return
		}
	}
	if scope.All {
		return
	}
	if t.place[0] != nil && t.reader == nil && len(scope.Orgs) == 1 && len(scope.Projects)+len(scope.ProjectGrants) == 0 && scope.UserID == "" {
		w.And(t.place[0].sql + " = " + w.Arg(scope.Orgs[0])) // so that its total is known
		return
	}
	var any []string
	for i, ids := range [4][]string{scope.Orgs, scope.Projects, scope.ProjectGrants, {scope.UserID}} {
		if t.place[i] != nil && len(ids) > 0 && ids[0] != "" {
			any = append(any, t.place[i].sql+" = ANY("+w.Arg(ids)+"::text[])")
		}
	}
	if t.reader != nil && len(scope.Orgs) > 0 {
		any = append(any, t.reader.sql+" = ANY("+w.Arg(scope.Orgs)+"::text[])")
	}
	if len(any) == 0 {
		any = []string{"false"}
	}
	w.And("(" + strings.Join(any, " OR ") + ")")
}

// sorting returns what the request wants to be sorted by.
func (t *Table[R]) sorting(request protoreflect.Message) string {
	field := request.Descriptor().Fields().ByName("sorting_column")
	if field == nil || request.Get(field).Enum() == 0 {
		return "t.creation_date"
	}
	values := field.Enum().Values()
	prefix := strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
	name := strings.ToLower(strings.TrimPrefix(string(values.ByNumber(request.Get(field).Enum()).Name()), prefix))
	if sql := t.Sort[name]; sql != "" {
		return sql
	}
	return t.column(name).sql
}

// filter adds the filters of a request.
func (t *Table[R]) filter(w *Where, request protoreflect.Message) {
	field := request.Descriptor().Fields().ByName("filters")
	if field == nil {
		return
	}
	list := request.Get(field).List()
	for i := range list.Len() {
		one := list.Get(i).Message()
		member := one.WhichOneof(one.Descriptor().Oneofs().Get(0))
		value := one.Get(member)
		if own := t.Filters[string(member.Name())]; own != nil {
			own(w, value)
		} else {
			t.compare(w, member, value)
		}
	}
}

func (t *Table[R]) compare(w *Where, member protoreflect.FieldDescriptor, value protoreflect.Value) {
	name := string(member.Name())
	if member.Message() == nil {
		t.equals(w, name, member, value)
		return
	}
	message := value.Message()
	fields := message.Descriptor().Fields()
	first := fields.Get(0)
	switch method := fields.ByName("method"); {
	case first.IsList():
		name = strings.TrimSuffix(strings.TrimPrefix(name, "in_"), "s")
		values := []string{}
		for i := range message.Get(first).List().Len() {
			values = append(values, message.Get(first).List().Get(i).String())
		}
		w.And(t.column(name).sql + " = ANY(" + w.Arg(values) + "::text[])")
	case method == nil:
		t.equals(w, name, first, message.Get(first))
	case method.Enum().FullName() == timeMethods:
		moment := message.Get(first).Message().Interface().(*timestamppb.Timestamp).AsTime()
		w.And(t.column(name).sql + timeOperators[message.Get(method).Enum()] + w.Arg(moment))
	default:
		t.column(name + "_folded")
		w.And(w.Text(t.column(name).sql, message.Get(first).String(), object.TextFilterMethod(message.Get(method).Enum())))
	}
}

func (t *Table[R]) equals(w *Where, name string, field protoreflect.FieldDescriptor, value protoreflect.Value) {
	c := t.find([]string{name})
	if c == nil {
		c = t.column(name + "_id") // filter user of a user_id
	}
	holder := new(R)
	setColumn(c.value(reflect.ValueOf(holder)), field, value)
	w.And(c.sql + " = " + w.Arg(c.value(reflect.ValueOf(holder)).Interface()))
}

var timeMethods = object.TimestampFilterMethod(0).Descriptor().FullName()

// timeOperators are those of TimestampFilterMethod.
var timeOperators = [...]string{" = ", " > ", " >= ", " < ", " <= "}
