package main

import (
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// generateJSON writes AppendJSON of message and of the messages in it.
func generateJSON(g *protogen.GeneratedFile, message *protogen.Message) {
	if message.Desc.IsMapEntry() {
		return
	}
	g.P("// AppendJSON appends the message in proto JSON: zero values are written, unset")
	g.P("// optional fields, messages and oneof members are left out.")
	g.P("func (m *", message.GoIdent, ") AppendJSON(b []byte) []byte {")
	g.P("b = append(b, '{')")
	if len(message.Fields) > 0 {
		g.P("open := len(b)")
		for _, field := range message.Fields {
			generateField(g, field)
		}
		g.P("if len(b) > open { b = b[:len(b)-1] } // the last comma")
	}
	g.P("return append(b, '}')")
	g.P("}")
	g.P()
	for _, inner := range message.Messages {
		generateJSON(g, inner)
	}
}

// generateField appends `"name":value,` when the field is to be written.
func generateField(g *protogen.GeneratedFile, field *protogen.Field) {
	value := "m.Get" + field.GoName + "()"
	key := strconv.Quote(strconv.Quote(field.Desc.JSONName()) + ":")
	end := ""
	switch {
	case field.Oneof != nil && !field.Oneof.Desc.IsSynthetic():
		g.P("if o, ok := m.Get", field.Oneof.GoName, "().(*", field.GoIdent, "); ok {")
		value, end = "o."+field.GoName, "}"
	case field.Desc.HasOptionalKeyword() && field.Message == nil:
		g.P("if m.", field.GoName, " != nil {")
		end = "}"
	case field.Message != nil && !field.Desc.IsList() && !field.Desc.IsMap():
		g.P("if v := ", value, "; v != nil {")
		value, end = "v", "}"
	}
	g.P("b = append(b, ", key, "...)")
	switch {
	case field.Desc.IsMap():
		generateMap(g, field, value)
	case field.Desc.IsList():
		g.P("b = append(b, '[')")
		g.P("for i, v := range ", value, " {")
		g.P("if i > 0 { b = append(b, ',') }")
		generateValue(g, field, "v")
		g.P("}")
		g.P("b = append(b, ']')")
	default:
		generateValue(g, field, value)
	}
	g.P("b = append(b, ',')")
	if end != "" {
		g.P(end)
	}
}

// generateMap writes a map in the order of its (string) keys.
func generateMap(g *protogen.GeneratedFile, field *protogen.Field, value string) {
	keys := g.QualifiedGoIdent(protogen.GoImportPath("maps").Ident("Keys"))
	sorted := g.QualifiedGoIdent(protogen.GoImportPath("slices").Ident("Sorted"))
	g.P("b = append(b, '{')")
	g.P("for i, k := range ", sorted, "(", keys, "(", value, ")) {")
	g.P("if i > 0 { b = append(b, ',') }")
	g.P("b = ", wirePackage.Ident("AppendString"), "(b, k)")
	g.P("b = append(b, ':')")
	generateValue(g, field.Message.Fields[1], value+"[k]")
	g.P("}")
	g.P("b = append(b, '}')")
}

func generateValue(g *protogen.GeneratedFile, field *protogen.Field, value string) {
	call := func(name string, args ...any) {
		g.P(append([]any{"b = ", wirePackage.Ident(name), "(b, ", value}, append(args, ")")...)...)
	}
	std := func(name string, format ...any) {
		g.P(append(append([]any{"b = ", protogen.GoImportPath("strconv").Ident(name), "(b, "}, format...), ")")...)
	}
	switch field.Desc.Kind() {
	case protoreflect.StringKind:
		call("AppendString")
	case protoreflect.BytesKind:
		if proto.GetExtension(field.Desc.Options(), policyv1.E_Json).(bool) {
			call("AppendRaw")
			return
		}
		call("AppendBytes")
	case protoreflect.BoolKind:
		std("AppendBool", value)
	case protoreflect.EnumKind:
		names := field.Enum.GoIdent
		names.GoName += "_name"
		call("AppendEnum", ", ", names)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		std("AppendInt", "int64(", value, "), 10")
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		std("AppendUint", "uint64(", value, "), 10")
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		call("AppendInt64")
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		call("AppendUint64")
	case protoreflect.FloatKind:
		g.P("b = ", wirePackage.Ident("AppendFloat"), "(b, float64(", value, "), 32)")
	case protoreflect.DoubleKind:
		call("AppendFloat", ", 64")
	case protoreflect.MessageKind, protoreflect.GroupKind:
		switch field.Message.Desc.FullName() {
		case "google.protobuf.Timestamp":
			call("AppendTimestamp")
		case "google.protobuf.Duration":
			call("AppendDuration")
		default:
			if field.Message.Desc.ParentFile().Package().Parent().Parent() == "writ" {
				g.P("b = ", value, ".AppendJSON(b)")
			} else {
				call("AppendMessage")
			}
		}
	}
}
