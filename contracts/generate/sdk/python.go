package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// pythonFiles returns the generated files of the Python package. The client exists twice, for
// asyncio and without; the second is made of the first.
func pythonFiles(m *model) (map[string][]byte, error) {
	services := pyServices(m)
	files := map[string][]byte{
		"src/writ/types.py": []byte(pyTypes(m)), "src/writ/reasons.py": []byte(pyReasons(m)), "examples/examples.py": []byte(pyExamples(m)),
		"src/writ/_async/services.py": []byte(services), "src/writ/_sync/services.py": []byte(blocking(services)),
	}
	for _, name := range []string{"__init__.py", "client.py", "core.py", "oauth.py", "search.py", "tokens.py"} {
		source, err := sources.ReadFile("_package/python/src/writ/_async/" + name)
		if err != nil {
			return nil, err
		}
		files["src/writ/_sync/"+name] = []byte("# " + generated + "\n" + blocking(string(source)))
	}
	return files, nil
}

// blocking makes a module that waits of one for asyncio.
func blocking(source string) string {
	return strings.NewReplacer(
		"async def ", "def ", "async for ", "for ", "async with ", "with ", "await ", "", "__aenter__", "__enter__", "__aexit__", "__exit__",
		"__aiter__", "__iter__", "AsyncIterator", "Iterator", "AsyncClient", "Client", "AsyncSearch", "Search", "AsyncOAuth", "OAuth",
		"Async", "", "aclose", "close", "_async", "_sync", "asyncio", "threads",
	).Replace(source)
}

// pythonVersion is a semantic version as Python writes it: 3.0.0-alpha is 3.0.0a0.
func pythonVersion(version string) string {
	base, stage, found := strings.Cut(version, "-")
	if !found {
		return base
	}
	name, number, _ := strings.Cut(stage, ".")
	if number == "" {
		number = "0"
	}
	return base + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[name] + number
}

func pyType(r *ref) string {
	switch r.Kind {
	case "boolean":
		return "bool"
	case "integer", "int64", "uint64":
		return "int"
	case "time":
		return "datetime"
	case "duration":
		return "timedelta"
	case "object":
		return "dict[str, Any]"
	case "any":
		return "Any"
	case "list":
		return "list[" + pyType(r.Elem) + "]"
	case "map":
		return "dict[str, " + pyType(r.Elem) + "]"
	case "enum", "message":
		return exportedType(r.Name)
	case "string":
		return "str"
	}
	return r.Kind // bytes
}

var pyKeywords = []string{"async", "from", "global", "import", "is", "in", "not", "class", "def", "pass", "lambda", "None", "True", "False"}

func pyName(name string) string {
	if name = snake(name); slices.Contains(pyKeywords, name) {
		return name + "_"
	}
	return name
}

// pyDoc is a docstring.
func pyDoc(t *text, indent, doc string) {
	doc = strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(doc), `\`, `\\`), `"""`, `\"\"\"`)
	if len(indent)+len(doc) < 100 && !strings.Contains(doc, "\n") {
		t.line(`%s"""%s"""`, indent, doc)
		return
	}
	lines := wrapped(indent, doc, 100)
	t.line(`%s"""%s`, indent, strings.TrimRight(strings.TrimPrefix(lines, indent), "\n"))
	t.line(`%s"""`, indent)
}

func pyTypes(m *model) string {
	t := &text{}
	t.line("# " + generated)
	t.line(`"""The messages and enums of the contract."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from ._codec import Model, OpenEnum
`)
	for _, each := range m.Types {
		name := exportedType(each.Name)
		if len(each.Values) > 0 {
			t.line("\nclass %s(OpenEnum):", name)
			pyDoc(t, "    ", each.Doc+"\n\nA server that is newer than this package may answer others.")
			t.line("")
			for _, v := range each.Values {
				t.WriteString(wrapped("    #: ", v.Doc, 100))
				t.line("    %s = %q", v.Name, v.Wire)
			}
			t.line("")
			continue
		}
		t.line("\n@dataclass(kw_only=True, slots=True)\nclass %s(Model):", name)
		pyDoc(t, "    ", withGroups(each, pyName))
		t.line("")
		var names []string
		for _, f := range each.Fields {
			if camel(f.Wire) != f.Wire || pyName(f.Wire) != snake(f.Wire) || camelOf(pyName(f.Wire)) != f.Wire {
				names = append(names, fmt.Sprintf("%q: %q", pyName(f.Wire), f.Wire))
			}
		}
		if len(names) > 0 {
			t.line("    _wire: ClassVar[dict[str, str]] = %s\n", bracketed("{", names, "}", "    "))
		}
		for _, f := range each.Fields {
			if f.Required {
				t.line("    %s: %s", pyName(f.Wire), pyType(f.Type))
			} else {
				t.line("    %s: %s | None = None", pyName(f.Wire), pyType(f.Type))
			}
			if f.Doc != "" {
				pyDoc(t, "    ", f.Doc)
			}
		}
		t.line("")
	}
	t.line("\n__all__ = [")
	for _, each := range m.Types {
		t.line("    %q,", exportedType(each.Name))
	}
	t.line("]")
	return t.String()
}

// camelOf is what _codec.py makes of the name of a field.
func camelOf(name string) string {
	parts := strings.Split(name, "_")
	for i := range parts {
		if i > 0 && parts[i] != "" {
			parts[i] = title(parts[i])
		}
	}
	return strings.Join(parts, "")
}

func pyReasons(m *model) string {
	t := &text{}
	t.line("# " + generated + "\n\"\"\"Why the API refuses calls. A server may give other reasons than those here.\"\"\"\n")
	t.line("from typing import Final\n")
	for _, reason := range m.Reasons {
		t.line("%s: Final = %q", reason, reason)
	}
	return t.String()
}

func pyServices(m *model) string {
	t, used := &text{}, map[string]bool{}
	for _, s := range m.Services {
		t.line("\nclass Async%sService:", exported(s.Name))
		pyDoc(t, "    ", title(strings.TrimSpace(s.Doc)))
		t.line("\n    def __init__(self, core: Core) -> None:\n        self._core = core\n")
		for _, c := range s.Operations {
			pyCall(t, c, used)
		}
	}
	t.line("\nclass Services:\n    \"\"\"The operations of the contract, grouped as it groups them.\"\"\"\n\n    def __init__(self, core: Core) -> None:")
	for _, s := range m.Services {
		t.line("        self.%s = Async%sService(core)", snake(s.Name), exported(s.Name))
	}
	head := &text{}
	head.line("# " + generated + "\n\"\"\"The services of the contract.\"\"\"\n")
	head.line("from __future__ import annotations\n\nfrom collections.abc import Sequence\nfrom dataclasses import replace\nfrom typing import Unpack\n\nfrom .._options import CallOptions\nfrom ..types import (")
	for _, each := range m.Types {
		if used[exportedType(each.Name)] {
			head.line("    %s,", exportedType(each.Name))
		}
	}
	head.line(")\nfrom .core import Core\nfrom .search import AsyncSearch\n")
	return head.String() + t.String()
}

func pyUse(used map[string]bool, r *ref) string {
	for each := r; each != nil; each = each.Elem {
		if each.Name != "" {
			used[exportedType(each.Name)] = true
		}
	}
	return pyType(r)
}

func pyCall(t *text, c *call, used map[string]bool) {
	parameters, named := []string{"self"}, []string{}
	sent := []string{}
	for _, p := range c.PathParams {
		parameters = append(parameters, pyName(p.Name)+": "+pyUse(used, p.Type))
		sent = append(sent, pyName(p.Name))
	}
	path := []string{strconv.Quote(c.Verb), strconv.Quote(c.Path)}
	if len(sent) > 0 {
		path = append(path, "("+strings.Join(sent, ", ")+",)")
	}
	sent = path
	if len(c.PathParams) == 0 {
		sent = append(sent, "()")
	}
	if c.Body != nil {
		of, name := pyUse(used, c.Body.Type), pyName(c.Body.Name)
		if c.Body.Type.Kind == "list" {
			of = "Sequence[" + pyType(c.Body.Type.Elem) + "] = ()"
		}
		parameters = append(parameters, name+": "+of)
		switch {
		case c.Started:
			sent = append(sent, "body=replace("+name+", async_=True)")
		case c.Body.Form:
			sent = append(sent, "form="+name)
		default:
			sent = append(sent, "body="+name)
		}
	}
	places := map[string][]string{}
	for _, p := range c.Query {
		named = append(named, pyName(p.Name)+": "+pyUse(used, p.Type)+" | None = None")
		places[p.In] = append(places[p.In], fmt.Sprintf("%q: %s", p.Wire, pyName(p.Name)))
	}
	if len(places["query"]) > 0 {
		sent = append(sent, "query="+bracketed("{", places["query"], "}", "    "))
	}
	if len(places["header"]) > 0 {
		sent = append(sent, "header="+bracketed("{", places["header"], "}", "    "))
	}
	if c.Repeatable {
		sent = append(sent, "repeatable=True")
	}
	if c.Auth != "bearer" {
		sent = append(sent, fmt.Sprintf("auth=%q", c.Auth))
	}
	sent = append(sent, "options=call")
	if len(named) > 0 {
		parameters = append(append(parameters, "*"), named...)
	}
	parameters = append(parameters, "**call: Unpack[CallOptions]")
	result, reply := "None", "None"
	if c.Result != nil {
		result = pyUse(used, c.Result)
		reply = result
	}
	begin, finish := "async def", "return await self._core.call("
	if c.Result == nil {
		finish = "await self._core.call("
	}
	if c.Item != nil {
		begin, finish = "def", "return AsyncSearch(self._core, "
		result = "AsyncSearch[" + result + ", " + pyUse(used, c.Item) + "]"
	}
	signature := bracketed(begin+" "+pyName(c.Name)+"(", parameters, ")", "")
	t.line("    %s -> %s:", indented(signature, "    "), result)
	pyDoc(t, "        ", c.Doc+pyParams(c))
	call := bracketed(finish, append([]string{reply}, sent...), ")", "")
	t.line("        %s\n", indented(call, "        "))
}

// pyParams says what the named arguments are.
func pyParams(c *call) string {
	var out string
	for _, p := range c.Query {
		out += "\n\n" + pyName(p.Name) + ": " + p.Doc
	}
	return out
}

// indented moves all lines but the first; Python wants four spaces where bracketed has two.
func indented(code, indent string) string {
	lines := strings.Split(code, "\n")
	for i := 1; i < len(lines); i++ {
		rest := strings.TrimLeft(lines[i], " ")
		lines[i] = indent + strings.Repeat(" ", 2*(len(lines[i])-len(rest))) + rest
	}
	return strings.Join(lines, "\n")
}

func pyExamples(m *model) string {
	t, body := &text{}, &text{}
	used := map[string]bool{}
	var harmlessOnes []string
	for _, s := range m.Services {
		for _, c := range s.Operations {
			var arguments []string
			for _, p := range c.PathParams {
				arguments = append(arguments, strconv.Quote(exampleParam(p)))
			}
			if c.Body != nil && c.Body.Example != nil {
				arguments = append(arguments, pyLiteral(m, c.Body.Type, c.Body.Example, used))
			}
			after := ""
			if c.Item != nil {
				arguments = append(arguments, "limit=10", "asc=True")
				after = ".page()"
			}
			result := "None"
			if c.Result != nil {
				result = pyUse(used, c.Result)
			}
			body.line("\ndef %s(client: Client) -> %s:", pyName(c.Name), result)
			pyDoc(body, "    ", firstSentence(c.Doc))
			call := bracketed(fmt.Sprintf("return client.%s.%s(", snake(s.Name), pyName(c.Name)), arguments, ")", "")
			body.line("    %s%s\n", indented(call, "    "), after)
			if harmless(c) {
				harmlessOnes = append(harmlessOnes, pyName(c.Name))
			}
		}
	}
	t.line("# " + generated + "\n\"\"\"Each example of the API reference.\"\"\"\n")
	t.line("from __future__ import annotations\n\nfrom datetime import datetime, timedelta\n\nfrom writ import Client\nfrom writ.types import (")
	for _, each := range m.Types {
		if used[exportedType(each.Name)] {
			t.line("    %s,", exportedType(each.Name))
		}
	}
	t.line(")\n")
	t.WriteString(body.String())
	t.line("\n#: The examples that a test can run: all but those that switch features.\nALL = %s", indented(bracketed("[", harmlessOnes, "]", ""), ""))
	return t.String()
}

// pyLiteral is a JSON value as Python writes it.
func pyLiteral(m *model, r *ref, value json.RawMessage, used map[string]bool) string {
	switch r.Kind {
	case "message":
		used[exportedType(r.Name)] = true
		var members object[json.RawMessage]
		_ = json.Unmarshal(value, &members)
		var set []string
		for _, each := range members {
			set = append(set, pyName(each.name)+"="+pyLiteral(m, m.byName[r.Name].field(each.name).Type, each.value, used))
		}
		return bracketed(exportedType(r.Name)+"(", set, ")", "")
	case "enum":
		for _, v := range m.byName[r.Name].Values {
			if strconv.Quote(v.Wire) == string(value) {
				used[exportedType(r.Name)] = true
				return exportedType(r.Name) + "." + v.Name
			}
		}
	case "duration":
		return "timedelta(seconds=" + strings.Trim(strings.TrimSuffix(string(value), `s"`), `"`) + ")"
	case "time":
		return "datetime.fromisoformat(" + string(value) + ")"
	case "bytes":
		return "b" + strconv.QuoteToASCII(string(unbase64(value)))
	case "int64", "uint64":
		return strings.Trim(string(value), `"`)
	}
	switch value[0] {
	case '{':
		var members object[json.RawMessage]
		_ = json.Unmarshal(value, &members)
		of := &ref{Kind: "any"}
		if r.Kind == "map" {
			of = r.Elem
		}
		var all []string
		for _, each := range members {
			all = append(all, strconv.Quote(each.name)+": "+pyLiteral(m, of, each.value, used))
		}
		return bracketed("{", all, "}", "")
	case '[':
		var elements []json.RawMessage
		_ = json.Unmarshal(value, &elements)
		of := &ref{Kind: "any"}
		if r.Kind == "list" {
			of = r.Elem
		}
		var all []string
		for _, each := range elements {
			all = append(all, pyLiteral(m, of, each, used))
		}
		return bracketed("[", all, "]", "")
	case 't':
		return "True"
	case 'f':
		return "False"
	case 'n':
		return "None"
	}
	return string(value)
}
