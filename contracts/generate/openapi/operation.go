package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

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

// pathVariable matches {name} and {name=pattern}.
var pathVariable = regexp.MustCompile(`\{([^=}]+)(=[^}]*)?\}`)

// read returns the method of desc, or nil when it has no HTTP form.
func (g *generator) read(desc protoreflect.MethodDescriptor) *method {
	rule, _ := proto.GetExtension(desc.Options(), annotations.E_Http).(*annotations.HttpRule)
	policy, _ := proto.GetExtension(desc.Options(), policyv1.E_Operation).(*policyv1.Operation)
	if rule == nil || policy == nil {
		g.fail(desc, "needs the options google.api.http and writ.policy.v1.operation")
		return nil
	}
	m := &method{desc: desc, policy: policy, body: rule.GetBody()}
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		m.verb, m.path = "get", pattern.Get
	case *annotations.HttpRule_Put:
		m.verb, m.path = "put", pattern.Put
	case *annotations.HttpRule_Post:
		m.verb, m.path = "post", pattern.Post
	case *annotations.HttpRule_Delete:
		m.verb, m.path = "delete", pattern.Delete
	case *annotations.HttpRule_Patch:
		m.verb, m.path = "patch", pattern.Patch
	default:
		g.fail(desc, "the HTTP verb has no OpenAPI form")
	}
	if len(rule.GetAdditionalBindings()) > 0 || rule.GetResponseBody() != "" {
		g.fail(desc, "additional_bindings and response_body are not published")
	}
	m.path = pathVariable.ReplaceAllStringFunc(m.path, func(variable string) string {
		name := pathVariable.FindStringSubmatch(variable)[1]
		field := desc.Input().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			g.fail(desc, "no field %s for the path", name)
			return variable
		}
		m.inPath = append(m.inPath, field)
		return "{" + field.JSONName() + "}"
	})
	if m.body != "" && m.body != "*" && m.bodyField() == nil {
		g.fail(desc, "no field %s for the body", m.body)
		return nil
	}
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
		Description: rest,
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

	refused := g.refusedWhenAbsent(m.desc.Input())
	for _, f := range m.inPath {
		op.Parameters = append(op.Parameters, parameter{
			Name: f.JSONName(), In: "path", Description: comment(f), Required: true, Schema: g.parameterSchema(f),
		})
	}
	for _, f := range m.inQuery() {
		op.Parameters = append(op.Parameters, g.query(f, "", refused[string(f.Name())])...)
	}
	op.RequestBody = g.body(m)

	successes := m.policy.GetSuccess()
	if len(successes) == 0 {
		successes = []uint32{http.StatusOK}
	}
	for _, status := range successes {
		text := http.StatusText(int(status)) + "."
		if len(successes) > 1 && status == http.StatusOK {
			text = "Changed."
		}
		op.Responses.add(strconv.Itoa(int(status)), response{
			Description: text,
			Content:     map[string]mediaType{jsonType: {Schema: g.ref(m.desc.Output(), inAnswer)}},
		})
	}
	for _, name := range g.refusals(m) {
		op.Responses.add(statusOf(name), response{Ref: "#/components/responses/" + name})
	}
	return op
}

// refusals returns the names of the shared responses that refuse m.
func (g *generator) refusals(m *method) []string {
	names := []string{"BadRequest", "Unauthenticated"}
	context := m.desc.Input().Fields().ByName("ctx") != nil
	if m.policy.GetPermission() != "" || context {
		names = append(names, "PermissionDenied")
	}
	if slices.Contains(m.policy.GetRefusals(), policyv1.Refusal_REFUSAL_NOT_FOUND) {
		names = append(names, "NotFound")
	} else {
		names = append(names, "UnknownHost")
	}
	if slices.Contains(m.policy.GetRefusals(), policyv1.Refusal_REFUSAL_ALREADY_EXISTS) {
		names = append(names, "AlreadyExists")
	}
	if m.body != "" {
		names = append(names, "BodyTooLarge", "UnsupportedMediaType")
	}
	return append(names, "Internal", "Unavailable")
}

// query returns the parameters of f: one, or those of the message in it.
func (g *generator) query(f protoreflect.FieldDescriptor, prefix string, required bool) []parameter {
	name := prefix + f.JSONName()
	if f.IsMap() || f.IsList() && f.Message() != nil {
		g.fail(f, "a map or list of messages cannot be a query parameter")
		return nil
	}
	if f.Message() == nil || wellKnown(f.Message()) != nil {
		p := parameter{Name: name, In: "query", Required: required, Schema: g.parameterSchema(f)}
		p.Description = comment(f)
		if f.IsList() {
			p.Style, p.Explode = "form", true
		}
		if oneof := f.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			p.Description += fmt.Sprintf(" At most one parameter %s* may be given.", prefix)
		}
		return []parameter{p}
	}
	refused := g.refusedWhenAbsent(f.Message())
	var all []parameter
	for i := range f.Message().Fields().Len() {
		inner := f.Message().Fields().Get(i)
		all = append(all, g.query(inner, name+".", required && refused[string(inner.Name())])...)
	}
	return all
}

// parameterSchema is the schema of f without the description, which is that
// of the parameter.
func (g *generator) parameterSchema(f protoreflect.FieldDescriptor) *schema {
	s := g.property(f, inParameter)
	if len(s.AllOf) == 1 && s.AllOf[0].Ref != "" {
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
	body := &requestBody{Required: true}
	if f := m.bodyField(); f != nil {
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
	body.Content = map[string]mediaType{jsonType: content}
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

const statusName = "Status"

var (
	int32Min = json.Number("-2147483648")
	int32Max = json.Number("2147483647")
)

// status is the body of every refusal.
var status = &schema{
	Type: "object",
	Description: "Status is the body of every refusal, google.rpc.Status in JSON. Its details hold a " +
		"google.rpc.ErrorInfo with a stable reason and, when fields were refused, a google.rpc.BadRequest that names them.",
	Properties: fields[*schema]{
		{"code", &schema{Type: "integer", Format: "int32", Description: "The google.rpc.Code, for example 3 for INVALID_ARGUMENT."}},
		{"message", &schema{Type: "string", Description: "A sentence for developers. It may change; do not compare it."}},
		{"details", &schema{
			Type:        "array",
			Description: "What a program can act on.",
			Items: &schema{
				Type: "object",
				Properties: fields[*schema]{
					{"@type", &schema{Type: "string", Description: "The type of the detail, for example type.googleapis.com/google.rpc.ErrorInfo."}},
				},
				Required:             []string{"@type"},
				AdditionalProperties: true,
			},
		}},
	},
	Required: []string{"code", "message", "details"},
}

// sharedResponses are the refusals. That of a status is found by statusOf.
var sharedResponses = fields[response]{
	refusal("BadRequest", "The request is malformed or breaks a rule of this contract (INVALID_ARGUMENT), or the operation cannot run now, "+
		"for example because its feature is switched off (FAILED_PRECONDITION, reason FEATURE_DISABLED)."),
	refusal("Unauthenticated", "The access token is missing, invalid, expired or of another tenant.",
		field[header]{"WWW-Authenticate", header{"The challenge: Bearer, with the error of RFC 6750 when a token was sent.", true, &schema{Type: "string"}}}),
	refusal("PermissionDenied", "The caller lacks the permission in the context of the call."),
	refusal("NotFound", "Something the request names does not exist, or no instance answers on this host."),
	refusal("UnknownHost", "No instance answers on this host."),
	refusal("AlreadyExists", "Something of that name exists already."),
	refusal("BodyTooLarge", "The body is larger than the server accepts."),
	refusal("UnsupportedMediaType", "The body is not application/json."),
	refusal("Internal", "The server failed. The cause is in its log only."),
	refusal("Unavailable", "The server cannot answer now, for example because the database is away.",
		field[header]{"Retry-After", header{"The seconds to wait.", true, &schema{Type: "integer", Minimum: "0"}}}),
}

func refusal(name, description string, headers ...field[header]) field[response] {
	return field[response]{name, response{
		Description: description,
		Headers:     headers,
		Content:     map[string]mediaType{jsonType: {Schema: &schema{Ref: schemaRef + statusName}}},
	}}
}

// statusOf is the HTTP status of a shared response.
func statusOf(name string) string {
	return strconv.Itoa(map[string]int{
		"BadRequest":           http.StatusBadRequest,
		"Unauthenticated":      http.StatusUnauthorized,
		"PermissionDenied":     http.StatusForbidden,
		"NotFound":             http.StatusNotFound,
		"UnknownHost":          http.StatusNotFound,
		"AlreadyExists":        http.StatusConflict,
		"BodyTooLarge":         http.StatusRequestEntityTooLarge,
		"UnsupportedMediaType": http.StatusUnsupportedMediaType,
		"Internal":             http.StatusInternalServerError,
		"Unavailable":          http.StatusServiceUnavailable,
	}[name])
}

// scopes are those a client asks for to call the API (document 1,
// "Authentication").
var scopes = []string{"openid", "urn:service:iam:org:project:id:service:aud"}

var securitySchemes = fields[securityScheme]{
	{"bearer", securityScheme{Type: "http", Scheme: "bearer", Description: "The personal access token of a service user."}},
	{"oauth2", securityScheme{
		Type:        "oauth2",
		Description: "An access token of this server whose audience holds the project of the platform.",
		Flows: map[string]any{"authorizationCode": struct {
			AuthorizationURL string         `json:"authorizationUrl"`
			TokenURL         string         `json:"tokenUrl"`
			Scopes           fields[string] `json:"scopes"`
		}{
			"/oauth/v2/authorize", "/oauth/v2/token",
			fields[string]{
				{scopes[0], "Authenticate the user."},
				{scopes[1], "Add the project of the platform to the audience of the token."},
			},
		}},
	}},
}

const description = `The resource and settings API of Writ, an identity platform. Every operation exists as a gRPC method too.

**Contexts.** Installation, instance, organization. A call applies to the instance of its Host header unless ctx says otherwise.

**JSON.** Names are lowerCamelCase, 64-bit integers are strings, times are RFC 3339 in UTC, durations are seconds such as 10s. Unknown members and unknown query parameters are refused. Answers may gain members.

**Refusals** have the schema Status on every path of this API.

**Alpha.** These services may still change, and answer only where their feature is switched on.`
