package resource

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// column is a field of R and the SQL it is read from.
type column struct {
	name  string
	sql   string
	index []int
	kind  reflect.Kind // of what it holds; of a pointer what it points to
}

// twin is a text and its case-folded copy, which text filters compare.
type twin struct{ text, folded *column }

// read collects the columns of a struct.
func (t *Table[R]) read(of reflect.Type, index []int, computed *[]column) {
	for i := range of.NumField() {
		field := of.Field(i)
		at := append(append([]int(nil), index...), i)
		name, expression := field.Tag.Get("db"), field.Tag.Get("sql")
		switch {
		case field.Anonymous:
			t.read(field.Type, at, computed)
		case expression != "":
			*computed = append(*computed, column{snake(field.Name), expression, at, kindOf(field.Type)})
		case name != "":
			t.columns = append(t.columns, column{name, "t." + name, at, kindOf(field.Type)})
		default:
			panic(fmt.Sprintf("resource: %s.%s is no column", of, field.Name))
		}
	}
}

func kindOf(of reflect.Type) reflect.Kind {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of.Kind()
}

// column returns a column that has to be there.
func (t *Table[R]) column(name string) *column {
	if c := t.byName[name]; c != nil {
		return c
	}
	panic(fmt.Sprintf("resource: %s has no column %s", t.Table, name))
}

// eventParameters is how many parameters append_event takes; they follow those of
// the row.
const eventParameters = 9

// prepare writes the statements.
func (t *Table[R]) prepare() {
	var read, names, values, sets []string
	for i, c := range t.columns {
		read = append(read, c.sql+" AS "+c.name)
		if i >= t.stored {
			continue
		}
		parameter := fmt.Sprintf("$%d", i+1)
		if c.name == "sequence" {
			var appended []string
			for j := range eventParameters {
				appended = append(appended, fmt.Sprintf("$%d", t.stored+j+1))
			}
			// The row's own parameter of the sequence is there but not used: the
			// cast gives it a type.
			parameter = "coalesce(append_event(" + strings.Join(appended, ", ") + "), " + parameter + "::bigint)"
		}
		name := `"` + c.name + `"` // some are words of SQL, such as group
		set := parameter
		if slices.Contains(t.Growing, c.name) {
			set = "greatest(t." + name + ", " + parameter + ")"
		}
		names, values, sets = append(names, name), append(values, parameter), append(sets, name+" = "+set)
	}
	t.selectSQL = "SELECT " + strings.Join(read, ", ") + " FROM " + t.Table + " t WHERE "
	t.insertSQL = "INSERT INTO " + t.Table + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ") RETURNING sequence"
	key := fmt.Sprintf("t.id = $%d", t.at("id"))
	if t.Under != "" {
		key += fmt.Sprintf(" AND t.%s = $%d", t.Under, t.at(t.Under))
	}
	if !t.System {
		key = fmt.Sprintf("t.instance_id = $%d AND %s", t.at("instance_id"), key)
	}
	t.updateSQL = "UPDATE " + t.Table + " t SET " + strings.Join(sets, ", ") + " WHERE " + key + " RETURNING sequence"
}

// at returns the parameter number of a stored column.
func (t *Table[R]) at(name string) int {
	for i := range t.columns {
		if t.columns[i].name == name {
			return i + 1
		}
	}
	panic(fmt.Sprintf("resource: %s has no column %s", t.Table, name))
}

// value returns the column of a row.
func (c *column) value(row reflect.Value) reflect.Value { return row.Elem().FieldByIndex(c.index) }

// text returns a column of text, "" for NULL or when there is no such column.
func (c *column) text(row reflect.Value) string {
	if c == nil {
		return ""
	}
	v := c.value(row)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	return v.String()
}

// snake spells a Go name as a column.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' && i > 0 && name[i-1] >= 'a' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}
