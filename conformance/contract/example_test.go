package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/conformance/harness"
)

// example returns a request of an operation that keeps all rules and names
// nothing that exists: the published example of its body, completed by what the
// rules ask for. It is an error when that is not enough.
func example(t testing.TB, server *harness.Server, op *operation) (proto.Message, error) {
	t.Helper()
	req, rule := op.question(), op.rule()
	if published := publishedExample(t, server, op); published != nil {
		text, err := json.Marshal(published)
		if err != nil {
			return nil, err
		}
		if rule.body != "*" {
			name := op.method.Input().Fields().ByName(protoreflect.Name(rule.body)).JSONName()
			text = fmt.Appendf(nil, "{%q:%s}", name, text)
		}
		if err := protojson.Unmarshal(text, req); err != nil {
			return nil, fmt.Errorf("the published example: %w", err)
		}
	}
	return req, complete(req)
}

// publishedExample returns the example of the body of an operation, or nil.
func publishedExample(t testing.TB, server *harness.Server, op *operation) any {
	t.Helper()
	for _, item := range documentOf(t, server).Paths.Map() {
		for _, published := range item.Operations() {
			if published.Extensions["x-grpc-method"] == op.path() && published.RequestBody != nil {
				return published.RequestBody.Value.Content.Get("application/json").Example
			}
		}
	}
	return nil
}

var documents sync.Map // of servers, by issuer

func documentOf(t testing.TB, server *harness.Server) *harness.Document {
	t.Helper()
	known, ok := documents.Load(server.Issuer)
	if !ok {
		known, _ = documents.LoadOrStore(server.Issuer, server.Document(t))
	}
	return known.(*harness.Document)
}

var rules = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

// violations returns what rules a message breaks, in their order.
func violations(m proto.Message) ([]*protovalidate.Violation, error) {
	validator, err := rules()
	if err != nil {
		return nil, err
	}
	err = validator.Validate(m)
	if broken, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
		return broken.Violations, nil
	}
	return nil, err
}

// complete sets what the rules say is missing or wrong, until nothing is.
func complete(m proto.Message) error {
	tries := map[string]int{}
	for {
		broken, err := violations(m)
		if err != nil || len(broken) == 0 {
			return err
		}
		elements := broken[0].Proto.GetField().GetElements()
		at := protovalidate.FieldPathString(broken[0].Proto.GetField())
		if err := fill(m.ProtoReflect(), elements, tries[at]); err != nil {
			return fmt.Errorf("no valid value is known for %q (%s): %w", at, broken[0].Proto.GetMessage(), err)
		}
		tries[at]++
	}
}

// fill sets the field at the end of a path to the value of that number.
func fill(m protoreflect.Message, path []*validate.FieldPathElement, number int) error {
	if len(path) == 0 {
		return errors.New("the rule is one of the whole message")
	}
	name := protoreflect.Name(path[0].GetFieldName())
	field := m.Descriptor().Fields().ByName(name)
	if oneof := m.Descriptor().Oneofs().ByName(name); field == nil && oneof != nil {
		if number >= oneof.Fields().Len() {
			return errors.New("no member is good")
		}
		field = oneof.Fields().Get(number)
		if field.Message() != nil {
			m.Mutable(field)
			return nil
		}
		return fill(m, []*validate.FieldPathElement{{FieldName: proto.String(string(field.Name()))}}, 0)
	}
	index, isItem := path[0].GetSubscript().(*validate.FieldPathElement_Index)
	switch {
	case field == nil || field.IsMap():
		return errors.New("maps are not filled")
	case len(path) > 1 && isItem:
		return fill(m.Mutable(field).List().Get(int(index.Index)).Message(), path[1:], number)
	case len(path) > 1:
		return fill(m.Mutable(field).Message(), path[1:], number)
	case field.IsList() && !isItem: // too short
		appendTo(m, field)
		if number > 10 {
			return errors.New("no length is good")
		}
		return nil
	case field.Message() != nil && !wellKnown(field.Message()):
		if isItem || m.Has(field) {
			return errors.New("the rule is one of the whole message")
		}
		m.Mutable(field)
		return nil
	}
	values := candidates(field)
	if number >= len(values) {
		return errors.New("no candidate is good")
	}
	if isItem {
		m.Mutable(field).List().Set(int(index.Index), values[number])
	} else {
		m.Set(field, values[number])
	}
	return nil
}

// appendTo appends an element to a list.
func appendTo(m protoreflect.Message, field protoreflect.FieldDescriptor) {
	list := m.Mutable(field).List()
	if field.Message() != nil {
		list.AppendMutable()
	} else {
		list.Append(candidates(field)[0])
	}
}

func wellKnown(m protoreflect.MessageDescriptor) bool {
	return m.FullName().Parent() == "google.protobuf"
}

// candidates returns values for a field or its elements, of which one may keep
// the rules.
func candidates(field protoreflect.FieldDescriptor) (values []protoreflect.Value) {
	for _, name := range []protoreflect.Name{"example", "const", "in"} {
		if stated, ok := bound(field, name); ok {
			if list, ok := stated.Interface().(protoreflect.List); ok {
				for i := range list.Len() {
					values = append(values, list.Get(i))
				}
			} else {
				values = append(values, stated)
			}
		}
	}
	for i, value := range values {
		if number, ok := value.Interface().(int32); ok && field.Kind() == protoreflect.EnumKind { // rules name enums by number
			values[i] = protoreflect.ValueOfEnum(protoreflect.EnumNumber(number))
		}
	}
	add := func(value any) { values = append(values, protoreflect.ValueOf(value)) }
	switch field.Kind() {
	case protoreflect.StringKind:
		for _, text := range []string{
			"unknown", "Unknown thing", "00000000-0000-4000-8000-000000000000", "https://unknown.example/", "unknown.example", "unknown@unknown.example",
			"en", "123456", "Unknown-1234!", "+41791234567", "/unknown", "{}", "2030-01-31",
		} {
			add(text)
		}
		for _, name := range []protoreflect.Name{"min_len", "len"} {
			if least, ok := bound(field, name); ok {
				add(strings.Repeat("a", int(least.Uint())))
			}
		}
	case protoreflect.BytesKind:
		add([]byte("unknown"))
		for _, name := range []protoreflect.Name{"min_len", "len"} {
			if least, ok := bound(field, name); ok {
				add([]byte(strings.Repeat("a", int(least.Uint()))))
			}
		}
	case protoreflect.BoolKind:
		add(true)
		add(false)
	case protoreflect.EnumKind:
		for i := range field.Enum().Values().Len() {
			add(field.Enum().Values().Get((i + 1) % field.Enum().Values().Len()).Number())
		}
	case protoreflect.MessageKind:
		switch field.Message().FullName() {
		case "google.protobuf.Timestamp":
			for _, at := range []time.Duration{time.Hour, -time.Hour} {
				add(timestamppb.New(time.Now().Add(at)).ProtoReflect())
			}
		case "google.protobuf.Duration":
			for _, length := range []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
				add(durationpb.New(length).ProtoReflect())
			}
		default:
			add(empty(field.Message()).ProtoReflect())
		}
	default:
		for _, number := range []int{1, 10, 100, 1000} {
			values = append(values, numberOf(field.Kind(), float64(number)))
		}
		for _, name := range []protoreflect.Name{"gte", "lte"} {
			if limit, ok := bound(field, name); ok {
				values = append(values, limit)
			}
		}
	}
	return values
}

// numberOf returns a number as a value of a kind.
func numberOf(kind protoreflect.Kind, number float64) protoreflect.Value {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(number))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(number)
	}
	return protoreflect.ValueOfInt64(int64(number))
}

// bound returns a rule of a field, or of the elements of a list: max_len, lte…
func bound(field protoreflect.FieldDescriptor, name protoreflect.Name) (protoreflect.Value, bool) {
	stated, err := protovalidate.ResolveFieldRules(field)
	if err != nil || stated == nil {
		return protoreflect.Value{}, false
	}
	if field.IsList() {
		stated = stated.GetRepeated().GetItems()
	}
	of := stated.ProtoReflect()
	kind := of.WhichOneof(of.Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return protoreflect.Value{}, false
	}
	inner := of.Get(kind).Message()
	rule := inner.Descriptor().Fields().ByName(name)
	if rule == nil || !inner.Has(rule) {
		return protoreflect.Value{}, false
	}
	return inner.Get(rule), true
}

// listBound returns a rule of a list: min_items or max_items.
func listBound(field protoreflect.FieldDescriptor, name protoreflect.Name) (int, bool) {
	stated, err := protovalidate.ResolveFieldRules(field)
	if err != nil || stated.GetRepeated() == nil {
		return 0, false
	}
	of := stated.GetRepeated().ProtoReflect()
	rule := of.Descriptor().Fields().ByName(name)
	return int(of.Get(rule).Uint()), of.Has(rule)
}

// required reports whether a field has to be set.
func required(field protoreflect.FieldDescriptor) bool {
	stated, err := protovalidate.ResolveFieldRules(field)
	return err == nil && stated.GetRequired()
}
