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

// harmless says whether an example may be run anywhere: it leaves the server what it is, so
// that the next one means something.
func harmless(c *call) bool {
	return c.Verb == "GET" || !strings.HasPrefix(c.Path, "/v2/features/")
}

// exampleParam is what a parameter of a path is in an example.
func exampleParam(p *param) string {
	switch {
	case len(p.Type.Values) > 0:
		return p.Type.Values[0]
	case p.Name == "language":
		return "de"
	}
	return "019ad2c4-5f0e-7b31-9c55-2f6d1f0a7e42"
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
