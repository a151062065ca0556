package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/contracts/generate/httprule"
	"github.com/writ-id/writ/impl/core/wire"
)

// generateREST mounts a method at the route of its google.api.http, with what decodes
// query, path and body of a request into its message.
func generateREST(g *protogen.GeneratedFile, service *protogen.Service, method *protogen.Method) error {
	rule, err := httprule.Of(method.Desc)
	if err != nil {
		return err
	}
	body, without := "", ""
	switch {
	case rule.Body != nil:
		body = rule.Body.JSONName()
		if rule.Body.IsList() {
			without = "[]"
		}
		fallthrough
	case rule.All:
		if rule.Verb == http.MethodPatch || rule.All && httprule.MayLack(rule.Rest) {
			without = "{}"
		}
	}
	g.P("t.REST(&", wirePackage.Ident("Route"), "{")
	g.P("Verb: ", strconv.Quote(rule.Verb), ", Pattern: ", strconv.Quote(rule.Pattern()), ", Method: ", fullName(service, method), ",")
	if body != "" || without != "" {
		g.P("Body: ", strconv.Quote(body), ", Without: ", strconv.Quote(without), ",")
	}
	g.P("}, func(ctx ", contextContext, ", in *", wirePackage.Ident("Input"), ") (", wirePackage.Ident("Appender"), ", error) {")
	g.P("req := &", method.Input.GoIdent, "{}")
	if err := generateQuery(g, method, rule); err != nil {
		return err
	}
	switch {
	case rule.All:
		var names []any
		for _, field := range rule.Path {
			names = append(names, ", ", strconv.Quote(field.JSONName()))
			if field.TextName() != field.JSONName() {
				names = append(names, ", ", strconv.Quote(field.TextName()))
			}
		}
		g.P(append(append([]any{"in.Message(req"}, names...), ")")...)
	case rule.Body != nil:
		field := goField(method.Input, rule.Body)
		if rule.Body.IsList() {
			g.P("req.", field.GoName, " = ", wirePackage.Ident("List"), "[", field.Message.GoIdent, "](in)")
		} else {
			g.P("in.Message(", wirePackage.Ident("Set"), "(&req.", field.GoName, "))")
		}
	default:
		g.P("in.NoBody()")
	}
	for _, field := range rule.Path {
		g.P("req.", goField(method.Input, field).GoName, " = in.Path(", strconv.Quote(string(field.Name())), ")")
	}
	g.P("if err := in.Err(); err != nil { return nil, err }")
	g.P("return s.", method.GoName, "(ctx, req)")
	g.P("})")
	return nil
}

func goField(message *protogen.Message, field protoreflect.FieldDescriptor) *protogen.Field {
	return message.Fields[slices.IndexFunc(message.Fields, func(f *protogen.Field) bool { return f.Desc == field })]
}

// parameter is a field of a request that a query parameter sets, at any depth.
type parameter struct {
	names []string // its spellings
	path  []*protogen.Field
}

func generateQuery(g *protogen.GeneratedFile, method *protogen.Method, rule *httprule.Rule) error {
	var all []parameter
	for _, field := range rule.Query {
		below, err := parameters(parameter{names: []string{""}}, goField(method.Input, field))
		if err != nil {
			return fmt.Errorf("%s: %w", method.Desc.FullName(), err)
		}
		all = append(all, below...)
	}
	switch {
	case len(all) == 0:
		g.P("in.NoQuery()")
		return nil
	case len(all) > wire.MaxFields:
		return fmt.Errorf("%s: %w", method.Desc.FullName(), errFields)
	}
	declared := map[*protogen.Oneof]bool{}
	for _, one := range all {
		if last := one.path[len(one.path)-1]; isChoice(last) && !declared[last.Oneof] {
			declared[last.Oneof] = true
			g.P("var ", oneofName(last), " string")
		}
	}
	g.P("for q := in.Query(); q.Next(); {")
	g.P("switch q.Name {")
	for i, one := range all {
		if err := generateParameter(g, i, one); err != nil {
			return fmt.Errorf("%s: %w", method.Desc.FullName(), err)
		}
	}
	g.P("default:")
	g.P("q.Unknown()")
	g.P("}")
	g.P("}")
	return nil
}

// parameters returns the parameters of a field: one, or those of the message it is.
func parameters(above parameter, field *protogen.Field) ([]parameter, error) {
	here := parameter{path: append(slices.Clone(above.path), field)}
	for _, name := range above.names {
		here.names = append(here.names, name+field.Desc.JSONName())
		if other := string(field.Desc.Name()); other != field.Desc.JSONName() {
			here.names = append(here.names, name+other)
		}
	}
	if field.Desc.Kind() != protoreflect.MessageKind {
		return []parameter{here}, nil
	}
	// Of a message that holds itself there would be no end.
	if field.Desc.IsList() || isChoice(field) || wellKnown[field.Message.Desc.FullName()] != "" || len(here.path) > 4 {
		return nil, fmt.Errorf("%s: %w", field.Desc.FullName(), errQuery)
	}
	for i := range here.names {
		here.names[i] += "."
	}
	var all []parameter
	for _, inner := range field.Message.Fields {
		below, err := parameters(here, inner)
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

func generateParameter(g *protogen.GeneratedFile, index int, one parameter) error {
	last := one.path[len(one.path)-1]
	read, known := readNumber("q", last)
	switch last.Desc.Kind() {
	case protoreflect.StringKind:
		read, known = "q.String()", true
	case protoreflect.BoolKind:
		read, known = "q.Bool()", true
	case protoreflect.EnumKind:
		name := g.QualifiedGoIdent(last.Enum.GoIdent)
		read, known = name+"(q.Enum("+strconv.Quote(string(last.Enum.Desc.Name()))+", "+name+"_value, "+name+"_name))", true
	}
	if !known || last.Desc.IsMap() {
		return fmt.Errorf("%s, a %s: %w", last.Desc.FullName(), last.Desc.Kind(), errQuery)
	}
	names := ""
	for i, name := range one.names {
		if i > 0 {
			names += ", "
		}
		names += strconv.Quote(name)
	}
	g.P("case ", names, ":")
	if !last.Desc.IsList() {
		g.P("q.Once(", index, ")")
	}
	at := "req"
	for _, field := range one.path[:len(one.path)-1] {
		at = g.QualifiedGoIdent(wirePackage.Ident("Set")) + "(&" + at + "." + field.GoName + ")"
	}
	switch {
	case isChoice(last):
		g.P("q.One(&", oneofName(last), ")")
		g.P(at, ".", last.Oneof.GoName, " = &", last.GoIdent, "{", last.GoName, ": ", read, "}")
	case last.Desc.IsList():
		g.P(at, ".", last.GoName, " = append(", at, ".", last.GoName, ", ", read, ")")
	case last.Desc.HasOptionalKeyword():
		g.P(at, ".", last.GoName, " = new(", read, ")")
	default:
		g.P(at, ".", last.GoName, " = ", read)
	}
	return nil
}
