package main

import (
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

const (
	schemaRef = "#/components/schemas/"
	// noNUL holds for every string a client sends: PostgreSQL cannot store NUL.
	// \x00 means the same to ECMA 262, Python, Java and RE2; \u0000 does not.
	noNUL = `^[^\x00]*$`
	// absoluteURI is what RFC 3986 allows, said so that a tool that knows no
	// formats sees it too.
	absoluteURI = `^[A-Za-z][A-Za-z0-9+.-]*:[!-~]*$`
)

// message returns the schema of m at a place, leaving fields out.
func (g *generator) message(m protoreflect.MessageDescriptor, at place, out []protoreflect.FieldDescriptor) *schema {
	s := &schema{Type: "object", Description: comment(m)}
	refused := g.refusedWhenAbsent(m)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if containsField(out, f) || at == inAnswer && g.writeOnly(f) {
			continue
		}
		s.Properties.add(f.JSONName(), g.property(f, at))
		switch {
		case f.ContainingOneof() != nil && !f.ContainingOneof().IsSynthetic():
		case refused[string(f.Name())], at == inAnswer && alwaysWritten(f):
			s.Required = append(s.Required, f.JSONName())
		case !f.HasPresence() && !f.IsList() && !f.IsMap():
			s.Properties[len(s.Properties)-1].value.EmptyIsAbsent = true
		}
	}
	g.oneofs(m, s)
	g.messageRules(m, s)
	if at != inAnswer {
		s.AdditionalProperties = false
	}
	return s
}

// writeOnly reports whether a field is a secret of a message that is sent, and so in no
// answer that shows what was sent.
func (g *generator) writeOnly(f protoreflect.FieldDescriptor) bool {
	_, sent := g.sent[f.ContainingMessage().FullName()]
	return sent && proto.GetExtension(f.Options(), policyv1.E_Secret).(bool)
}

func containsField(fs []protoreflect.FieldDescriptor, f protoreflect.FieldDescriptor) bool {
	for _, each := range fs {
		if each == f {
			return true
		}
	}
	return false
}

// alwaysWritten reports whether the JSON of an answer holds f even when it is
// empty: zero scalars, lists and maps are written, what has presence is not.
func alwaysWritten(f protoreflect.FieldDescriptor) bool {
	return f.IsList() || f.IsMap() || !f.HasPresence()
}

// oneofs says that a required oneof has exactly one member and another one at
// most one, in forms that generators of clients pass over and validators keep to.
// A message that is nothing but a oneof counts its members. Another one says what
// must not be: a `oneOf` beside properties makes most generators demand the members
// of all branches, or give the type up. x-exactly-one-of and x-at-most-one-of say
// the same to people and to generators that know them.
func (g *generator) oneofs(m protoreflect.MessageDescriptor, s *schema) {
	var never []*schema
	for i := range m.Oneofs().Len() {
		oneof := m.Oneofs().Get(i)
		if oneof.IsSynthetic() {
			continue
		}
		rules, err := protovalidate.ResolveOneofRules(oneof)
		if err != nil {
			g.fail(oneof, "%v", err)
			continue
		}
		var names []string
		var each []*schema
		for j := range oneof.Fields().Len() {
			name := oneof.Fields().Get(j).JSONName()
			for _, other := range names {
				never = append(never, together(other, name))
			}
			names, each = append(names, name), append(each, together(name))
		}
		if rules.GetRequired() {
			s.ExactlyOneOf = append(s.ExactlyOneOf, names)
			never = append(never, &schema{Not: &schema{AnyOf: each}})
		} else {
			s.AtMostOneOf = append(s.AtMostOneOf, names)
		}
		if len(names) == len(s.Properties) {
			s.MaxProperties = new(uint64(1))
			if rules.GetRequired() {
				s.MinProperties = new(uint64(1))
			}
			return
		}
	}
	switch len(never) {
	case 0:
	case 1:
		s.Not = never[0]
	default:
		s.Not = &schema{AnyOf: never}
	}
}

// together is met by what has all of names. It lists them as properties too,
// because linters ask for it.
func together(names ...string) *schema {
	s := &schema{Required: names}
	for _, name := range names {
		s.Properties.add(name, &schema{})
	}
	return s
}

// enum returns the schema of e: its names, each with its comment.
func (g *generator) enum(e protoreflect.EnumDescriptor) *schema {
	s := &schema{Type: "string", Description: comment(e)}
	for i := range e.Values().Len() {
		value := e.Values().Get(i)
		s.Enum = append(s.Enum, string(value.Name()))
		s.EnumDescriptions.add(string(value.Name()), comment(value))
	}
	return s
}

// property returns the schema of f with its rules and its comment.
func (g *generator) property(f protoreflect.FieldDescriptor, at place) *schema {
	rules, err := protovalidate.ResolveFieldRules(f)
	if err != nil {
		g.fail(f, "%v", err)
	}
	switch rules.GetIgnore() {
	case validate.Ignore_IGNORE_UNSPECIFIED:
	case validate.Ignore_IGNORE_ALWAYS:
		rules = nil
	default:
		g.fail(f, "ignore_if_zero_value is not published; make the field optional")
	}
	var s *schema
	switch {
	case f.IsMap():
		s = &schema{Type: "object", AdditionalProperties: g.value(f.MapValue(), rules.GetMap().GetValues(), at)}
		g.mapRules(f, s, rules)
	case f.IsList():
		s = &schema{Type: "array", Items: g.value(f, rules.GetRepeated().GetItems(), at)}
		g.listRules(f, s, rules)
	default:
		s = g.value(f, rules, at)
	}
	if s.Ref != "" { // OpenAPI 3.0 ignores what stands beside a $ref
		s = &schema{AllOf: []*schema{s}}
	}
	s.Description = strings.TrimSpace(comment(f) + " " + s.Description)
	return s
}

// value returns the schema of one value of f: of the field, an item or a map
// value. Its description holds only what the rules add.
func (g *generator) value(f protoreflect.FieldDescriptor, rules *validate.FieldRules, at place) *schema {
	var s *schema
	if f.Message() != nil {
		if s = wellKnown(f.Message()); s == nil {
			s = g.ref(f.Message(), at)
		}
	} else {
		s = g.scalar(f, at)
	}
	g.rules(f, s, rules, at)
	if at != inAnswer && s.Type == "string" && s.Pattern == "" && s.Format == "" && s.Enum == nil {
		s.Pattern = noNUL
	}
	return s
}

func (g *generator) ref(d protoreflect.Descriptor, at place) *schema {
	return &schema{Ref: schemaRef + g.component(d, at)}
}

func (g *generator) scalar(f protoreflect.FieldDescriptor, at place) *schema {
	switch kind := f.Kind(); kind {
	case protoreflect.BoolKind:
		return &schema{Type: "boolean"}
	case protoreflect.StringKind:
		return &schema{Type: "string"}
	case protoreflect.BytesKind:
		return &schema{Type: "string", Format: "byte"}
	case protoreflect.EnumKind:
		return g.ref(f.Enum(), at)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return &schema{Type: "integer", Format: "int32"}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		s := &schema{Type: "integer", Format: "int64", Minimum: "0"}
		if at != inAnswer {
			s.Maximum = "4294967295"
		}
		return s
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		if at == inParameter {
			return &schema{Type: "integer", Format: "int64"}
		}
		return &schema{Type: "string", Format: "int64", Pattern: `^(0|-?[1-9][0-9]*)$`}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if at == inParameter {
			return &schema{Type: "integer", Format: "uint64", Minimum: "0", Maximum: "18446744073709551615"}
		}
		return &schema{Type: "string", Format: "uint64", Pattern: `^(0|[1-9][0-9]*)$`}
	case protoreflect.FloatKind:
		return &schema{Type: "number", Format: "float"}
	case protoreflect.DoubleKind:
		return &schema{Type: "number", Format: "double"}
	default:
		g.fail(f, "%v has no OpenAPI form: use another kind of field", kind)
		return &schema{}
	}
}

// wellKnown returns the schema of a message with a JSON form of its own, or
// nil.
func wellKnown(m protoreflect.MessageDescriptor) *schema {
	switch m.FullName() {
	case "google.protobuf.Timestamp":
		return &schema{Type: "string", Format: "date-time"}
	case "google.protobuf.Duration":
		return &schema{Type: "string", Pattern: anyDuration, Example: "10s"}
	case "google.protobuf.Struct":
		return &schema{Type: "object", AdditionalProperties: true}
	case "google.protobuf.Value":
		return &schema{Description: "Any JSON value."}
	case "google.protobuf.ListValue":
		return &schema{Type: "array", Items: &schema{}}
	case "google.protobuf.Empty":
		return &schema{Type: "object"}
	case "google.protobuf.FieldMask":
		return &schema{Type: "string"}
	case "google.protobuf.Any":
		return &schema{
			Type:                 "object",
			Properties:           fields[*schema]{{"@type", &schema{Type: "string"}}},
			Required:             []string{"@type"},
			AdditionalProperties: true,
		}
	case "google.rpc.Status":
		return &schema{Ref: schemaRef + statusName}
	}
	return nil
}
