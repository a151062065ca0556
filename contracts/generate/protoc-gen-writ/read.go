package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/impl/core/wire"
)

// What cannot be read, neither from a body nor from a query.
var (
	errKind   = errors.New("nothing reads a field of this kind from JSON: use another, or teach contracts/generate/protoc-gen-writ/read.go")
	errFields = errors.New("a message that is read has " + strconv.Itoa(wire.MaxFields) + " fields at most: put some of them into a message of their own")
	errQuery  = errors.New("a field of this kind has no form as a query parameter: put it into the body, or use a text, number, truth value or enumeration")
)

// readable are the messages that requests, and files that are imported, are made of.
type readable map[protoreflect.FullName]bool

func (r readable) add(message *protogen.Message) {
	if r[message.Desc.FullName()] || wellKnown[message.Desc.FullName()] != "" {
		return
	}
	r[message.Desc.FullName()] = true
	for _, field := range message.Fields {
		if field.Message != nil {
			r.add(field.Message)
		}
	}
}

// wellKnown are the methods of wire.Reader that read the messages which JSON has a
// form of its own for.
var wellKnown = map[protoreflect.FullName]string{
	"google.protobuf.Timestamp": "Timestamp",
	"google.protobuf.Duration":  "Duration",
	"google.protobuf.Struct":    "Struct",
}

// generateRead writes ReadJSON of message and of the messages in it, as far as
// requests are made of them.
func generateRead(g *protogen.GeneratedFile, message *protogen.Message, of readable) error {
	if of[message.Desc.FullName()] && !message.Desc.IsMapEntry() {
		if err := generateReadOne(g, message); err != nil {
			return err
		}
	}
	for _, inner := range message.Messages {
		if err := generateRead(g, inner, of); err != nil {
			return err
		}
	}
	return nil
}

func generateReadOne(g *protogen.GeneratedFile, message *protogen.Message) error {
	if len(message.Fields) > wire.MaxFields {
		return fmt.Errorf("%s: %w", message.Desc.FullName(), errFields)
	}
	g.P("// ReadJSON implements wire.Decoder.")
	g.P("func (m *", message.GoIdent, ") ReadJSON(r *", wirePackage.Ident("Reader"), ") {")
	generateOneofs(g, message)
	g.P("for o := r.Object(); o.Next(); {")
	g.P("switch string(o.Name) {")
	for i, field := range message.Fields {
		g.P("case ", spellings(field, ""), ":")
		g.P("o.Once(", i, ")")
		if isChoice(field) {
			g.P("o.One(&", oneofName(field), ")")
		}
		if err := generateReadField(g, field); err != nil {
			return err
		}
	}
	g.P("default:")
	g.P("o.Unknown()")
	g.P("}")
	g.P("}")
	g.P("}")
	g.P()
	return nil
}

// isChoice reports whether a field is one of a oneof.
func isChoice(field *protogen.Field) bool {
	return field.Oneof != nil && !field.Oneof.Desc.IsSynthetic()
}

// oneofName is the variable that holds which member of a oneof there was.
func oneofName(field *protogen.Field) string {
	return "of" + field.Oneof.GoName
}

func generateOneofs(g *protogen.GeneratedFile, message *protogen.Message) {
	for _, oneof := range message.Oneofs {
		if !oneof.Desc.IsSynthetic() {
			g.P("var of", oneof.GoName, " string")
		}
	}
}

// spellings are the names of a field as a case has them, below a prefix.
func spellings(field *protogen.Field, prefix string) string {
	names := []string{strconv.Quote(prefix + field.Desc.JSONName())}
	if other := string(field.Desc.Name()); other != field.Desc.JSONName() {
		names = append(names, strconv.Quote(prefix+other))
	}
	return strings.Join(names, ", ")
}

func generateReadField(g *protogen.GeneratedFile, field *protogen.Field) error {
	if field.Desc.IsMap() {
		key, value := field.Message.Fields[0], field.Message.Fields[1]
		read, err := readValue(g, value)
		if err != nil || key.Desc.Kind() != protoreflect.StringKind {
			return fmt.Errorf("%s: %w", field.Desc.FullName(), errKind)
		}
		g.P("m.", field.GoName, " = map[string]", goType(g, value), "{}")
		g.P("for o := r.Object(); o.Next(); {")
		g.P("key := ", wirePackage.Ident("Key"), "(&o, m.", field.GoName, ")")
		g.P("m.", field.GoName, "[key] = ", read)
		g.P("}")
		return nil
	}
	read, err := readValue(g, field)
	switch {
	case err != nil:
		return err
	case field.Desc.IsList():
		g.P("for a := r.Array(); a.Next(); {")
		g.P("m.", field.GoName, " = append(m.", field.GoName, ", ", read, ")")
		g.P("}")
	case isChoice(field):
		g.P("m.", field.Oneof.GoName, " = &", field.GoIdent, "{", field.GoName, ": ", read, "}")
	case field.Desc.HasOptionalKeyword() && field.Message == nil && field.Desc.Kind() != protoreflect.BytesKind:
		g.P("m.", field.GoName, " = new(", read, ")")
	default:
		g.P("m.", field.GoName, " = ", read)
	}
	return nil
}

// readValue returns the expression that reads one value of a field.
func readValue(g *protogen.GeneratedFile, field *protogen.Field) (string, error) {
	switch field.Desc.Kind() {
	case protoreflect.StringKind:
		return "r.String()", nil
	case protoreflect.BoolKind:
		return "r.Bool()", nil
	case protoreflect.BytesKind:
		return "r.Bytes()", nil
	case protoreflect.EnumKind:
		name := g.QualifiedGoIdent(field.Enum.GoIdent)
		return name + "(r.Enum(" + strconv.Quote(string(field.Enum.Desc.Name())) + ", " + name + "_value))", nil
	case protoreflect.MessageKind:
		switch name := field.Message.Desc.FullName(); {
		case wellKnown[name] != "":
			return "r." + wellKnown[name] + "()", nil
		case strings.HasPrefix(string(name), "writ."):
			return g.QualifiedGoIdent(wirePackage.Ident("ReadMessage")) + "[" + g.QualifiedGoIdent(field.Message.GoIdent) + "](r)", nil
		}
	}
	if read, ok := readNumber("r", field); ok {
		return read, nil
	}
	return "", fmt.Errorf("%s, a %s: %w", field.Desc.FullName(), field.Desc.Kind(), errKind)
}

// readNumber is readValue for whole numbers, of a body or of a query.
func readNumber(from string, field *protogen.Field) (read string, ok bool) {
	switch field.Desc.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "int32(" + from + ".Int(32))", true
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return from + ".Int(64)", true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return "uint32(" + from + ".Uint(32))", true
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return from + ".Uint(64)", true
	}
	return "", false
}

// goType is the type of one value of a field.
func goType(g *protogen.GeneratedFile, field *protogen.Field) string {
	switch kind := field.Desc.Kind(); kind {
	case protoreflect.BytesKind:
		return "[]byte"
	case protoreflect.EnumKind:
		return g.QualifiedGoIdent(field.Enum.GoIdent)
	case protoreflect.MessageKind:
		return "*" + g.QualifiedGoIdent(field.Message.GoIdent)
	default:
		return kind.String() // string, bool, uint32, …
	}
}
