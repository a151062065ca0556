package main

import (
	"encoding/json"
	"strings"
)

func (t *typ) field(wire string) *field {
	for _, f := range t.Fields {
		if f.Wire == wire {
			return f
		}
	}
	panic(t.Name + " has no field " + wire + ", which an example sets")
}

// readOnly says whether a call changes nothing, so that anybody can try it.
func readOnly(c *call) bool {
	return c.Verb == "GET" || strings.HasSuffix(c.Path, "/_search") || c.Path == "/oauth/v2/introspect"
}

// exampleParam is what a parameter of a path is in an example.
func exampleParam(p *param) string {
	switch {
	case len(p.Type.Values) > 0:
		return p.Type.Values[0]
	case p.Name == "language":
		return "de"
	}
	return "00000000-0000-4000-8000-000000000000"
}

func firstSentence(doc string) string {
	first, _, _ := strings.Cut(doc, "\n")
	if end := strings.Index(first, ". "); end >= 0 {
		first = first[:end+1]
	}
	return first
}

// bracketed writes a list in one line, or one item a line where that is too long.
func bracketed(open string, items []string, shut, indent string) string {
	line := open + strings.Join(items, ", ") + shut
	if len(items) == 0 || len(line) <= 90 && !strings.Contains(line, "\n") {
		return line
	}
	out := strings.TrimRight(open, " ") + "\n"
	for _, item := range items {
		out += indent + "  " + strings.ReplaceAll(item, "\n", "\n  ") + ",\n"
	}
	return out + indent + strings.TrimLeft(shut, " ")
}

// unbase64 are the bytes of an example.
func unbase64(value json.RawMessage) (decoded []byte) {
	_ = json.Unmarshal(value, &decoded)
	return decoded
}
