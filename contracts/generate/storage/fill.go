package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fill writes the function that makes an answer of a row. All messages that it certainly
// has are one allocation: a search makes a thousand answers.
func (w *writer) fill(message *protogen.Message) {
	nodes, err := w.nodes(message)
	if err != nil {
		w.errs = append(w.errs, err)
	}
	name := message.GoIdent.GoName
	b := &block{name: "answer" + name, names: map[*node]string{}}
	b.collect(nodes)
	w.P("// ", b.name, " is what a ", name, " is made of.")
	w.P("type ", b.name, " struct {")
	w.P("m ", message.GoIdent)
	for _, part := range b.parts {
		w.P(part.name, " ", part.of)
	}
	w.P("}")
	w.P()
	w.P("// New", name, " returns the answer that shows r.")
	w.P("func New", name, "(r ", w.row, ") *", message.GoIdent, " {")
	w.P("b := &", b.name, "{}")
	w.P("m := &b.m")
	w.fillNodes(nodes, "m", b)
	w.P("return m")
	w.P("}")
	w.P()
}

// block collects the messages that an answer is made of.
type block struct {
	name  string
	parts []part
	names map[*node]string
}

type part struct {
	name string
	of   protogen.GoIdent
}

func (b *block) add(n *node, of protogen.GoIdent) {
	b.names[n] = fmt.Sprintf("p%d", len(b.parts))
	b.parts = append(b.parts, part{b.names[n], of})
}

func (b *block) collect(nodes []*node) {
	for _, n := range nodes {
		switch {
		case n.details:
			b.add(n, resourcePackage.Ident("DetailsBlock"))
		case n.column == nil:
			b.add(n, n.field.Message.GoIdent)
			b.collect(n.below)
		case n.field.Message != nil && !n.field.Desc.IsList() && listWithin(n.field) == nil:
			if name := n.field.Message.Desc.FullName(); name == "google.protobuf.Timestamp" || name == "google.protobuf.Duration" {
				b.add(n, n.field.Message.GoIdent)
			}
		}
	}
}

// message is an expression for the empty message of a node, "nil" when none is kept for it.
func (b *block) message(n *node) string {
	if b.names[n] == "" {
		return "nil"
	}
	return "&b." + b.names[n]
}

func (w *writer) fillNodes(nodes []*node, to string, b *block) {
	for _, n := range nodes {
		oneof := n.field.Oneof
		switch {
		case n.details:
			w.P(to, ".", n.field.GoName, " = b.", b.names[n], ".Set(", w.name, "{}.Head(r))")
		case oneof != nil && !oneof.Desc.IsSynthetic():
			if i := slices.IndexFunc(nodes, func(one *node) bool { return one.field.Oneof == oneof }); nodes[i] == n {
				w.fillOneof(oneof, nodes, to, b)
			}
		case n.column == nil:
			inner := fmt.Sprintf("%s%s", to, n.field.GoName)
			w.P(inner, " := &b.", b.names[n])
			w.P(to, ".", n.field.GoName, " = ", inner)
			w.fillNodes(n.below, inner, b)
		default:
			w.fillField(n, to, b)
		}
	}
}

func (w *writer) fillOneof(oneof *protogen.Oneof, nodes []*node, to string, b *block) {
	kind, err := w.kindOf(oneof)
	if err != nil {
		w.errs = append(w.errs, err)
	}
	w.P("switch {")
	for _, n := range nodes {
		if n.field.Oneof != oneof {
			continue
		}
		wrapped := func(value string) {
			w.P(to, ".", oneof.GoName, " = &", n.field.GoIdent, "{", n.field.GoName, ": ", value, "}")
		}
		switch {
		case kind != nil:
			w.P("case r.", kind.Go, " == ", w.kindValue(kind, n.field), ":")
			inner := fmt.Sprintf("%s%s", to, n.field.GoName)
			w.P(inner, " := &b.", b.names[n])
			wrapped(inner)
			w.fillNodes(n.below, inner, b)
		case n.column != nil && n.column.pointer():
			w.P("case r.", n.column.Go, " != nil:")
			wrapped(w.toField(n.field, n.column, "*r."+n.column.Go))
		default:
			w.fail("%s: nothing says when it is set: give its oneof (writ.storage.v1.kind), or drop NOT NULL of the column in a migration", n.field.Desc.FullName())
		}
	}
	w.P("}")
}

// fillField sets a field to a column.
func (w *writer) fillField(n *node, to string, b *block) {
	f, c := n.field, n.column
	value := "r." + c.Go
	if c.pointer() && (f.Message != nil || !f.Desc.HasOptionalKeyword() || !isSame(f, c)) {
		w.P("if ", value, " != nil {")
		defer w.P("}")
		value = "*" + value
	}
	field := to + "." + f.GoName
	switch {
	case f.Desc.IsList():
		w.P(field, " = ", w.toField(f, c, value))
	case f.Message != nil:
		w.fillMessage(n, field, value, b)
	case !f.Desc.HasOptionalKeyword(), f.Desc.Kind() == protoreflect.BytesKind: // nil is absent
		w.P(field, " = ", w.toField(f, c, value))
	case c.pointer() && isSame(f, c):
		w.P(field, " = ", value)
	default:
		w.P("value", c.Go, " := ", w.toField(f, c, value))
		w.P(field, " = &value", c.Go)
	}
}

func (w *writer) fillMessage(n *node, field, value string, b *block) {
	in := b.message(n)
	call := func(name string, args ...string) string {
		return w.QualifiedGoIdent(resourcePackage.Ident(name)) + "(" + strings.Join(args, ", ") + ")"
	}
	switch n.field.Message.Desc.FullName() {
	case "google.protobuf.Duration":
		w.P(field, " = ", call("Duration", in, value))
	case "google.protobuf.Timestamp":
		w.P(field, " = ", call("Timestamp", in, value))
	case "google.protobuf.Struct":
		w.P(field, " = ", call("Struct", value))
	default:
		inner := listWithin(n.field)
		w.P(field, " = &", n.field.Message.GoIdent, "{", inner.GoName, ": ", w.toField(inner, n.column, value), "}")
	}
}
