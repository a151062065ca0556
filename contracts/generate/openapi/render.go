package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A rendered document is a tree of yaml nodes: they keep the order of members,
// whether they come from our own document or from a hand-written one.

// tree returns v as nodes, by way of its JSON.
func tree(v any) (*yaml.Node, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// parse returns the root mapping of a YAML or JSON document.
func parse(text []byte) (*yaml.Node, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("not one object")
	}
	return root.Content[0], nil
}

// member returns the value of a member of a mapping, or nil.
func member(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func remove(n *yaml.Node, name string) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

// add appends a member to a mapping.
func add(n *yaml.Node, name string, value *yaml.Node) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
}

// merge adds the tags, paths and components of a hand-written document. What
// both have must be the same in both.
func merge(into, from *yaml.Node) error {
	if tags := member(from, "tags"); tags != nil {
		member(into, "tags").Content = append(member(into, "tags").Content, tags.Content...)
	}
	if paths := member(from, "paths"); paths != nil {
		if err := mergeMembers(member(into, "paths"), paths); err != nil {
			return err
		}
	}
	kinds := member(from, "components")
	for i := 0; kinds != nil && i < len(kinds.Content); i += 2 {
		name := kinds.Content[i].Value
		kind := member(member(into, "components"), name)
		if kind == nil {
			add(member(into, "components"), name, kinds.Content[i+1])
			continue
		}
		if err := mergeMembers(kind, kinds.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func mergeMembers(into, from *yaml.Node) error {
	for i := 0; i < len(from.Content); i += 2 {
		name, value := from.Content[i].Value, from.Content[i+1]
		old := member(into, name)
		if old == nil {
			add(into, name, value)
			continue
		}
		if !bytes.Equal(writeJSON(old), writeJSON(value)) {
			return fmt.Errorf("%s is there already and differs: rename one of them", name)
		}
	}
	return nil
}

// writeJSON renders n with the order of its members.
func writeJSON(n *yaml.Node) []byte {
	var b bytes.Buffer
	appendJSON(&b, n, "")
	b.WriteByte('\n')
	return b.Bytes()
}

func appendJSON(b *bytes.Buffer, n *yaml.Node, indent string) {
	inner := indent + "  "
	switch n.Kind {
	case yaml.MappingNode:
		if len(n.Content) == 0 {
			b.WriteString("{}")
			return
		}
		b.WriteString("{\n")
		for i := 0; i < len(n.Content); i += 2 {
			b.WriteString(inner)
			appendText(b, n.Content[i].Value)
			b.WriteString(": ")
			appendJSON(b, n.Content[i+1], inner)
			if i+2 < len(n.Content) {
				b.WriteByte(',')
			}
			b.WriteByte('\n')
		}
		b.WriteString(indent + "}")
	case yaml.SequenceNode:
		if len(n.Content) == 0 {
			b.WriteString("[]")
			return
		}
		b.WriteString("[\n")
		for i, item := range n.Content {
			b.WriteString(inner)
			appendJSON(b, item, inner)
			if i+1 < len(n.Content) {
				b.WriteByte(',')
			}
			b.WriteByte('\n')
		}
		b.WriteString(indent + "]")
	case yaml.AliasNode:
		appendJSON(b, n.Alias, indent)
	default:
		if n.ShortTag() == "!!str" || n.ShortTag() == "!!timestamp" {
			appendText(b, n.Value)
			return
		}
		b.WriteString(n.Value) // a number, true, false or null, spelled as in JSON
	}
}

func appendText(b *bytes.Buffer, text string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always has a JSON form
	b.Truncate(b.Len() - 1)  // the newline
}

// writeYAML renders n in block style.
func writeYAML(n *yaml.Node) ([]byte, error) {
	fresh, err := parse(writeJSON(n)) // Dump changes what it is given
	if err != nil {
		return nil, err
	}
	block(fresh)
	return yaml.Dump(fresh, yaml.WithIndent(2), yaml.WithLineWidth(-1), yaml.WithCompactSeqIndent(true))
}

func block(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.Contains(n.Value, "\n") {
		n.Style = yaml.LiteralStyle
	}
	for _, inner := range n.Content {
		block(inner)
	}
}
