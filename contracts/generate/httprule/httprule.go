// Package httprule reads the option google.api.http, for all who need to know where
// an operation is in REST: the generators of the server and of the published
// document, and the conformance suite.
package httprule

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What a rule may not say. Whatever reads it fails with the method and one of these.
var (
	ErrMissing  = errors.New("needs the option google.api.http: add it")
	ErrVerb     = errors.New("only get, put, post, delete and patch are served: use one of them")
	ErrBindings = errors.New("additional_bindings and response_body are not served: remove them, or add a method")
	ErrSegment  = errors.New(`a segment of a path is a literal, {field}, or {field=**} at the end: a pattern of net/http has no other, and no verb behind a colon (write it as a segment of its own, "/_activate")`)
	ErrVariable = errors.New("a variable of the path has to be a text of the request: add the field, as a string")
	ErrBody     = errors.New("the body has to be a message, or a list of them, of the request: name such a field")
)

// Rule is where an operation is in REST.
type Rule struct {
	Verb     string                         // GET, PUT, POST, DELETE or PATCH
	Template string                         // the path as the contract has it
	Path     []protoreflect.FieldDescriptor // the fields that are in the path, in its order
	Body     protoreflect.FieldDescriptor   // the field that the body is, if it is one field
	All      bool                           // the body is the request, without what is in the path
	Rest     []protoreflect.FieldDescriptor // of All, the fields that are in the body
	Query    []protoreflect.FieldDescriptor // the fields that are in the query
}

var (
	literal  = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	variable = regexp.MustCompile(`\{(\w+)(=\*\*?)?\}`)
)

// Of returns the rule of a method.
func Of(method protoreflect.MethodDescriptor) (*Rule, error) {
	stated, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	if stated == nil {
		return nil, fmt.Errorf("%s: %w", method.FullName(), ErrMissing)
	}
	r := &Rule{}
	switch at := stated.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		r.Verb, r.Template = http.MethodGet, at.Get
	case *annotations.HttpRule_Put:
		r.Verb, r.Template = http.MethodPut, at.Put
	case *annotations.HttpRule_Post:
		r.Verb, r.Template = http.MethodPost, at.Post
	case *annotations.HttpRule_Delete:
		r.Verb, r.Template = http.MethodDelete, at.Delete
	case *annotations.HttpRule_Patch:
		r.Verb, r.Template = http.MethodPatch, at.Patch
	default:
		return nil, fmt.Errorf("%s: %w", method.FullName(), ErrVerb)
	}
	if len(stated.GetAdditionalBindings()) > 0 || stated.GetResponseBody() != "" {
		return nil, fmt.Errorf("%s: %w", method.FullName(), ErrBindings)
	}
	if err := r.place(method.Input().Fields(), stated.GetBody()); err != nil {
		return nil, fmt.Errorf("%s: %w", method.FullName(), err)
	}
	return r, nil
}

// place puts each field of a request into the path, the body or the query.
func (r *Rule) place(fields protoreflect.FieldDescriptors, body string) error {
	segments := strings.Split(r.Template, "/")
	for i, segment := range segments {
		found := variable.FindStringSubmatch(segment)
		switch {
		case i == 0 && segment == "", i > 0 && literal.MatchString(segment):
			continue
		case found == nil || found[0] != segment || found[2] == "=**" && i < len(segments)-1:
			return fmt.Errorf("%s, segment %q: %w", r.Template, segment, ErrSegment)
		}
		field := fields.ByName(protoreflect.Name(found[1]))
		if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() || field.ContainingOneof() != nil {
			return fmt.Errorf("%s, no field %s: %w", r.Template, found[1], ErrVariable)
		}
		r.Path = append(r.Path, field)
	}
	switch r.Body = fields.ByName(protoreflect.Name(body)); {
	case body == "*":
		r.All = true
		for i := range fields.Len() {
			if field := fields.Get(i); !slices.Contains(r.Path, field) {
				r.Rest = append(r.Rest, field)
			}
		}
		return nil
	case body != "" && (r.Body == nil || r.Body.Message() == nil || r.Body.IsMap() || slices.Contains(r.Path, r.Body)):
		return fmt.Errorf("no field %s: %w", body, ErrBody)
	}
	for i := range fields.Len() {
		if field := fields.Get(i); field != r.Body && !slices.Contains(r.Path, field) {
			r.Query = append(r.Query, field)
		}
	}
	return nil
}

// MayLack reports whether a body of some fields means something when there is none: each can be
// left out, having no rule.
func MayLack(fields []protoreflect.FieldDescriptor) bool {
	return !slices.ContainsFunc(fields, func(field protoreflect.FieldDescriptor) bool {
		return proto.HasExtension(field.Options(), validate.E_Field)
	})
}

// Pattern returns the path as a pattern of net/http.ServeMux.
func (r *Rule) Pattern() string {
	return variable.ReplaceAllStringFunc(r.Template, func(segment string) string {
		found := variable.FindStringSubmatch(segment)
		if found[2] == "=**" {
			return "{" + found[1] + "...}"
		}
		return "{" + found[1] + "}"
	})
}

// Replace returns the path with something else in the place of each variable.
func (r *Rule) Replace(with func(field protoreflect.FieldDescriptor) string) string {
	next := -1
	return variable.ReplaceAllStringFunc(r.Template, func(string) string { next++; return with(r.Path[next]) })
}
