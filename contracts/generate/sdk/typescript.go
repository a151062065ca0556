package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

func typescriptFiles(m *model) (map[string][]byte, error) {
	return map[string][]byte{
		"src/types.ts": []byte(tsTypes(m)), "src/services.ts": []byte(tsServices(m)), "src/reasons.ts": []byte(tsReasons(m)),
		"examples/examples.ts": []byte(tsExamples(m)),
	}, nil
}

func tsType(r *ref) string {
	switch r.Kind {
	case "integer":
		return "number"
	case "int64", "uint64":
		return "Int64"
	case "time":
		return "Timestamp"
	case "duration":
		return "Duration"
	case "bytes":
		return "Base64"
	case "object":
		return "JsonObject"
	case "any":
		return "unknown"
	case "list":
		if inner := tsType(r.Elem); !strings.ContainsAny(inner, "|&") {
			return inner + "[]"
		}
		return "Array<" + tsType(r.Elem) + ">"
	case "map":
		return "Record<string, " + tsType(r.Elem) + ">"
	case "enum", "message":
		return exportedType(r.Name)
	case "string":
		if len(r.Values) > 0 {
			var all []string
			for _, each := range r.Values {
				all = append(all, strconv.Quote(each))
			}
			return "Open<" + strings.Join(all, " | ") + ">"
		}
	}
	return r.Kind // string, boolean
}

// tsDoc is a comment.
func tsDoc(t *text, indent, doc string) {
	if doc = strings.ReplaceAll(strings.TrimSpace(doc), "*/", "* /"); doc == "" {
		return
	}
	if short := indent + "/** " + doc + " */"; len(short) <= 110 && !strings.Contains(doc, "\n") {
		t.line("%s", short)
		return
	}
	t.line("%s/**", indent)
	t.WriteString(wrapped(indent+" * ", doc, 110))
	t.line("%s */", indent)
}

func tsTypes(m *model) string {
	t := &text{}
	t.line("// " + generated + "\n")
	t.line(`import type { AtMostOneOf, Base64, Duration, ExactlyOneOf, Int64, JsonObject, Open, Timestamp } from "./values.js";` + "\n")
	for _, each := range m.Types {
		name := exportedType(each.Name)
		if len(each.Values) > 0 {
			tsDoc(t, "", each.Doc+" A server that is newer than this package may answer others.")
			t.line("export const %s = {", name)
			for _, v := range each.Values {
				tsDoc(t, "  ", v.Doc)
				t.line("  %s: %q,", v.Name, v.Wire)
			}
			t.line("} as const;\nexport type %s = Open<(typeof %s)[keyof typeof %s]>;\n", name, name, name)
			continue
		}
		tsMessage(t, each)
	}
	return t.String()
}

// tsMessage writes an interface, or, where fields exclude each other, what they are a
// union of.
func tsMessage(t *text, m *typ) {
	groups := append(append([][]string{}, m.ExactlyOneOf...), m.AtMostOneOf...)
	single := func(f *field) {
		tsDoc(t, "  ", f.Doc)
		mark := "?"
		if f.Required || f.group != nil {
			mark = ""
		}
		t.line("  %s%s: %s;", f.Wire, mark, tsType(f.Type))
	}
	name := exportedType(m.Name)
	if len(groups) == 0 {
		tsDoc(t, "", m.Doc)
		t.line("export interface %s {", name)
		for _, f := range m.Fields {
			single(f)
		}
		if m.Open {
			t.line("  [name: string]: unknown;")
		}
		t.line("}\n")
		return
	}
	tsDoc(t, "", withGroups(m, func(wire string) string { return wire }))
	t.WriteString("export type " + name + " = ")
	begun := false
	for _, f := range m.Fields {
		if f.group == nil {
			if !begun {
				t.line("{")
				begun = true
			}
			single(f)
		}
	}
	if begun {
		t.WriteString("} & ")
	}
	for i, group := range groups {
		rule := "AtMostOneOf"
		if i < len(m.ExactlyOneOf) && m.Sent { // an answer may have one that is not known here
			rule = "ExactlyOneOf"
		}
		t.line("%s<{", rule)
		for _, wire := range group {
			if f := m.field(wire); &f.group[0] == &group[0] {
				single(f)
			}
		}
		if i == len(groups)-1 {
			t.line("}>;\n")
		} else {
			t.WriteString("}> & ")
		}
	}
}

func tsReasons(m *model) string {
	t := &text{}
	t.line("// " + generated + "\n\nimport type { Open } from \"./values.js\";\n")
	t.line("/** Why the API refused a call. A server may give others than those here. */\nexport type Reason = Open<")
	for _, reason := range m.Reasons {
		t.line("  | %q", reason)
	}
	t.line(">;")
	return t.String()
}

func tsServices(m *model) string {
	t, used := &text{}, map[string]bool{}
	for _, s := range m.Services {
		name := exported(s.Name) + "Service"
		tsDoc(t, "", name+" "+s.Doc)
		t.line("export class %s {\n  constructor(private readonly core: Core) {}\n", name)
		for _, c := range s.Operations {
			tsCall(t, c, used)
		}
		t.line("}\n")
	}
	options := &text{}
	for _, s := range m.Services {
		for _, c := range s.Operations {
			tsOptions(options, c, used)
		}
	}
	head := &text{}
	head.line("// " + generated + "\n\nimport type { CallOptions, Core } from \"./core.js\";\nimport { Search } from \"./search.js\";\nimport type {")
	for _, each := range m.Types {
		if used[exportedType(each.Name)] {
			head.line("  %s,", exportedType(each.Name))
		}
	}
	head.line("} from \"./types.js\";\nimport type { Open } from \"./values.js\";\n\n/** The version of the contract that this package is made of. */\nexport const version = %q;\n", m.Version)
	head.WriteString(options.String())
	head.WriteString(t.String())
	head.line("/** The operations of the contract, grouped as it groups them. */\nexport class Services {")
	for _, s := range m.Services {
		tsDoc(head, "  ", title(strings.TrimSpace(strings.SplitN(s.Doc, "\n", 2)[0])))
		head.line("  readonly %s: %sService;", camel(s.Name), exported(s.Name))
	}
	head.line("\n  constructor(core: Core) {")
	for _, s := range m.Services {
		head.line("    this.%s = new %sService(core);", camel(s.Name), exported(s.Name))
	}
	head.line("  }\n}")
	return head.String()
}

func tsUse(used map[string]bool, r *ref) string {
	for each := r; each != nil; each = each.Elem {
		if each.Name != "" {
			used[exportedType(each.Name)] = true
		}
	}
	return tsType(r)
}

func tsOptions(t *text, c *call, used map[string]bool) {
	if len(c.Query) == 0 {
		return
	}
	t.line("/** What %s may be told besides. */\nexport interface %sOptions extends CallOptions {", camel(c.Name), exported(c.Name))
	for _, p := range c.Query {
		tsDoc(t, "  ", p.Doc)
		t.line("  %s?: %s;", camel(p.Name), tsUse(used, p.Type))
	}
	t.line("}\n")
}

func tsCall(t *text, c *call, used map[string]bool) {
	var parameters []string
	sent := []string{fmt.Sprintf("verb: %q", c.Verb), fmt.Sprintf("path: %q", c.Path)}
	if len(c.PathParams) > 0 {
		var names []string
		for _, p := range c.PathParams {
			parameters = append(parameters, camel(p.Name)+": "+tsUse(used, p.Type))
			names = append(names, camel(p.Name))
		}
		sent = append(sent, "args: ["+strings.Join(names, ", ")+"]")
	}
	if c.Body != nil {
		of := tsUse(used, c.Body.Type)
		if c.Body.Type.Kind == "list" {
			of = "readonly " + of + " = []"
			parameters = append(parameters, c.Body.Name+": "+of)
		} else {
			parameters = append(parameters, c.Body.Name+": "+of)
		}
		switch {
		case c.Started:
			sent = append(sent, "body: { ..."+c.Body.Name+", async: true }")
		case c.Body.Form && c.Body.Name == "form":
			sent = append(sent, "form")
		case c.Body.Form:
			sent = append(sent, "form: "+c.Body.Name)
		default:
			sent = append(sent, "body: "+c.Body.Name)
		}
	}
	options := "CallOptions"
	if len(c.Query) > 0 {
		options = exported(c.Name) + "Options"
		byPlace := map[string][]string{}
		for _, p := range c.Query {
			key := p.Wire
			if strings.ContainsAny(key, ".-") {
				key = strconv.Quote(key)
			}
			byPlace[p.In] = append(byPlace[p.In], key+": options."+camel(p.Name))
		}
		for _, place := range []string{"query", "header"} {
			if len(byPlace[place]) > 0 {
				sent = append(sent, place+": "+bracketed("{ ", byPlace[place], " }", ""))
			}
		}
	}
	if c.Repeatable {
		sent = append(sent, "repeatable: true")
	}
	if c.Auth != "bearer" {
		sent = append(sent, fmt.Sprintf("auth: %q", c.Auth))
	}
	tsDoc(t, "  ", c.Doc)
	result := "void"
	if c.Result != nil {
		result = tsUse(used, c.Result)
	}
	parameters = append(parameters, "options: "+options+" = {}")
	made, kind := "this.core.call(", "Promise<"+result+">"
	if c.Item != nil {
		made, kind = "new Search(this.core, ", "Search<"+result+", "+tsUse(used, c.Item)+">"
	}
	t.line("  %s(%s): %s {", camel(c.Name), strings.Join(parameters, ", "), kind)
	operation := strings.ReplaceAll(bracketed("{ ", sent, " }", ""), "\n", "\n    ")
	t.line("    return %s%s, options);\n  }\n", made, operation)
}

func tsExamples(m *model) string {
	t, body := &text{}, &text{}
	var harmlessOnes []string
	used := map[string]bool{}
	for _, s := range m.Services {
		for _, c := range s.Operations {
			var arguments []string
			for _, p := range c.PathParams {
				arguments = append(arguments, strconv.Quote(exampleParam(p)))
			}
			if c.Body != nil && c.Body.Example != nil {
				arguments = append(arguments, tsLiteral(m, c.Body.Type, c.Body.Example, used))
			} else if c.Body != nil {
				arguments = append(arguments, "{}")
			}
			if c.Item != nil {
				arguments = append(arguments, "{ limit: 10, asc: true }")
			}
			body.line("/** %s */\nexport async function %s(client: WritClient) {", firstSentence(c.Doc), camel(c.Name))
			body.line("  return await client.%s.%s(%s);\n}\n", camel(s.Name), camel(c.Name), strings.ReplaceAll(strings.Join(arguments, ", "), "\n", "\n  "))
			if harmless(c) {
				harmlessOnes = append(harmlessOnes, camel(c.Name))
			}
		}
	}
	t.line("// " + generated + "\n// Each example of the API reference.\n")
	var names []string
	for _, each := range m.Types {
		if used[each.Name] {
			names = append(names, exportedType(each.Name))
		}
	}
	t.line("import { %s, type WritClient } from \"@writ-id/sdk\";\n", strings.Join(names, ", "))
	t.WriteString(body.String())
	t.line("/** The examples that a test can run: all but those that switch features. */\nexport const all = %s;", bracketed("{ ", harmlessOnes, " }", ""))
	return t.String()
}

var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// tsLiteral is a JSON value as TypeScript writes it.
func tsLiteral(m *model, r *ref, value json.RawMessage, used map[string]bool) string {
	switch value[0] {
	case '{':
		var members object[json.RawMessage]
		_ = json.Unmarshal(value, &members)
		var all []string
		for _, each := range members {
			of := &ref{Kind: "any"}
			switch r.Kind {
			case "message":
				of = m.byName[r.Name].field(each.name).Type
			case "map":
				of = r.Elem
			}
			name := each.name
			if !identifier.MatchString(name) {
				name = strconv.Quote(name)
			}
			all = append(all, name+": "+tsLiteral(m, of, each.value, used))
		}
		if len(all) == 0 {
			return "{}"
		}
		return bracketed("{ ", all, " }", "")
	case '[':
		var elements []json.RawMessage
		_ = json.Unmarshal(value, &elements)
		of := &ref{Kind: "any"}
		if r.Kind == "list" {
			of = r.Elem
		}
		var all []string
		for _, each := range elements {
			all = append(all, tsLiteral(m, of, each, used))
		}
		return bracketed("[", all, "]", "")
	}
	if r.Kind == "enum" {
		for _, v := range m.byName[r.Name].Values {
			if strconv.Quote(v.Wire) == string(value) {
				used[r.Name] = true
				return exportedType(r.Name) + "." + v.Name
			}
		}
	}
	return string(value)
}
