package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/writ-id/writ/contracts/generate/httprule"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/gen/restclient"
)

// operation is one operation of the contract.
type operation struct {
	method    protoreflect.MethodDescriptor
	generated reflect.Method // of the generated REST client
}

// policy returns what the contract says about the operation.
func (o *operation) policy() *policyv1.Operation {
	return proto.GetExtension(o.method.Options(), policyv1.E_Operation).(*policyv1.Operation)
}

// path returns the operation as gRPC names it: /package.Service/Method.
func (o *operation) path() string {
	return "/" + string(o.method.Parent().FullName()) + "/" + string(o.method.Name())
}

// question returns an empty request, answer an empty answer.
func (o *operation) question() proto.Message { return empty(o.method.Input()) }
func (o *operation) answer() proto.Message   { return empty(o.method.Output()) }

func empty(m protoreflect.MessageDescriptor) proto.Message {
	found, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	if err != nil {
		panic(err)
	}
	return found.New().Interface()
}

// operations are all of them, by path: those of the imported packages that
// state a policy. TestEveryServedOperationIsTested compares them with what the
// server serves.
var operations = registered()

func registered() map[string]*operation {
	client, generated := reflect.TypeFor[*restclient.ClientWithResponses](), map[string]reflect.Method{}
	for i := range client.NumMethod() { // the generator spells Id as ID
		generated[strings.ToLower(client.Method(i).Name)] = client.Method(i)
	}
	all := map[string]*operation{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				if m := methods.Get(j); strings.HasPrefix(string(file.Package()), "writ.") && proto.HasExtension(m.Options(), policyv1.E_Operation) {
					o := &operation{m, generated[strings.ToLower(string(m.Name())+"WithResponse")]}
					all[o.path()] = o
				}
			}
		}
		return true
	})
	return all
}

// sortedOperations returns them in the order of their paths.
func sortedOperations() []*operation {
	var all []*operation
	for _, o := range operations {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *operation) int { return strings.Compare(a.path(), b.path()) })
	return all
}

// operationOf returns the operation that a request belongs to.
func operationOf(req proto.Message) *operation {
	for _, o := range operations {
		if o.method.Input().FullName() == req.ProtoReflect().Descriptor().FullName() {
			return o
		}
	}
	panic(fmt.Sprintf("no operation takes a %s", req.ProtoReflect().Descriptor().FullName()))
}

// rule is where the HTTP rule of an operation puts the fields of its request.
type rule struct {
	stated        *httprule.Rule
	verb, pattern string
	variables     []protoreflect.FieldDescriptor // in the order of the path
	body          string                         // a field, "*" for all that is not in the path, "" for none
}

func (o *operation) rule() rule {
	known, ok := statedRules.Load(o.path())
	if !ok {
		known, _ = statedRules.LoadOrStore(o.path(), o.readRule())
	}
	return known.(rule)
}

// statedRules are what operations state, by path: walks ask for them all the time.
var statedRules sync.Map

func (o *operation) readRule() rule {
	stated, err := httprule.Of(o.method)
	if err != nil {
		panic(err) // nothing is generated of such a contract
	}
	r := rule{stated: stated, verb: stated.Verb, pattern: stated.Template, variables: stated.Path}
	switch {
	case stated.All:
		r.body = "*"
	case stated.Body != nil:
		r.body = string(stated.Body.Name())
	}
	return r
}

// place says where in an HTTP request a field of the message is.
func (r rule) place(field protoreflect.FieldDescriptor) string {
	switch {
	case slices.Contains(r.variables, field):
		return "path"
	case r.body == "*" || r.body == string(field.Name()):
		return "body"
	}
	return "query"
}

// inMessage makes the paths in a refusal of REST those of the message, which the other
// transports use: REST names the members of its body, path and query.
func (o *operation) inMessage(refusal *spb.Status) {
	field := o.method.Input().Fields().ByName(protoreflect.Name(o.rule().body))
	if refusal == nil || field == nil || (outcome{refusal: refusal}).reason() == "UNKNOWN_PARAMETER" { // of the query
		return
	}
	for _, detail := range refusal.GetDetails() {
		bad := &errdetails.BadRequest{}
		if !detail.MessageIs(bad) || detail.UnmarshalTo(bad) != nil {
			continue
		}
		for _, violation := range bad.GetFieldViolations() {
			old := violation.GetField()
			first, _, _ := strings.Cut(old, ".")
			switch outside := o.method.Input().Fields().ByJSONName(first); {
			case old == "", outside != nil && o.rule().place(outside) != "body":
				continue
			case old == "body":
				violation.Field = field.JSONName()
			case strings.HasPrefix(old, "["):
				violation.Field = field.JSONName() + old
			default:
				violation.Field = field.JSONName() + "." + old
			}
			if rest, named := strings.CutPrefix(refusal.GetMessage(), old+": "); named {
				refusal.Message = violation.GetField() + ": " + rest
			}
		}
		if err := detail.MarshalFrom(bad); err != nil {
			panic(err) // it was one
		}
	}
}

// parts are what an HTTP request is made of.
type parts struct {
	rule
	segments []any          // the values of the variables
	query    map[string]any // texts, numbers, booleans, or lists of them
	content  json.RawMessage
}

// parts takes a request apart by the HTTP rule.
func (o *operation) parts(req proto.Message) (parts, error) {
	from := req.ProtoReflect()
	p := parts{rule: o.rule(), query: map[string]any{}}
	body := from.New()
	for _, field := range p.variables {
		p.segments = append(p.segments, parameter(field, from.Get(field)))
	}
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch p.place(field) {
		case "query":
			addParameters(p.query, field.JSONName(), field, value)
		case "body":
			body.Set(field, value)
		}
		return true
	})
	if p.body == "" {
		return p, nil
	}
	text, err := protojson.Marshal(body.Interface())
	if err != nil || p.body == "*" {
		p.content = text
		return p, err
	}
	field := from.Descriptor().Fields().ByName(protoreflect.Name(p.body))
	members := map[string]json.RawMessage{}
	err = json.Unmarshal(text, &members)
	switch p.content = members[field.JSONName()]; {
	case p.content != nil:
	case field.IsList():
		p.content = json.RawMessage("[]")
	default:
		p.content = json.RawMessage("{}")
	}
	return p, err
}

// addParameters adds a field that is set.
func addParameters(query map[string]any, name string, field protoreflect.FieldDescriptor, value protoreflect.Value) {
	switch {
	case field.IsList():
		var values []any
		for i := range value.List().Len() {
			values = append(values, parameter(field, value.List().Get(i)))
		}
		query[name] = values
	case field.Message() != nil && field.Message().FullName().Parent() != "google.protobuf":
		value.Message().Range(func(inner protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			addParameters(query, name+"."+inner.JSONName(), inner, value)
			return true
		})
	default:
		query[name] = parameter(field, value)
	}
}

// parameter returns a value as the JSON that the generated client takes, whose
// text is also its spelling in a query.
func parameter(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return tree(value.Message().Interface())
	case protoreflect.EnumKind:
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			return string(known.Name())
		}
		return json.Number(value.String())
	case protoreflect.StringKind, protoreflect.BoolKind:
		return value.Interface()
	case protoreflect.BytesKind:
		return value.Bytes() // base64, as JSON has it
	}
	return json.Number(value.String())
}

// request makes the HTTP request of an operation by its rule.
func (o *operation) request(ctx context.Context, issuer string, req proto.Message) (*http.Request, error) {
	p, err := o.parts(req)
	if err != nil {
		return nil, err
	}
	next := -1
	path := p.stated.Replace(func(protoreflect.FieldDescriptor) string { next++; return url.PathEscape(fmt.Sprint(p.segments[next])) })
	query := url.Values{}
	for name, value := range p.query {
		values, ok := value.([]any)
		if !ok {
			values = []any{value}
		}
		for _, value := range values {
			query.Add(name, fmt.Sprint(value))
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var body io.Reader
	if p.content != nil {
		body = bytes.NewReader(p.content)
	}
	request, err := http.NewRequestWithContext(ctx, p.verb, issuer+path, body)
	if err == nil && body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, err
}

// arguments returns what the method of the generated REST client is called
// with: the client, a context, each variable of the path, a struct of query
// parameters, the body. What these types cannot hold is an error: the two
// contracts differ.
func (o *operation) arguments(client *restclient.ClientWithResponses, ctx context.Context, req proto.Message) ([]reflect.Value, error) {
	kind := o.generated.Type
	if kind == nil {
		return nil, fmt.Errorf("the generated client has no %s", o.method.Name())
	}
	p, err := o.parts(req)
	if err != nil {
		return nil, err
	}
	from := slices.Clone(p.segments)
	if last := kind.NumIn() - 2; len(p.query) > 0 || hasParams(kind.In(last)) || hasParams(kind.In(last-1)) {
		from = append(from, p.query)
	}
	if p.content != nil {
		from = append(from, p.content)
	}
	args := []reflect.Value{reflect.ValueOf(client), reflect.ValueOf(ctx)}
	if len(args)+len(from) != kind.NumIn()-1 { // the last are the editors
		return nil, fmt.Errorf("the generated %s takes other parts than %v", o.method.Name(), from)
	}
	for i, value := range from {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		into := reflect.New(kind.In(2 + i))
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into.Interface()); err != nil {
			return nil, fmt.Errorf("the generated %s cannot say %s: %w", o.method.Name(), text, err)
		}
		args = append(args, into.Elem())
	}
	return args, nil
}

// hasParams reports whether an argument is a struct of query parameters.
func hasParams(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && strings.HasSuffix(t.Elem().Name(), "Params")
}
