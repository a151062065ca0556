package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	storagev1 "github.com/writ-id/writ/gen/proto/writ/storage/v1"
)

// search writes the function that searches a table: what a request sorts by, and the
// condition of each of its filters.
func (w *writer) search(s *search) {
	name := strings.TrimSuffix(s.request.GoIdent.GoName, "Request")
	own := w.ownFilters(s)
	parameter := ""
	if len(own) > 0 {
		w.P("// ", name, "Filters adds the conditions of the filters of ", name, " that do not compare a column.")
		w.P("type ", name, "Filters interface {")
		for _, field := range own {
			w.P("By", field.GoName, "(*", resourcePackage.Ident("Where"), ", ", w.memberType(field), ")")
		}
		w.P("}")
		w.P()
		parameter = ", own " + name + "Filters"
	}
	row := strings.TrimPrefix(w.row, "*")
	w.P("// ", name, " finds the rows that meet all filters of a request and that the caller may see.")
	w.P("func ", name, "(ctx ", contextPackage.Ident("Context"), ", t *", resourcePackage.Ident("Table"), "[", row, ", ", w.name, "], req *", s.request.GoIdent, parameter, ") ([]", row, ", *", objectPackage.Ident("ListDetails"), ", error) {")
	w.P("order := \"t.creation_date\"")
	w.sorting(s)
	w.P("return t.Search(ctx, req.GetQuery(), order, func(w *", resourcePackage.Ident("Where"), ") {")
	for _, field := range s.request.Fields {
		w.requestField(field)
	}
	if filters := filtersOf(s); filters != nil {
		w.P("for _, one := range req.Get", filters.GoName, "() {")
		oneof := filters.Message.Oneofs[0]
		w.P("switch f := one.Get", oneof.GoName, "().(type) {")
		for _, member := range oneof.Fields {
			w.P("case *", member.GoIdent, ":")
			if isComputed(member) {
				w.P("own.By", member.GoName, "(w, f.", member.GoName, ")")
			} else {
				w.compare(member)
			}
		}
		w.P("}")
		w.P("}")
	}
	w.P("})")
	w.P("}")
	w.P()
}

func filtersOf(s *search) *protogen.Field {
	for _, field := range s.request.Fields {
		if field.Desc.Name() == "filters" && field.Desc.IsList() && field.Message != nil && len(field.Message.Oneofs) == 1 {
			return field
		}
	}
	return nil
}

func (w *writer) ownFilters(s *search) []*protogen.Field {
	var own []*protogen.Field
	if filters := filtersOf(s); filters != nil {
		for _, member := range filters.Message.Oneofs[0].Fields {
			if isComputed(member) {
				own = append(own, member)
			}
		}
	}
	return own
}

func (w *writer) memberType(field *protogen.Field) string {
	if field.Message == nil {
		w.fail("%s: a filter that compares no column has to be a message: make it one", field.Desc.FullName())
		return "any"
	}
	return "*" + w.QualifiedGoIdent(field.Message.GoIdent)
}

// requestField makes a field of a request beside its filters a condition, such as the user
// in its path.
func (w *writer) requestField(field *protogen.Field) {
	if field.Message != nil || field.Enum != nil || isComputed(field) { // ctx, query, sorting_column, filters
		return
	}
	c := w.find(field, []string{string(field.Desc.Name())})
	if c == nil {
		w.fail("%s: the table %s has no column for it: add the column in a migration, or name another by (writ.storage.v1.column)", field.Desc.FullName(), w.GetName())
		return
	}
	w.P("w.Equal(\"t.", c.Name, "\", ", w.toColumn(field, c, "req.Get"+field.GoName+"()"), ")")
}

// sorting writes the choice of the column to sort by.
func (w *writer) sorting(s *search) {
	for _, field := range s.request.Fields {
		if field.Desc.Name() != "sorting_column" {
			continue
		}
		w.P("switch req.Get", field.GoName, "() {")
		prefix := strings.TrimSuffix(string(field.Enum.Values[0].Desc.Name()), "UNSPECIFIED")
		for _, value := range field.Enum.Values[1:] {
			name := proto.GetExtension(value.Desc.Options(), storagev1.E_Sort).(string)
			if name == "" {
				name = strings.ToLower(strings.TrimPrefix(string(value.Desc.Name()), prefix))
			}
			c := w.rows.column(name)
			if c == nil {
				c = w.rows.column(name + "_nanos")
			}
			if c == nil {
				w.fail("%s: the table %s has no column %s to sort by: add the column in a migration, or name another by (writ.storage.v1.sort)", value.Desc.FullName(), w.GetName(), name)
				continue
			}
			sql := "t." + quoted(c.Name)
			if c.Type == "*bool" { // what is not said is not so
				sql = "coalesce(" + sql + ", false)"
			}
			w.P("case ", value.GoIdent, ":")
			w.P("order = ", fmt.Sprintf("%q", sql))
		}
		w.P("}")
	}
}

// compare writes the condition of a filter that compares a column: a scalar by equality, a
// list by membership, a text or time by the method it says.
func (w *writer) compare(member *protogen.Field) {
	name := string(member.Desc.Name())
	value := "f." + member.GoName
	if member.Message == nil {
		w.equal(member, name, member, value)
		return
	}
	first := member.Message.Fields[0]
	value += ".Get" + first.GoName + "()"
	method := "f." + member.GoName + ".GetMethod()"
	var by protoreflect.FullName
	for _, field := range member.Message.Fields[1:] {
		if field.Desc.Name() == "method" && field.Enum != nil {
			by = field.Enum.Desc.FullName()
		}
	}
	switch {
	case first.Desc.IsList():
		if c := w.filtered(member, strings.TrimSuffix(strings.TrimPrefix(name, "in_"), "s")); c != nil {
			w.P("w.In(\"t.", c.Name, "\", ", value, ")")
		}
	case by == "writ.object.v3alpha.TimestampFilterMethod":
		if c := w.filtered(member, name); c != nil {
			w.P("w.Time(\"t.", c.Name, "\", ", value, ", ", method, ")")
		}
	case by == "writ.object.v3alpha.TextFilterMethod":
		if c := w.filtered(member, name); c != nil {
			if w.rows.column(c.Name+"_folded") == nil {
				w.fail("%s: the column %s has no folded twin: add %[2]s_folded in a migration", member.Desc.FullName(), c.Name)
			}
			w.P("w.And(w.Text(\"t.", c.Name, "\", ", value, ", ", method, "))")
		}
	default:
		w.equal(member, name, first, value)
	}
}

// filtered returns the column of a filter.
func (w *writer) filtered(member *protogen.Field, name string) *column {
	c := w.find(member, []string{name})
	if c == nil {
		c = w.rows.column(name + "_id") // a filter user of a user_id
	}
	if c == nil {
		w.fail("%s: the table %s has no column for it: add the column in a migration, or name another by (writ.storage.v1.column)", member.Desc.FullName(), w.GetName())
	}
	return c
}

func (w *writer) equal(member *protogen.Field, name string, field *protogen.Field, value string) {
	c := w.filtered(member, name)
	if c == nil {
		return
	}
	if field.Enum != nil {
		value = "int16(" + value + ")"
	} else {
		value = w.toColumn(field, c, value)
	}
	w.P("w.Equal(\"t.", c.Name, "\", ", value, ")")
}
