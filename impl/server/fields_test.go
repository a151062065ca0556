package server_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// TestSEC292_ErrorsNameFieldsThatExist leaves each oneof of each request of the contract empty, at
// whatever depth: what is then refused names fields of the request and no oneof, which no wire
// has, and says which members there are.
func TestSEC292_ErrorsNameFieldsThatExist(t *testing.T) {
	t.Parallel()
	var requests []proto.Message
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				input := file.Services().Get(i).Methods().Get(j).Input()
				if found, err := protoregistry.GlobalTypes.FindMessageByName(input.FullName()); err == nil && strings.HasPrefix(string(input.FullName()), "writ.") {
					requests = append(requests, found.New().Interface())
				}
			}
		}
		return true
	})
	rules, err := policy.NewRules()
	if err != nil {
		t.Fatal(err)
	}
	oneofs := 0
	for _, request := range requests {
		within(request.ProtoReflect().Descriptor(), nil, func(path []protoreflect.FieldDescriptor, oneof protoreflect.OneofDescriptor) {
			oneofs++
			refusal, ok := errors.AsType[*fault.Error](rules.Check(emptied(request, path)))
			if !ok {
				return // it may be left out
			}
			for _, violation := range refusal.Fields {
				if !leads(request.ProtoReflect().Descriptor(), violation.Field) {
					t.Errorf("%T: %q is no field of it", request, violation.Field)
				}
				if strings.Contains(violation.Description, "oneof") {
					t.Errorf("%T: %s: %q speaks of what no wire has", request, violation.Field, violation.Description)
				}
				if member := oneof.Fields().Get(0).JSONName(); strings.HasPrefix(violation.Description, "exactly one of") && len(refusal.Fields) == 1 && !strings.Contains(violation.Description, member) {
					t.Errorf("%T: %s: %q does not name %s", request, violation.Field, violation.Description, member)
				}
			}
		})
	}
	if oneofs < 100 {
		t.Errorf("there are %d oneofs in requests, the test did not find them", oneofs)
	}
}

// within calls found with each oneof in a message, and with the path to the message that has it.
func within(in protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor, found func([]protoreflect.FieldDescriptor, protoreflect.OneofDescriptor)) {
	for _, one := range path[:max(len(path)-1, 0)] {
		if one.Message() == in {
			return
		}
	}
	for i := range in.Oneofs().Len() {
		if oneof := in.Oneofs().Get(i); !oneof.IsSynthetic() {
			found(path, oneof)
		}
	}
	for i := range in.Fields().Len() {
		if field := in.Fields().Get(i); field.Message() != nil && !field.IsMap() && strings.HasPrefix(string(field.Message().FullName()), "writ.") {
			within(field.Message(), append(path[:len(path):len(path)], field), found)
		}
	}
}

// emptied returns a request with an empty message at the end of a path.
func emptied(request proto.Message, path []protoreflect.FieldDescriptor) proto.Message {
	made := proto.Clone(request)
	at := made.ProtoReflect()
	for _, field := range path {
		if field.IsList() {
			at = at.Mutable(field).List().AppendMutable().Message()
		} else {
			at = at.Mutable(field).Message()
		}
	}
	return made
}

// leads reports whether a path in JSON leads to a field.
func leads(in protoreflect.MessageDescriptor, path string) bool {
	if path == "" {
		return true
	}
	for name := range strings.SplitSeq(path, ".") {
		name, _, _ = strings.Cut(name, "[")
		if in == nil || in.Fields().ByJSONName(name) == nil {
			return false
		}
		in = in.Fields().ByJSONName(name).Message()
	}
	return true
}
