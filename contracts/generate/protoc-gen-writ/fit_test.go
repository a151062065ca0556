package main

import (
	"errors"
	"os"
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/writ-id/writ/contracts/generate/httprule"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// TestWhatDoesNotFitFailsGenerationByName changes one request of the contract at a
// time.
func TestWhatDoesNotFitFailsGenerationByName(t *testing.T) {
	t.Parallel()
	image, err := os.ReadFile("../../../gen/openapi/descriptors.binpb")
	if err != nil {
		t.Fatal(err)
	}
	const path = "writ/project/v3alpha/project_service.proto"
	float, list := descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	one, message := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	policyOf := func(change func(*policyv1.Operation)) func(*descriptorpb.DescriptorProto, *descriptorpb.MethodOptions) {
		return func(_ *descriptorpb.DescriptorProto, options *descriptorpb.MethodOptions) {
			change(proto.GetExtension(options, policyv1.E_Operation).(*policyv1.Operation))
		}
	}
	route := func(path string) func(*descriptorpb.DescriptorProto, *descriptorpb.MethodOptions) {
		return func(_ *descriptorpb.DescriptorProto, options *descriptorpb.MethodOptions) {
			proto.GetExtension(options, annotations.E_Http).(*annotations.HttpRule).Pattern = &annotations.HttpRule_Get{Get: path}
		}
	}
	add := func(field *descriptorpb.FieldDescriptorProto) func(*descriptorpb.DescriptorProto, *descriptorpb.MethodOptions) {
		return func(m *descriptorpb.DescriptorProto, _ *descriptorpb.MethodOptions) {
			field.Name, field.Number = proto.String("more"), proto.Int32(99)
			m.Field = append(m.Field, field)
		}
	}
	for _, test := range []struct {
		name   string
		in     string
		change func(*descriptorpb.DescriptorProto, *descriptorpb.MethodOptions)
		want   error
	}{
		{"a number with a fraction in a body", "Project", add(&descriptorpb.FieldDescriptorProto{Type: &float, Label: &one}), errKind},
		{"a list of messages in the query", "GetProjectRequest", add(&descriptorpb.FieldDescriptorProto{Type: &message, TypeName: proto.String(".writ.object.v3alpha.ListQuery"), Label: &list}), errQuery},
		{"a time in the query", "GetProjectRequest", add(&descriptorpb.FieldDescriptorProto{Type: &message, TypeName: proto.String(".google.protobuf.Timestamp"), Label: &one}), errQuery},
		{"a variable without a field", "GetProjectRequest", route("/resources/v3alpha/projects/{nothing}"), httprule.ErrVariable},
		{"a verb behind a colon", "GetProjectRequest", route("/resources/v3alpha/projects/{id}:read"), httprule.ErrSegment},
		{"an operation of the system and of tenants whose request does not say which", "GetProjectRequest", policyOf(func(op *policyv1.Operation) {
			op.Levels = []policyv1.Level{policyv1.Level_LEVEL_INSTANCE, policyv1.Level_LEVEL_SYSTEM}
		}), errContext},
		{"a secret that nothing steers", "GetProjectRequest", func(m *descriptorpb.DescriptorProto, _ *descriptorpb.MethodOptions) {
			m.Field[0].Options = &descriptorpb.FieldOptions{}
			proto.SetExtension(m.GetField()[0].GetOptions(), policyv1.E_Secret, true)
		}, errSecret},
		{"a permission of the system for what applies to tenants", "GetProjectRequest", policyOf(func(op *policyv1.Operation) { op.Permission = "system.project.read" }), errContext},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var files descriptorpb.FileDescriptorSet
			if err := proto.Unmarshal(image, &files); err != nil {
				t.Fatal(err)
			}
			for _, file := range files.GetFile() {
				if file.GetName() != path {
					continue
				}
				if !slices.Contains(file.GetDependency(), "google/protobuf/timestamp.proto") {
					file.Dependency = append(file.Dependency, "google/protobuf/timestamp.proto")
				}
				var options *descriptorpb.MethodOptions
				for _, method := range file.GetService()[0].GetMethod() {
					if method.GetName() == "GetProject" {
						options = method.GetOptions()
					}
				}
				for _, m := range file.GetMessageType() {
					if m.GetName() == test.in {
						test.change(m, options)
					}
				}
			}
			plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
				Parameter: proto.String("module=github.com/writ-id/writ/gen/proto"), ProtoFile: files.GetFile(), FileToGenerate: []string{path},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := generateAll(plugin); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
