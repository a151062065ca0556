package execution

import (
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/wire"
)

// Sample returns what a condition might send, called by a user of an instance: the
// messages of the contract with something in each field. Of a service or a group it is
// the first method or event.
func Sample(condition *actionv3.Condition, operations *policy.Operations, call *policy.Call, now *timestamppb.Timestamp) wire.Appender {
	instance, org, user := call.Instance.ID, call.Org(), call.Caller.UserID
	switch c := condition.GetConditionType().(type) {
	case *actionv3.Condition_Request:
		method := firstWith(operations.ExtensibleMethods(), c.Request.GetMethod(), "/"+c.Request.GetService())
		req, _ := messagesOf(method)
		return &actionv3.RequestPayload{FullMethod: method, InstanceId: instance, OrgId: org, UserId: user, Request: public(req)}
	case *actionv3.Condition_Response:
		method := firstWith(operations.ExtensibleMethods(), c.Response.GetMethod(), "/"+c.Response.GetService())
		req, res := messagesOf(method)
		return &actionv3.ResponsePayload{FullMethod: method, InstanceId: instance, OrgId: org, UserId: user, Request: public(req), Response: public(res)}
	case *actionv3.Condition_Function:
		payload := filled(event.Known.Message(c.Function))
		message := payload.ProtoReflect()
		message.Set(message.Descriptor().Fields().ByName("function"), protoreflect.ValueOfString(c.Function))
		return payload.(wire.Appender)
	default:
		e := condition.GetEvent()
		name := e.GetEvent()
		if name == "" { // a group, or all
			name = event.Known.Named(strings.TrimPrefix(strings.TrimSuffix(e.GetGroup(), ".*")+".*", "."))[0]
		}
		payload := filled(event.Known.Message(name)).(event.Payload)
		return &actionv3.EventPayload{
			AggregateId: "sample", AggregateType: event.Aggregate(payload), ResourceOwner: instance, InstanceId: instance, Version: EventVersion,
			Sequence: 1, EventType: name, CreatedAt: now, UserId: user, EventPayload: event.JSON(payload),
		}
	}
}

// EventVersion is the version of the payloads of events.
const EventVersion = "v1"

// firstWith returns the exact name, else the first with the prefix.
func firstWith(names []string, exact, prefix string) string {
	if exact != "" {
		return exact
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return ""
}

// messagesOf returns samples of the messages of a method.
func messagesOf(method string) (req, res proto.Message) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		panic(err) // a method of the contract is in it
	}
	rpc := found.(protoreflect.MethodDescriptor)
	return filled(rpc.Input()), filled(rpc.Output())
}

// filled returns a message with something in each field, of a oneof in the first.
func filled(of protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		panic(err)
	}
	m := kind.New()
	fill(m, 0)
	return m.Interface()
}

// maxSampled bounds a sample of messages that hold themselves.
const maxSampled = 6

func fill(m protoreflect.Message, depth int) {
	if depth > maxSampled || !strings.HasPrefix(string(m.Descriptor().FullName()), "writ.") {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		choice := field.ContainingOneof()
		switch {
		case choice != nil && m.WhichOneof(choice) != nil, field.IsMap():
		case field.IsList() && field.Message() != nil:
			one := m.NewField(field)
			fill(one.List().AppendMutable().Message(), depth+1)
			m.Set(field, one)
		case field.IsList():
			one := m.NewField(field)
			one.List().Append(sampleOf(field))
			m.Set(field, one)
		case field.Message() != nil:
			fill(m.Mutable(field).Message(), depth+1)
		default:
			m.Set(field, sampleOf(field))
		}
	}
}

// sampleOf returns a value for a field that is no message: the example of the contract,
// if it has one.
func sampleOf(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
		if examples := rules.GetString().GetExample(); len(examples) > 0 {
			return protoreflect.ValueOfString(examples[0])
		}
		return protoreflect.ValueOfString("sample")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(`"sample"`))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(min(1, values.Len()-1)).Number())
	}
	return field.Default()
}
