package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// record writes the method that fills the payload of an event: all of a new row, of a
// changed one what changed.
func (w *writer) record() {
	w.P("// Record sets the fields of an event that are not set: all of a row that is new or")
	w.P("// going, when old is nil, else what cannot be left out and what changed.")
	w.P("func (", w.name, ") Record(payload ", eventPackage.Ident("Payload"), ", old, r ", w.row, ") error {")
	w.P("switch m := payload.(type) {")
	for _, message := range w.events {
		nodes, err := w.nodes(message)
		if err != nil {
			w.errs = append(w.errs, err)
		}
		w.P("case *", message.GoIdent, ":")
		if len(nodes) == 0 {
			w.P("_ = m // has no fields of the table")
		}
		for _, n := range nodes {
			if n.column == nil {
				w.fail("%s: a payload holds no messages: name the columns by fields of their own", n.field.Desc.FullName())
				continue
			}
			condition := unset(n.field)
			if mayLack(n.field) {
				condition += " && (old == nil || " + w.unequal(n.column, "old", "r") + ")"
			}
			w.P("if ", condition, " {")
			w.fillField(n, "m", &block{})
			w.P("}")
		}
	}
	w.P("default:")
	w.P("return ", resourcePackage.Ident("NotOf"), "(", w.name, "{}.Facts(), payload)")
	w.P("}")
	w.P("return nil")
	w.P("}")
	w.P()
}

// mayLack says whether a field can be left out, which then says that nothing changed. Other
// fields say what the event is about, whatever changed.
func mayLack(field *protogen.Field) bool {
	return field.Desc.IsList() || field.Message != nil || field.Desc.HasOptionalKeyword()
}

// unset is the condition that a field is not set.
func unset(field *protogen.Field) string {
	value := "m." + field.GoName
	switch {
	case field.Desc.IsList() || field.Desc.Kind() == protoreflect.BytesKind:
		return "len(" + value + ") == 0"
	case field.Message != nil || field.Desc.HasOptionalKeyword():
		return value + " == nil"
	}
	return value + " == " + zero(field)
}
