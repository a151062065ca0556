package main

import (
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// examples are values for fields of these names. A contract that wants another
// one says so with the `example` of its rules.
var examples = map[string]any{
	"name":             "Audit log",
	"url":              "https://hooks.example.com/audit",
	"id":               "019ad2c4-5f0e-7b31-9c55-2f6d1f0a7e42",
	"ids":              "019ad2c4-5f0e-7b31-9c55-2f6d1f0a7e42",
	"targets":          "019ad2c4-5f0e-7b31-9c55-2f6d1f0a7e42",
	"include":          "request.writ.action.v3alpha.ServiceActions",
	"includes":         "request.writ.action.v3alpha.ServiceActions",
	"method":           "/writ.action.v3alpha.ServiceActions/CreateTarget",
	"service":          "writ.action.v3alpha.ServiceActions",
	"function":         "preuserinfo",
	"event":            "target.added",
	"group":            "target",
	"client_id":        "3f1c0f7d9a",
	"client_secret":    "a secret",
	"scopes":           "openid",
	"code":             "482913",
	"default_language": "en",
	"languages":        "en",
	"email":            "ada@example.com",
	"public_key":       "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
	"schema": fields[any]{
		{"type", "object"},
		{"properties", fields[any]{{"nickname", fields[any]{{"type", "string"}}}}},
	},
	"auth":            "AUTH_MECHANISM_XOAUTH2",                                                                       // which an example has tokens for
	"content":         "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGOQ9XUFAAE6ALBIhU9lAAAAAElFTkSuQmCC", // a PNG
	"instance_domain": "login.example.com",
	"org_domain":      "example.com",
}

// example returns an example of f, or nil when it would recur. within holds
// the messages it is part of.
func (g *generator) example(f protoreflect.FieldDescriptor, within []protoreflect.FullName) any {
	rules, _ := protovalidate.ResolveFieldRules(f)
	switch {
	case f.IsMap():
		key := g.exampleValue(f.MapKey(), rules.GetMap().GetKeys(), within)
		name, ok := key.(string)
		if value := g.exampleValue(f.MapValue(), rules.GetMap().GetValues(), within); ok && value != nil {
			return fields[any]{{name, value}}
		}
		return nil
	case f.IsList():
		if item := g.exampleValue(f, rules.GetRepeated().GetItems(), within); item != nil {
			return []any{item}
		}
		return nil
	}
	return g.exampleValue(f, rules, within)
}

// exampleMessage returns an example of m with all of its fields but those in
// out, and the first member of each oneof.
func (g *generator) exampleMessage(m protoreflect.MessageDescriptor, out []protoreflect.FieldDescriptor, within []protoreflect.FullName) any {
	if slices.Contains(within, m.FullName()) {
		return nil
	}
	within = append(slices.Clone(within), m.FullName())
	members := fields[any]{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if oneof := f.ContainingOneof(); oneof != nil && oneof.Fields().Get(0) != f || slices.Contains(out, f) {
			continue
		}
		if value := g.example(f, within); value != nil {
			members.add(f.JSONName(), value)
		}
	}
	return members
}

func (g *generator) exampleValue(f protoreflect.FieldDescriptor, rules *validate.FieldRules, within []protoreflect.FullName) any {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return true
	case protoreflect.StringKind:
		return g.exampleString(f, rules.GetString())
	case protoreflect.BytesKind:
		if value, ok := examples[string(f.Name())].(string); ok {
			return value
		}
		return "c2VjcmV0"
	case protoreflect.EnumKind:
		names, _ := g.enumNames(f, rules.GetEnum(), true) // one that says something
		if len(names) == 0 {
			names, _ = g.enumNames(f, rules.GetEnum(), false)
		}
		if i := slices.Index(names, examples[string(f.Name())]); i >= 0 {
			return names[i]
		}
		return names[0]
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.Timestamp":
			return "2030-01-31T12:00:00Z"
		case "google.protobuf.Duration":
			return durationExample(rules.GetDuration())
		case "google.protobuf.Struct":
			if value, ok := examples[string(f.Name())].(fields[any]); ok {
				return value
			}
			return fields[any]{}
		}
		if wellKnown(f.Message()) != nil {
			return nil
		}
		return g.exampleMessage(f.Message(), nil, within)
	default:
		s := g.scalar(f, inParameter)
		g.numberRules(f, s, rules)
		number := s.Minimum
		if number == "" || number == "0" {
			number = "1"
		}
		if g.scalar(f, inBody).Type == "string" {
			return number.String()
		}
		return number
	}
}

func (g *generator) exampleString(f protoreflect.FieldDescriptor, rules *validate.StringRules) string {
	if given := rules.GetExample(); len(given) > 0 {
		return given[0]
	}
	if rules.HasConst() {
		return rules.GetConst()
	}
	if len(rules.GetIn()) > 0 {
		return rules.GetIn()[0]
	}
	if value, ok := examples[string(f.Name())].(string); ok {
		return value
	}
	switch {
	case rules.GetUri():
		return "https://www.example.com/"
	case rules.GetEmail():
		return "ada@example.com"
	case rules.GetHostname(), rules.GetAddress():
		return "www.example.com"
	case rules.GetUuid():
		return "019ad2c4-5f0e-7b31-9c55-2f6d1f0a7e42"
	case strings.HasSuffix(string(f.Name()), "id"):
		return "019ad2c4-5f0e-7b31-9c55-2f6d1f0a7e42"
	}
	return strings.ReplaceAll(string(f.Name()), "_", " ")
}
