package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// rules says the rules of a value of f in s, as keywords where OpenAPI has one
// and else in words. A rule it does not know is an error, so that none is lost.
func (g *generator) rules(f protoreflect.FieldDescriptor, s *schema, rules *validate.FieldRules, at place) {
	g.celNotes(f, s, rules)
	nonZero := rules.GetRequired() && !f.HasPresence() && !f.IsList() && !f.IsMap()
	switch {
	case f.Kind() == protoreflect.BoolKind:
		g.boolRules(f, s, rules.GetBool(), nonZero)
	case f.Kind() == protoreflect.StringKind:
		if nonZero {
			s.MinLength = new(uint64(1))
		}
		g.stringRules(f, s, rules.GetString())
	case f.Kind() == protoreflect.BytesKind:
		g.bytesRules(f, s, rules.GetBytes(), nonZero)
	case f.Kind() == protoreflect.EnumKind:
		g.enumRules(f, s, rules.GetEnum(), nonZero, at)
	case f.Message() != nil && f.Message().FullName() == "google.protobuf.Duration":
		g.durationRules(f, s, rules.GetDuration())
	case f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp":
		g.timestampRules(f, s, rules.GetTimestamp())
	case f.Message() != nil:
		if rules.GetAny() != nil || rules.GetFieldMask() != nil {
			g.fail(f, "rules of %s are not published: remove them, or teach contracts/generate/openapi/rules.go", f.Message().Name())
		}
	default:
		if nonZero {
			s.Not = &schema{Enum: []any{json.Number("0")}}
		}
		g.numberRules(f, s, rules)
	}
}

// note adds a sentence to the description.
func (s *schema) note(format string, args ...any) {
	sentence := fmt.Sprintf(format, args...)
	sentence = strings.ToUpper(sentence[:1]) + strings.TrimSuffix(sentence[1:], ".") + "."
	s.Description = strings.TrimSpace(s.Description + " " + sentence)
}

// match adds a pattern.
func (s *schema) match(pattern string) {
	if s.Pattern == "" {
		s.Pattern = pattern
		return
	}
	s.AllOf = append(s.AllOf, &schema{Pattern: pattern})
}

// each calls say for every rule that is set in m, sorted by name (gt before
// lt), except for examples, which are no rules.
func each(m proto.Message, say func(name string, value protoreflect.Value)) {
	var set []protoreflect.FieldDescriptor
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		set = append(set, f)
		return true
	})
	slices.SortFunc(set, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, f := range set {
		if f.Name() != "example" {
			say(string(f.Name()), m.ProtoReflect().Get(f))
		}
	}
}

func list[T any](value protoreflect.Value, item func(protoreflect.Value) T) []any {
	var all []any
	for i := range value.List().Len() {
		all = append(all, item(value.List().Get(i)))
	}
	return all
}

func (g *generator) boolRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.BoolRules, nonZero bool) {
	if nonZero {
		s.Enum = []any{true}
	}
	each(rules, func(name string, value protoreflect.Value) {
		if name != "const" {
			g.unknown(f, name)
			return
		}
		s.Enum = []any{value.Bool()}
	})
}

// formats are the string rules that OpenAPI or JSON Schema has a format for.
var formats = map[string]string{
	"email": "email", "hostname": "hostname", "ipv4": "ipv4", "ipv6": "ipv6",
	"uri": "uri", "uri_ref": "uri-reference", "uuid": "uuid",
}

// emailAddress is what protovalidate takes for one (that of HTML): few validators
// check the format.
const emailAddress = "^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$"

// base64Text is how bytes are written: in either alphabet, padded or not.
const base64Text = "^(?:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?|(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?)$"

// notes are the string rules that only words can say.
var notes = map[string]string{
	"ip":                  "An IPv4 or IPv6 address.",
	"address":             "A host name or an IP address.",
	"host_and_port":       "A host name or IP address with a port.",
	"ip_with_prefixlen":   "An IP address with a prefix length.",
	"ip_prefix":           "An IP network with its prefix length.",
	"ipv4_with_prefixlen": "An IPv4 address with a prefix length.",
	"ipv6_with_prefixlen": "An IPv6 address with a prefix length.",
	"ipv4_prefix":         "An IPv4 network with its prefix length.",
	"ipv6_prefix":         "An IPv6 network with its prefix length.",
}

func (g *generator) stringRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.StringRules) {
	each(rules, func(name string, value protoreflect.Value) {
		switch name {
		case "len":
			s.MinLength, s.MaxLength = new(value.Uint()), new(value.Uint())
		case "min_len":
			s.MinLength = new(value.Uint())
		case "max_len":
			s.MaxLength = new(value.Uint())
		case "len_bytes":
			s.note("exactly %d bytes of UTF-8", value.Uint())
		case "min_bytes":
			s.note("at least %d bytes of UTF-8", value.Uint())
		case "max_bytes":
			s.note("at most %d bytes of UTF-8", value.Uint())
		case "pattern":
			s.match(value.String())
		case "prefix":
			s.match("^" + regexp.QuoteMeta(value.String()))
		case "suffix":
			s.match(regexp.QuoteMeta(value.String()) + "$")
		case "contains":
			s.match(regexp.QuoteMeta(value.String()))
		case "const":
			s.Enum = []any{value.String()}
		case "in":
			s.Enum = list(value, protoreflect.Value.String)
		case "not_in":
			s.Not = &schema{Enum: list(value, protoreflect.Value.String)}
		default:
			switch {
			case formats[name] != "":
				s.Format = formats[name]
				switch name {
				case "uri": // a second pattern beside a format is more than generators of clients bear
					if s.Pattern == "" {
						s.match(absoluteURI)
					}
				case "email":
					s.match(emailAddress)
				}
			case notes[name] != "":
				s.note("%s", notes[name])
			default:
				g.unknown(f, name)
			}
		}
	})
}

func (g *generator) bytesRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.BytesRules, nonZero bool) {
	if nonZero {
		s.MinLength = new(uint64(1))
	}
	s.match(base64Text)
	base64 := func(n uint64) *uint64 { return new((n + 2) / 3 * 4) }
	each(rules, func(name string, value protoreflect.Value) {
		switch name {
		case "len":
			s.MinLength, s.MaxLength = new((value.Uint()*8+5)/6), base64(value.Uint())
			s.note("%d bytes", value.Uint())
		case "min_len":
			s.MinLength = new((value.Uint()*8 + 5) / 6) // padding may be left out
			s.note("at least %d bytes", value.Uint())
		case "max_len":
			s.MaxLength = base64(value.Uint())
			s.note("at most %d bytes", value.Uint())
		default:
			g.unknown(f, name)
		}
	})
}

// enumRules narrows an enum. The type keeps its name, and with it its place in
// generated code; what a client may not send is said beside it.
func (g *generator) enumRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.EnumRules, nonZero bool, at place) {
	if _, excluded := g.enumNames(f, rules, nonZero); len(excluded) > 0 && at != inAnswer {
		*s = schema{AllOf: []*schema{{Ref: s.Ref}}, Description: s.Description, Not: &schema{Enum: excluded}}
	}
}

// enumNames returns the names of an enum that rules allow, and the others.
func (g *generator) enumNames(f protoreflect.FieldDescriptor, rules *validate.EnumRules, nonZero bool) (names, excluded []any) {
	allowed := func(number int64) bool { return !nonZero || number != 0 }
	each(rules, func(name string, value protoreflect.Value) {
		before := allowed
		switch name {
		case "defined_only": // names are defined
		case "const":
			allowed = func(n int64) bool { return before(n) && n == value.Int() }
		case "in", "not_in":
			numbers := list(value, protoreflect.Value.Int)
			allowed = func(n int64) bool { return before(n) && slices.Contains(numbers, any(n)) == (name == "in") }
		default:
			g.unknown(f, name)
		}
	})
	for i := range f.Enum().Values().Len() {
		if value := f.Enum().Values().Get(i); allowed(int64(value.Number())) {
			names = append(names, string(value.Name()))
		} else {
			excluded = append(excluded, string(value.Name()))
		}
	}
	return names, excluded
}

func (g *generator) timestampRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.TimestampRules) {
	words := map[string]string{"lt_now": "in the past", "gt_now": "in the future"}
	each(rules, func(name string, _ protoreflect.Value) {
		if words[name] == "" {
			g.unknown(f, name)
			return
		}
		s.note("%s", words[name])
	})
}

// numberRules finds the rules of any of the numeric types by their names,
// which are the same in all.
func (g *generator) numberRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.FieldRules) {
	reflected := rules.ProtoReflect()
	which := reflected.WhichOneof(reflected.Descriptor().Oneofs().ByName("type"))
	if which == nil {
		return
	}
	words := map[string]string{"gt": "more than %v", "gte": "at least %v", "lt": "less than %v", "lte": "at most %v", "const": "exactly %v"}
	each(reflected.Get(which).Message().Interface(), func(name string, value protoreflect.Value) {
		if s.Type == "string" && words[name] != "" { // 64 bits
			s.note(words[name], value)
			return
		}
		number := func(v protoreflect.Value) json.Number { return json.Number(v.String()) }
		switch name {
		case "gt":
			s.Minimum, s.ExclusiveMinimum = number(value), true
		case "gte":
			s.Minimum = number(value)
		case "lt":
			s.Maximum, s.ExclusiveMaximum = number(value), true
		case "lte":
			s.Maximum = number(value)
			if s.Format == "uint64" && value.Uint() <= math.MaxInt64 {
				s.Format = "int64" // which more tools know
			}
		case "const":
			s.Enum = []any{number(value)}
		case "in":
			s.Enum = list(value, number)
		case "not_in":
			s.Not = &schema{Enum: list(value, number)}
		case "finite": // JSON has no other numbers
		default:
			g.unknown(f, name)
		}
	})
}

func (g *generator) listRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.FieldRules) {
	if rules.GetRequired() {
		s.MinItems = new(uint64(1))
	}
	g.celNotes(f, s, rules)
	each(rules.GetRepeated(), func(name string, value protoreflect.Value) {
		switch name {
		case "min_items":
			s.MinItems = new(value.Uint())
		case "max_items":
			s.MaxItems = new(value.Uint())
		case "unique":
			s.UniqueItems = value.Bool()
		case "items": // said by value
		default:
			g.unknown(f, name)
		}
	})
}

func (g *generator) mapRules(f protoreflect.FieldDescriptor, s *schema, rules *validate.FieldRules) {
	if rules.GetRequired() {
		s.MinProperties = new(uint64(1))
	}
	g.celNotes(f, s, rules)
	each(rules.GetMap(), func(name string, value protoreflect.Value) {
		switch name {
		case "min_pairs":
			s.MinProperties = new(value.Uint())
		case "max_pairs":
			s.MaxProperties = new(value.Uint())
		case "values": // said by value
		case "keys": // 3.0 has no keyword for the names of members
			key := &schema{}
			g.stringRules(f, key, rules.GetMap().GetKeys().GetString())
			if key.MinLength != nil {
				s.note("names have at least %d characters", *key.MinLength)
			}
			if key.MaxLength != nil {
				s.note("names have at most %d characters", *key.MaxLength)
			}
			if key.Pattern != "" {
				s.note("names match %s", key.Pattern)
			}
		default:
			g.unknown(f, name)
		}
	})
}

// celNotes publishes the messages of rules that are programs.
func (g *generator) celNotes(d protoreflect.Descriptor, s *schema, rules interface {
	GetCel() []*validate.Rule
	GetCelExpression() []string
},
) {
	for _, rule := range rules.GetCel() {
		if rule.GetMessage() == "" {
			g.fail(d, "the cel rule %s needs a message, which is published", rule.GetId())
			continue
		}
		s.note("%s", rule.GetMessage())
	}
	if len(rules.GetCelExpression()) > 0 {
		g.fail(d, "cel_expression has no message to publish; use cel")
	}
}

func (g *generator) messageRules(m protoreflect.MessageDescriptor, s *schema) {
	rules, err := protovalidate.ResolveMessageRules(m)
	if err != nil {
		g.fail(m, "%v", err)
		return
	}
	g.celNotes(m, s, rules)
	if len(rules.GetOneof()) > 0 {
		g.fail(m, "buf.validate.message.oneof is not published; use a oneof")
	}
}

func (g *generator) unknown(f protoreflect.FieldDescriptor, rule string) {
	g.fail(f, "the rule %s is not published; teach contracts/generate/openapi/rules.go", rule)
}
