package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unreachable are the columns that no request sets: where a row is, and what the server
// alone writes.
var unreachable = []string{"instance_id", "id", "org_id", "sequence", "creation_date", "change_date"}

// assign writes the function that sets the columns of a row to the fields of a request.
func (w *writer) assign(message *protogen.Message) {
	name := message.GoIdent.GoName
	w.P("// Assign", name, " sets the columns of r to the fields that are present in m.")
	w.P("func Assign", name, "(r ", w.row, ", m *", message.GoIdent, ") {")
	nodes, err := w.nodes(message)
	if err != nil {
		w.errs = append(w.errs, err)
	}
	w.assignNodes(nodes, "m", 0)
	w.P("}")
	w.P()
}

func (w *writer) assignNodes(nodes []*node, from string, depth int) {
	for _, n := range nodes {
		if n.column != nil && !w.moving && slices.Contains(unreachable, n.column.Name) {
			w.fail("%s: a request must not reach the column %s: remove the field, or set (writ.storage.v1.computed) = true", n.field.Desc.FullName(), n.column.Name)
		}
		if n.column != nil && w.stored.column(n.column.Name) == nil {
			w.fail("%s: the column %s is only read: remove the field, or set (writ.storage.v1.computed) = true", n.field.Desc.FullName(), n.column.Name)
		}
		oneof := n.field.Oneof
		switch {
		case oneof == nil || oneof.Desc.IsSynthetic():
			w.assignField(n, from, depth)
		case oneof.Fields[0] == n.field || isComputed(oneof.Fields[0]): // once for all members
			w.assignOneof(oneof, nodes, from, depth)
		}
	}
}

// assignOneof sets what the member that is set says; the columns of the others are unset.
func (w *writer) assignOneof(oneof *protogen.Oneof, nodes []*node, from string, depth int) {
	kind, err := w.kindOf(oneof)
	if err != nil {
		w.errs = append(w.errs, err)
	}
	var members []*node
	for _, n := range nodes {
		if n.field.Oneof == oneof {
			members = append(members, n)
		}
	}
	v := fmt.Sprintf("v%d", depth)
	w.P("switch ", v, " := ", from, ".Get", oneof.GoName, "().(type) {")
	for _, n := range members {
		w.P("case *", n.field.GoIdent, ":")
		if kind != nil {
			w.P("r.", kind.Go, " = ", w.kindValue(kind, n.field))
		}
		if n.column == nil {
			w.assignBelow(n, v+"."+n.field.GoName, depth+1)
			continue
		}
		if !n.column.pointer() {
			w.fail("%s: a member of a oneof needs a column that can be NULL: drop NOT NULL in a migration", n.field.Desc.FullName())
			continue
		}
		for _, other := range members {
			if other != n && other.column != nil {
				w.P("r.", other.column.Go, " = nil")
			}
		}
		w.P("r.", n.column.Go, " = &", v, ".", n.field.GoName)
	}
	w.P("}")
}

// kindValue is the value of the column of a oneof that stands for a member.
func (w *writer) kindValue(kind *column, field *protogen.Field) string {
	if kind.Type == "string" {
		return fmt.Sprintf("%q", string(field.Desc.Name()))
	}
	return w.kindEnum(kind, field)
}

// kindEnum finds the one enumeration value in the file of a member's type that stands for
// the member: its name is that of the enumeration and the member's.
func (w *writer) kindEnum(kind *column, field *protogen.Field) string {
	end := "_" + strings.ToUpper(string(field.Desc.Name()))
	file, in := field.Desc.ParentFile(), field.Parent.GoIdent
	if field.Message != nil {
		file, in = field.Message.Desc.ParentFile(), field.Message.GoIdent
	}
	enums := file.Enums()
	for i := range enums.Len() {
		values := enums.Get(i).Values()
		for j := range values.Len() {
			name := string(values.Get(j).Name())
			prefix := strings.TrimSuffix(string(values.Get(0).Name()), "_UNSPECIFIED")
			if name == prefix+end && (strings.HasSuffix(prefix, "_TYPE")) {
				return w.QualifiedGoIdent(in.GoImportPath.Ident(string(enums.Get(i).Name()) + "_" + name))
			}
		}
	}
	w.fail("%s: no value of an enumeration ends with %s, for the column %s: rename the member, or add the value", field.Desc.FullName(), end, kind.Name)
	return "0"
}

// assignBelow sets the columns of a message within the message.
func (w *writer) assignBelow(n *node, value string, depth int) {
	if slices.Contains(w.assigned, n.field.Message) {
		w.P("Assign", n.field.Message.GoIdent.GoName, "(r, ", value, ")")
		return
	}
	w.assignNodes(n.below, value, depth)
}

func (w *writer) assignField(n *node, from string, depth int) {
	f, c, v := n.field, n.column, fmt.Sprintf("v%d", depth)
	get := from + ".Get" + f.GoName + "()"
	set := func(value string) {
		if c.pointer() {
			w.P("column := ", value)
			w.P("r.", c.Go, " = &column")
		} else {
			w.P("r.", c.Go, " = ", value)
		}
	}
	switch {
	case n.details:
		w.fail("%s: a request has no details: remove the field", f.Desc.FullName())
		return
	case c == nil:
		if len(n.below) == 0 {
			return
		}
		w.P("if ", v, " := ", get, "; ", v, " != nil {")
		w.assignBelow(n, v, depth+1)
	case f.Desc.IsList():
		w.P("if ", v, " := ", get, "; len(", v, ") > 0 {")
		set(w.toColumn(f, c, v))
	case f.Message != nil:
		w.P("if ", v, " := ", get, "; ", v, " != nil {")
		switch f.Message.Desc.FullName() {
		case "google.protobuf.Duration":
			set(c.base() + "(" + v + ".AsDuration())")
		case "google.protobuf.Timestamp":
			set(v + ".AsTime().Truncate(" + w.QualifiedGoIdent(timePackage.Ident("Microsecond")) + ")")
		case "google.protobuf.Struct":
			set(w.QualifiedGoIdent(resourcePackage.Ident("JSON")) + "(" + v + ")")
		default:
			inner := listWithin(f)
			set(w.toColumn(inner, c, v+".Get"+inner.GoName+"()"))
		}
	case f.Desc.HasOptionalKeyword():
		w.P("if ", from, ".", f.GoName, " != nil {")
		set(w.toColumn(f, c, get))
	case f.Desc.Kind() == protoreflect.BytesKind:
		w.P("if ", v, " := ", get, "; len(", v, ") > 0 {")
		set(v)
	default:
		w.P("if ", v, " := ", get, "; ", v, " != ", zero(f), " {")
		set(w.toColumn(f, c, v))
	}
	w.P("}")
}

// zero is the value of a scalar that is not set.
func zero(field *protogen.Field) string {
	switch field.Desc.Kind() {
	case protoreflect.StringKind:
		return `""`
	case protoreflect.BoolKind:
		return "false"
	}
	return "0"
}
