package httprule_test

import (
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/writ-id/writ/contracts/generate/httprule"
)

// method returns a method with a rule, whose request has the fields id, names (a
// list), size and inner (a message).
func method(t *testing.T, rule *annotations.HttpRule) protoreflect.MethodDescriptor {
	t.Helper()
	options := &descriptorpb.MethodOptions{}
	if rule != nil {
		proto.SetExtension(options, annotations.E_Http, rule)
	}
	text, size, message := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT32, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	one, many := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("t.proto"), Package: proto.String("t"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("R"), Field: []*descriptorpb.FieldDescriptorProto{
			{Name: proto.String("id"), Number: proto.Int32(1), Type: &text, Label: &one},
			{Name: proto.String("names"), Number: proto.Int32(2), Type: &text, Label: &many},
			{Name: proto.String("size"), Number: proto.Int32(3), Type: &size, Label: &one},
			{Name: proto.String("inner"), Number: proto.Int32(4), Type: &message, TypeName: proto.String(".t.R"), Label: &one},
		}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("M"), InputType: proto.String(".t.R"), OutputType: proto.String(".t.R"), Options: options},
		}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return file.Services().Get(0).Methods().Get(0)
}

func get(path string) *annotations.HttpRule {
	return &annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: path}}
}

// What a pattern of net/http cannot say fails by name, so that nothing is served as
// something else.
func TestARuleThatDoesNotFitIsNamed(t *testing.T) {
	t.Parallel()
	more, answer := get("/r"), get("/r")
	more.AdditionalBindings = []*annotations.HttpRule{get("/s")}
	answer.ResponseBody = "id"
	body := func(field string) *annotations.HttpRule {
		return &annotations.HttpRule{Pattern: &annotations.HttpRule_Post{Post: "/r/{id}"}, Body: field}
	}
	for _, test := range []struct {
		name string
		rule *annotations.HttpRule
		want error
	}{
		{"none", nil, httprule.ErrMissing},
		{"a verb of its own", &annotations.HttpRule{Pattern: &annotations.HttpRule_Custom{Custom: &annotations.CustomHttpPattern{Kind: "BREW", Path: "/r"}}}, httprule.ErrVerb},
		{"two paths", more, httprule.ErrBindings},
		{"a part of the answer", answer, httprule.ErrBindings},
		{"a verb behind a colon", get("/r/{id}:activate"), httprule.ErrSegment},
		{"a verb behind a literal", get("/r:activate"), httprule.ErrSegment},
		{"a part of a segment", get("/r/a{id}"), httprule.ErrSegment},
		{"a pattern of two segments", get("/r/{id=a/*}"), httprule.ErrSegment},
		{"many segments that are not the last", get("/r/{id=**}/s"), httprule.ErrSegment},
		{"any segment", get("/r/*"), httprule.ErrSegment},
		{"a trailing slash", get("/r/"), httprule.ErrSegment},
		{"no slash", get("r"), httprule.ErrSegment},
		{"a variable without a field", get("/r/{nothing}"), httprule.ErrVariable},
		{"a variable that is a number", get("/r/{size}"), httprule.ErrVariable},
		{"a variable that is a list", get("/r/{names}"), httprule.ErrVariable},
		{"a body without a field", body("nothing"), httprule.ErrBody},
		{"a body that is in the path", body("id"), httprule.ErrBody},
		{"a body that is a text", body("names"), httprule.ErrBody},
	} {
		if _, err := httprule.Of(method(t, test.rule)); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, err, test.want)
		}
	}
}

func TestARulePutsEachFieldSomewhere(t *testing.T) {
	t.Parallel()
	rule, err := httprule.Of(method(t, &annotations.HttpRule{Pattern: &annotations.HttpRule_Patch{Patch: "/r/{id=**}"}, Body: "inner"}))
	if err != nil {
		t.Fatal(err)
	}
	if rule.Verb != "PATCH" || rule.Pattern() != "/r/{id...}" || len(rule.Path) != 1 || rule.Body.Name() != "inner" || len(rule.Query) != 2 {
		t.Errorf("got %+v", rule)
	}
	if got := rule.Replace(func(field protoreflect.FieldDescriptor) string { return "<" + string(field.Name()) + ">" }); got != "/r/<id>" {
		t.Errorf("got %s", got)
	}
}
