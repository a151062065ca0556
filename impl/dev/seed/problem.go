package seed

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	kinds "github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v4"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// problem tells what is wrong with a file: the line, the field and why, as far inside
// as something is wrong.
func problem(document *yaml.Node, err error) string {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return " " + err.Error()
	}
	invalid = deepest(invalid)
	path := invalid.InstanceLocation
	why := invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if unknown, ok := invalid.ErrorKind.(*kinds.AdditionalProperties); ok {
		path, why = append(path, unknown.Properties[0]), "there is no such field"
	}
	if _, ok := invalid.ErrorKind.(*kinds.Not); ok {
		why = "some of its fields exclude one another, or one is missing"
	}
	line, field := locate(document, path)
	return fmt.Sprintf("%d: %s: %s", line, field, why)
}

// deepest returns the problem that lies deepest in the file: of the forms that a
// value could have, the one that it fits best.
func deepest(of *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := of
	for i, cause := range of.Causes {
		if inner := deepest(cause); i == 0 || depth(inner) > depth(best) {
			best = inner
		}
	}
	return best
}

func depth(of *jsonschema.ValidationError) int {
	if _, unknown := of.ErrorKind.(*kinds.AdditionalProperties); unknown { // it is about a member
		return len(of.InstanceLocation) + 1
	}
	return len(of.InstanceLocation)
}

// locate returns the line of a value and its path as people write it.
func locate(document *yaml.Node, path []string) (line int, field string) {
	if len(document.Content) == 0 {
		return 1, "the file"
	}
	node, b := document.Content[0], strings.Builder{}
	line = node.Line
	for _, step := range path {
		if node != nil && node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		if index, err := strconv.Atoi(step); err == nil && node != nil && node.Kind == yaml.SequenceNode && index < len(node.Content) {
			node = node.Content[index]
			line = node.Line
			fmt.Fprintf(&b, "[%d]", index)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
		key, value := find(node, step)
		if key != nil {
			line = key.Line
		}
		node = value
	}
	if b.Len() == 0 {
		return line, "the file"
	}
	return line, b.String()
}

// find returns a member of a mapping, which may come from one that is merged into it.
func find(in *yaml.Node, name string) (key, value *yaml.Node) {
	if in == nil {
		return nil, nil
	}
	if in.Kind == yaml.AliasNode {
		in = in.Alias
	}
	for i := 0; in.Kind == yaml.SequenceNode && i < len(in.Content); i++ { // several are merged
		if key, value = find(in.Content[i], name); key != nil {
			return key, value
		}
	}
	for i := 0; in.Kind == yaml.MappingNode && i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == name {
			return in.Content[i], in.Content[i+1]
		}
	}
	for i := 0; in.Kind == yaml.MappingNode && i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == "<<" {
			if key, value = find(in.Content[i+1], name); key != nil {
				return key, value
			}
		}
	}
	return nil, nil
}
