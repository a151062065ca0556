package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/contracts/generate/httprule"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// method is a method of a service with what its options say.
type method struct {
	desc   protoreflect.MethodDescriptor
	policy *policyv1.Operation
	verb   string // lower case
	path   string // with {jsonName} for parameters
	inPath []protoreflect.FieldDescriptor
	body   string // a field of the request, "*" for all that are not in the path, or empty
}

// read returns the method of desc, or nil when it has no HTTP form.
func (g *generator) read(desc protoreflect.MethodDescriptor) *method {
	policy, _ := proto.GetExtension(desc.Options(), policyv1.E_Operation).(*policyv1.Operation)
	rule, err := httprule.Of(desc)
	switch {
	case policy == nil:
		g.fail(desc, "needs the options google.api.http and writ.policy.v1.operation: add both")
		return nil
	case err != nil:
		g.errs = append(g.errs, err)
		return nil
	}
	m := &method{desc: desc, policy: policy, verb: strings.ToLower(rule.Verb), inPath: rule.Path}
	switch {
	case rule.All:
		m.body = "*"
	case rule.Body != nil:
		m.body = string(rule.Body.Name())
	}
	m.path = rule.Replace(func(field protoreflect.FieldDescriptor) string { return "{" + field.JSONName() + "}" })
	return m
}

// bodyField is the field that the body holds, if it is one field.
func (m *method) bodyField() protoreflect.FieldDescriptor {
	return m.desc.Input().Fields().ByName(protoreflect.Name(m.body))
}

// rest returns the fields of the request that are not in the path.
func (m *method) rest() []protoreflect.FieldDescriptor {
	var rest []protoreflect.FieldDescriptor
	for i := range m.desc.Input().Fields().Len() {
		if f := m.desc.Input().Fields().Get(i); !slices.Contains(m.inPath, f) {
			rest = append(rest, f)
		}
	}
	return rest
}

// inQuery returns the fields of the request that are query parameters.
func (m *method) inQuery() []protoreflect.FieldDescriptor {
	if m.body == "*" {
		return nil
	}
	return slices.DeleteFunc(m.rest(), func(f protoreflect.FieldDescriptor) bool { return f == m.bodyField() })
}

// sent returns the fields whose types become components for requests: those
// of the body, and the enums among the query parameters.
func (m *method) sent() []protoreflect.FieldDescriptor {
	if m.body == "*" {
		return m.rest()
	}
	var sent []protoreflect.FieldDescriptor
	if f := m.bodyField(); f != nil {
		sent = append(sent, f)
	}
	return append(sent, leaves(m.inQuery())...)
}

// leaves returns the fields below fs that are no messages.
func leaves(fs []protoreflect.FieldDescriptor) []protoreflect.FieldDescriptor {
	var found []protoreflect.FieldDescriptor
	for _, f := range fs {
		if f.Message() == nil || f.IsMap() || wellKnown(f.Message()) != nil {
			found = append(found, f)
			continue
		}
		inner := make([]protoreflect.FieldDescriptor, f.Message().Fields().Len())
		for i := range inner {
			inner[i] = f.Message().Fields().Get(i)
		}
		found = append(found, leaves(inner)...)
	}
	return found
}

const jsonType = "application/json"

func (g *generator) operation(m *method) *operation {
	first, rest := summary(comment(m.desc))
	op := &operation{
		Tags:        []string{string(m.desc.Parent().Name())},
		Summary:     first,
		Description: strings.TrimSpace(rest + "\n\n" + m.access()),
		OperationID: string(m.desc.Name()),
		Security:    []map[string][]string{{"oauth2": scopes}, {"bearer": {}}},
		Permission:  m.policy.GetPermission(),
		Feature:     option(m.policy.GetFeature(), "FEATURE_"),
		GRPCMethod:  fmt.Sprintf("/%s/%s", m.desc.Parent().FullName(), m.desc.Name()),
	}
	for _, level := range m.policy.GetLevels() {
		op.Levels = append(op.Levels, option(level, "LEVEL_"))
	}
	if op.Levels == nil {
		op.Levels = []string{"instance"}
	}

	for _, refusal := range m.policy.GetRefusals() {
		op.Refusals = append(op.Refusals, option(refusal, "REFUSAL_"))
	}

	refused := g.refusedWhenAbsent(m.desc.Input())
	for _, f := range m.inPath {
		op.Parameters = append(op.Parameters, parameter{
			Name: f.JSONName(), In: "path", Description: comment(f), Required: true, Schema: g.parameterSchema(f),
		})
	}
	for _, f := range m.inQuery() {
		op.Parameters = append(op.Parameters, g.query(m, f, "", refused[string(f.Name())])...)
	}
	if m.policy.GetInherits() {
		op.Parameters = append(op.Parameters, contextHeader)
	}
	op.RequestBody = g.body(m)
	op.Responses = g.responses(m)
	return op
}

// contextHeader names the context of an operation that inherits (policy.ContextHeader).
var contextHeader = parameter{
	Name: "writ-context", In: "header", Schema: &schema{Type: "string", Pattern: "^(system|instance|org/[!-~]{1,200})?$", Example: "instance"},
	Description: "The context that the request is about: system, instance (that of the host) or org/ID. By default the one that defines the resource, if the caller has the permission there, else the highest one below it in which they have.",
}

// access says who may call m, and where it answers.
func (m *method) access() string {
	text := "The caller has to be authenticated."
	if permission := m.policy.GetPermission(); permission != "" {
		text = fmt.Sprintf("Needs the permission %s", permission)
		if m.policy.GetReach() == policyv1.Reach_REACH_OBJECT {
			text += " where the object is"
		}
		if m.policy.GetSelf() {
			text += ", or that it concerns the caller's own user"
		}
		text += "."
	}
	if feature := option(m.policy.GetFeature(), "FEATURE_"); feature != "" {
		text += fmt.Sprintf(" Answers only where the feature %s is on.", feature)
	}
	return text
}

// query returns the parameters of f: one, or those of the message in it.
func (g *generator) query(m *method, f protoreflect.FieldDescriptor, prefix string, required bool) []parameter {
	name := prefix + f.JSONName()
	if !m.applies(f) {
		return nil
	}
	if f.IsMap() || f.IsList() && f.Message() != nil {
		g.fail(f, "a map or list of messages cannot be a query parameter: put it into the body")
		return nil
	}
	if f.Message() == nil || wellKnown(f.Message()) != nil {
		p := parameter{Name: name, In: "query", Required: required, Schema: g.parameterSchema(f)}
		p.Description = comment(f)
		if f.IsList() {
			p.Style, p.Explode = "form", true
		}
		if oneof := f.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			p.Description = strings.TrimSpace(fmt.Sprintf("%s At most one parameter %s* may be given.", p.Description, prefix))
		}
		return []parameter{p}
	}
	refused := g.refusedWhenAbsent(f.Message())
	var all []parameter
	for i := range f.Message().Fields().Len() {
		inner := f.Message().Fields().Get(i)
		all = append(all, g.query(m, inner, name+".", required && refused[string(inner.Name())])...)
	}
	return all
}

// applies reports whether f can be set: a context of a level the operation has
// nothing to do with is refused. The fields of a context begin with its level.
func (m *method) applies(f protoreflect.FieldDescriptor) bool {
	if f.ContainingMessage().FullName() != "writ.object.v3alpha.RequestContext" || len(m.policy.GetLevels()) == 0 {
		return true
	}
	return slices.ContainsFunc(m.policy.GetLevels(), func(level policyv1.Level) bool {
		return strings.HasPrefix(string(f.Name()), option(level, "LEVEL_"))
	})
}

// parameterSchema is the schema of f without the description, which is that
// of the parameter.
func (g *generator) parameterSchema(f protoreflect.FieldDescriptor) *schema {
	s := g.property(f, inParameter)
	if len(s.AllOf) == 1 && s.AllOf[0].Ref != "" && s.Not == nil {
		return s.AllOf[0]
	}
	s.Description = strings.TrimSpace(strings.TrimPrefix(s.Description, comment(f)))
	return s
}

func (g *generator) body(m *method) *requestBody {
	if m.body == "" {
		return nil
	}
	var content mediaType
	f := m.bodyField()
	body := &requestBody{}
	if f != nil {
		body.Description = comment(f)
		content.Schema = g.property(f, inBody)
		if len(content.Schema.AllOf) == 1 {
			content.Schema = content.Schema.AllOf[0]
		}
		content.Schema.Description = ""
		content.Example = g.example(f, nil)
	} else {
		content.Schema = &schema{Ref: schemaRef + string(m.desc.Input().Name())}
		content.Example = g.exampleMessage(m.desc.Input(), m.inPath, nil)
	}
	// No filters and no changes need no body.
	mayLack := m.verb == "patch" || m.body == "*" && httprule.MayLack(m.rest()) || f != nil && f.IsList() && content.Schema.MinItems == nil
	body.Required, body.Content = !mayLack, map[string]mediaType{jsonType: content}
	return body
}

// option is the lower-case name of an enum value, without its prefix; empty
// for the zero value.
func option(v interface {
	protoreflect.Enum
	String() string
}, prefix string,
) string {
	if v.Number() == 0 {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(v.String(), prefix))
}
