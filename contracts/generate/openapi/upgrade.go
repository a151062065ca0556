package main

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// upgrade turns an OpenAPI 3.0 tree into 3.1, whose schemas are JSON Schema
// 2020-12: `nullable` becomes a type, exclusive bounds become numbers, the
// example of a schema one of its examples, and a $ref may have a description
// beside it. Webhooks, an extension before, get the place that 3.1 has for them.
func upgrade(root *yaml.Node) {
	member(root, "openapi").Value = "3.1.0"
	rename(root, webhooksBefore31, webhooksSince31)
	upgradeSchemas(root)
	if schemas := member(member(root, "components"), "schemas"); schemas != nil {
		for i := 1; i < len(schemas.Content); i += 2 {
			upgradeSchema(schemas.Content[i])
		}
	}
}

// upgradeSchemas upgrades every schema of parameters, headers and media types
// below n. It does not look into values of users.
func upgradeSchemas(n *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			upgradeSchemas(item)
		}
		return
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		switch name := n.Content[i].Value; {
		case name == "schema":
			upgradeSchema(n.Content[i+1])
		case name == "schemas", name == "example", name == "examples", strings.HasPrefix(name, "x-"):
		default:
			upgradeSchemas(n.Content[i+1])
		}
	}
}

func upgradeSchema(s *yaml.Node) {
	if s.Kind != yaml.MappingNode {
		return // additionalProperties: true
	}
	for _, name := range []string{"items", "additionalProperties", "not"} {
		if inner := member(s, name); inner != nil {
			upgradeSchema(inner)
		}
	}
	for _, name := range []string{"allOf", "oneOf", "anyOf"} {
		if inner := member(s, name); inner != nil {
			for _, each := range inner.Content {
				upgradeSchema(each)
			}
		}
	}
	if properties := member(s, "properties"); properties != nil {
		for i := 1; i < len(properties.Content); i += 2 {
			upgradeSchema(properties.Content[i])
		}
	}
	exclusive(s, "exclusiveMinimum", "minimum")
	exclusive(s, "exclusiveMaximum", "maximum")
	if example := member(s, "example"); example != nil {
		remove(s, "example")
		add(s, "examples", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{example}})
	}
	if format := member(s, "format"); format != nil && format.Value == "byte" {
		rename(s, "format", "contentEncoding")
		format.Value = "base64"
	}
	if all := member(s, "allOf"); all != nil && len(all.Content) == 1 && len(s.Content) <= 4 {
		if ref := member(all.Content[0], "$ref"); ref != nil && (len(s.Content) == 2 || member(s, "description") != nil) {
			remove(s, "allOf")
			s.Content = append([]*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "$ref"}, ref}, s.Content...)
		}
	}
	nullable(s)
}

// exclusive makes {minimum: n, exclusiveMinimum: true} {exclusiveMinimum: n}.
func exclusive(s *yaml.Node, flag, bound string) {
	set := member(s, flag)
	if set == nil {
		return
	}
	remove(s, flag)
	if set.Value == "true" && member(s, bound) != nil {
		rename(s, bound, flag)
	}
}

func rename(n *yaml.Node, from, to string) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == from {
			n.Content[i].Value = to
		}
	}
}

// nullable adds null to the types of s, and to its names if it is an enum.
func nullable(s *yaml.Node) {
	set := member(s, "nullable")
	if set == nil {
		return
	}
	remove(s, "nullable")
	if set.Value != "true" {
		return
	}
	null := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	if names := member(s, "enum"); names != nil {
		names.Content = append(names.Content, null)
	}
	if kind := member(s, "type"); kind != nil {
		name := *kind
		*kind = yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{&name, {Kind: yaml.ScalarNode, Tag: "!!str", Value: "null"}}}
		return
	}
	same := *s
	absent := &yaml.Node{Kind: yaml.MappingNode}
	add(absent, "type", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "null"})
	*s = yaml.Node{Kind: yaml.MappingNode}
	add(s, "anyOf", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{&same, absent}})
}
