package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is the contract as the packages show it: the same for all languages.
type model struct {
	Reasons  []string
	Version  string
	Services []*service
	Types    []*typ
	byName   map[string]*typ
}

type service struct {
	Name       string // Actions
	Doc        string
	Operations []*call
}

// call is an operation: a method of a service.
type call struct {
	Name, Doc  string
	Verb, Path string
	PathParams []*param
	Query      []*param // and headers
	Body       *body
	Result     *ref   // nil: nothing is answered
	Item       *ref   // of a search or list, which is read page by page
	Follows    bool   // it pages by a position and not by an offset when it is asked to follow
	Repeatable bool   // doing it twice is doing it once, even when an answer was lost
	Auth       string // bearer, client or none
	Permission string
	RPC        string // /writ.action.v3alpha.ServiceActions/GetTarget
	Started    bool   // it answers an operation that goes on (async)
}

type param struct {
	Name, Wire, Doc string // Name as in the contract, without query. and ctx.
	In              string // query, header, path
	Type            *ref
}

type body struct {
	Name     string // what the argument is called: target, filters
	Doc      string
	Type     *ref
	Form     bool
	Required bool
	Example  json.RawMessage
}

// typ is a message or an enum.
type typ struct {
	Name, Doc string
	Fields    []*field
	Values    []value
	// Of each group exactly one field is set, or at most one.
	ExactlyOneOf, AtMostOneOf [][]string
	Sent                      bool // by an operation; else only answered
	Open                      bool // what it holds besides is worth as much
}

type value struct{ Name, Wire, Doc string }

type field struct {
	Wire, Doc string
	Type      *ref
	Required  bool
	// EmptyIsAbsent says that its zero value means the same as leaving it out.
	EmptyIsAbsent bool
	group         []string // of which one is set
}

// ref is the type of a value. Kind is string, boolean, integer, int64, uint64 (texts on the
// wire), time, duration, bytes, any, object, list, map, enum or message.
type ref struct {
	Kind, Name string
	Elem       *ref
	Values     []string // of a string that is one of these
}

// pages are the operations of browsers: a client makes their addresses and does not call them.
var pages = []string{"Authorize", "AuthorizeForm", "Logout", "LogoutForm", "PostUserInfo"}

type reader struct {
	doc    *document
	model  *model
	rename map[string]string // schemas by what they are called in packages
}

// read makes the model of a document.
func read(text []byte) (*model, error) {
	r := &reader{doc: &document{}, model: &model{byName: map[string]*typ{}}, rename: map[string]string{}}
	if err := json.Unmarshal(text, r.doc); err != nil {
		return nil, err
	}
	r.model.Version = r.doc.Info.Version
	for _, s := range r.doc.Components.Schemas {
		name := strings.ReplaceAll(s.name, "V3alpha", "")
		if r.model.byName[name] != nil {
			return nil, fmt.Errorf("%s and another schema would both be called %s: rename one of them", s.name, name)
		}
		r.rename[s.name] = name
		r.model.byName[name] = &typ{Name: name, Doc: about(name, s.value.Description), Open: name == "UserInfo"}
	}
	for _, s := range r.doc.Components.Schemas {
		if err := r.fill(r.model.byName[r.rename[s.name]], s.value); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err := r.services(); err != nil {
		return nil, err
	}
	r.model.merge()
	r.model.keepUsed()
	return r.model, nil
}

// about makes a comment begin with the name that the type has here: the contract calls
// a TargetOutput Target and a GetTargetReply GetTargetResponse.
func about(name, doc string) string {
	first, rest, _ := strings.Cut(doc, " ")
	switch plain := strings.TrimSuffix(strings.TrimSuffix(name, "Output"), "Reply"); {
	case first == plain+"Response" && strings.HasPrefix(rest, "is the response of "):
		return name + " is the answer of " + strings.TrimPrefix(rest, "is the response of ")
	case first == plain && strings.HasSuffix(name, "Output"):
		return name + " " + rest + " It is " + plain + " as it is answered."
	case strings.HasPrefix(name, first), strings.HasSuffix(name, first):
		return name + " " + rest
	}
	return doc
}

// fill reads the fields or values of a type.
func (r *reader) fill(t *typ, s schema) error {
	if len(s.Enum) > 0 {
		for _, wire := range s.Enum {
			t.Values = append(t.Values, value{Wire: wire.(string), Doc: s.Meanings[wire.(string)]})
		}
		nameValues(t)
		return nil
	}
	t.ExactlyOneOf, t.AtMostOneOf = present(s.ExactlyOneOf, s.Properties), present(s.AtMostOneOf, s.Properties)
	for _, p := range s.Properties {
		of, err := r.ref(p.value)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		f := &field{Wire: p.name, Doc: p.value.Description, Type: of, Required: slices.Contains(s.Required, p.name), EmptyIsAbsent: p.value.EmptyIsAbsent}
		for _, group := range slices.Concat(t.ExactlyOneOf, t.AtMostOneOf) {
			if slices.Contains(group, p.name) {
				f.group = group
			}
		}
		t.Fields = append(t.Fields, f)
	}
	return nil
}

// present are the groups without what is never answered (a password in plain text).
func present(groups [][]string, properties object[schema]) (all [][]string) {
	for _, group := range groups {
		group = slices.DeleteFunc(slices.Clone(group), func(name string) bool {
			_, ok := properties.get(name)
			return !ok
		})
		if len(group) > 1 {
			all = append(all, group)
		}
	}
	return all
}

// ref returns the type that a schema stands for.
func (r *reader) ref(s schema) (*ref, error) {
	if len(s.AllOf) == 1 {
		return r.ref(s.AllOf[0])
	}
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		target, ok := r.doc.Components.Schemas.get(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("%s does not exist: mend the reference", s.Ref)
		case len(target.Enum) > 0:
			return &ref{Kind: "enum", Name: r.rename[name]}, nil
		case target.Type == "object" && len(target.Properties)+len(target.Required) > 0, target.Type == "object" && string(target.Additional) == "false":
			return &ref{Kind: "message", Name: r.rename[name]}, nil
		}
		return r.ref(target)
	}
	switch s.Type {
	case "string":
		switch {
		case s.Format == "date-time":
			return &ref{Kind: "time"}, nil
		case s.Format == "byte":
			return &ref{Kind: "bytes"}, nil
		case s.Format == "uint64" || s.Format == "int64":
			return &ref{Kind: s.Format}, nil
		case strings.HasSuffix(s.Pattern, "s$"):
			return &ref{Kind: "duration"}, nil
		}
		of := &ref{Kind: "string"}
		for _, each := range s.Enum {
			of.Values = append(of.Values, each.(string))
		}
		return of, nil
	case "boolean", "integer":
		return &ref{Kind: s.Type}, nil
	case "array":
		elem, err := r.ref(*s.Items)
		return &ref{Kind: "list", Elem: elem}, err
	case "object":
		elem := schema{}
		if text := string(s.Additional); text == "" || text == "true" || text == "false" {
			return &ref{Kind: "object"}, nil
		} else if err := json.Unmarshal(s.Additional, &elem); err != nil {
			return nil, err
		}
		of, err := r.ref(elem)
		return &ref{Kind: "map", Elem: of}, err
	case "":
		return &ref{Kind: "any"}, nil
	}
	return nil, fmt.Errorf("the type %s is not known: teach contracts/generate/sdk/model.go", s.Type)
}

// merge makes one type of a message and of what is answered for it (Target and TargetOutput)
// where they do not differ, so that what was read can be sent.
func (m *model) merge() {
	same := map[string]string{} // Output by the other
	for name, output := range m.byName {
		if sent := m.byName[strings.TrimSuffix(name, "Output")]; sent != nil && sent != output && len(sent.Values) == 0 {
			same[name] = sent.Name
		}
	}
	var equal func(a, b *ref) bool
	equal = func(a, b *ref) bool {
		if a == nil || b == nil {
			return a == b
		}
		return a.Kind == b.Kind && (a.Name == b.Name || same[b.Name] == a.Name) && equal(a.Elem, b.Elem)
	}
	for changed := true; changed; {
		changed = false
		for name, to := range same {
			a, b := m.byName[to], m.byName[name]
			if !slices.EqualFunc(a.Fields, b.Fields, func(x, y *field) bool {
				return x.Wire == y.Wire && x.Required == y.Required && equal(x.Type, y.Type)
			}) {
				delete(same, name)
				changed = true
			}
		}
	}
	m.eachRef(func(r *ref) {
		if to, ok := same[r.Name]; ok {
			r.Name = to
		}
	})
	for name := range same {
		delete(m.byName, name)
	}
}

// eachRef calls visit with all references.
func (m *model) eachRef(visit func(*ref)) {
	down := func(r *ref) {
		for ; r != nil; r = r.Elem {
			visit(r)
		}
	}
	for _, t := range m.byName {
		for _, f := range t.Fields {
			down(f.Type)
		}
	}
	for _, s := range m.Services {
		for _, c := range s.Operations {
			for _, p := range slices.Concat(c.PathParams, c.Query) {
				down(p.Type)
			}
			if c.Body != nil {
				down(c.Body.Type)
			}
			down(c.Result)
			down(c.Item)
		}
	}
}

// keepUsed lists the types that an operation leads to, and the payloads of webhooks.
func (m *model) keepUsed() {
	used := map[string]bool{}
	var need func(r *ref)
	need = func(r *ref) {
		for ; r != nil; r = r.Elem {
			if t := m.byName[r.Name]; t != nil && !used[r.Name] {
				used[r.Name] = true
				for _, f := range t.Fields {
					need(f.Type)
				}
			}
		}
	}
	for _, s := range m.Services {
		for _, c := range s.Operations {
			for _, p := range slices.Concat(c.PathParams, c.Query) {
				need(p.Type)
			}
			if c.Body != nil {
				need(c.Body.Type)
			}
		}
	}
	for name := range used {
		m.byName[name].Sent = true
	}
	for _, s := range m.Services {
		for _, c := range s.Operations {
			need(c.Result)
		}
	}
	need(&ref{Kind: "message", Name: "EventPayload"})
	for _, name := range slices.Sorted(maps.Keys(used)) {
		m.Types = append(m.Types, m.byName[name])
	}
}
