package execution

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/wire"
)

// public returns the JSON of a message without its secrets.
func public(message proto.Message) []byte {
	if hasSecrets(message.ProtoReflect().Descriptor()) {
		message = proto.Clone(message)
		strip(message.ProtoReflect())
	}
	return message.(wire.Appender).AppendJSON(nil)
}

// replaced returns the message that an answer puts in the place of another one; what is
// secret in that stays as it is.
func replaced(message proto.Message, answer []byte) (proto.Message, error) {
	changed := message.ProtoReflect().New().Interface()
	if err := wire.UnmarshalJSON(answer, changed, protojson.UnmarshalOptions{}); err != nil {
		return nil, fmt.Errorf("the answer is no %s: %w", message.ProtoReflect().Descriptor().Name(), err)
	}
	if !hasSecrets(message.ProtoReflect().Descriptor()) {
		return changed, nil
	}
	if strip(changed.ProtoReflect()) {
		return nil, errors.New("the answer sets what is secret")
	}
	if keep(message.ProtoReflect(), changed.ProtoReflect()) {
		if at := steered(message.ProtoReflect(), changed.ProtoReflect()); at != "" {
			return nil, fmt.Errorf("the answer changes %s, which decides where a secret goes that is kept", at)
		}
	}
	return changed, nil
}

func isSecret(field protoreflect.FieldDescriptor) bool {
	return proto.GetExtension(field.Options(), policyv1.E_Secret).(bool)
}

func steers(field protoreflect.FieldDescriptor) bool {
	return proto.GetExtension(field.Options(), policyv1.E_Steers).(bool)
}

// holding is what messages can hold, by their names.
type holding struct {
	what  func(protoreflect.FieldDescriptor) bool
	known sync.Map // of bool
}

var secrets, steering = &holding{what: isSecret}, &holding{what: steers}

// hasSecrets reports whether a message of a type can hold a secret.
func hasSecrets(message protoreflect.MessageDescriptor) bool { return secrets.in(message) }

func (h *holding) in(message protoreflect.MessageDescriptor) bool {
	if found, ok := h.known.Load(message.FullName()); ok {
		return found.(bool)
	}
	found := false
	seen := map[protoreflect.FullName]bool{}
	var walk func(protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			found = found || h.what(field)
			if below := field.Message(); below != nil {
				walk(below)
			}
		}
	}
	walk(message)
	h.known.Store(message.FullName(), found)
	return found
}

// strip takes the secrets out of a message and reports whether there were some.
func strip(m protoreflect.Message) (found bool) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case isSecret(field):
			m.Clear(field)
			found = true
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
					found = strip(value.Message()) || found
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				found = strip(value.List().Get(i).Message()) || found
			}
		default:
			found = strip(value.Message()) || found
		}
		return true
	})
	return found
}

// keep gives a changed message the secrets of the one in whose place it is, wherever the
// message is that they were in, and reports whether there were some. No message of the
// contract has secrets in lists (TestNoListHasSecrets), where that could not be said.
func keep(from, to protoreflect.Message) (kept bool) {
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case isSecret(field):
			if choice := field.ContainingOneof(); choice == nil || to.WhichOneof(choice) == nil {
				to.Set(field, value)
				kept = true
			}
		case field.Message() != nil && !field.IsList() && !field.IsMap() && to.Has(field):
			kept = keep(value.Message(), to.Mutable(field).Message()) || kept
		}
		return true
	})
	return kept
}

// steered returns the first field by which a changed message leads secrets elsewhere than
// the one in whose place it is, "" when there is none. The generation holds requests to have
// no such field in a list.
func steered(from, to protoreflect.Message) string {
	fields := from.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case steers(field):
			if from.Has(field) != to.Has(field) || !from.Get(field).Equal(to.Get(field)) {
				return field.JSONName()
			}
		case field.Message() != nil && !field.IsList() && !field.IsMap() && (from.Has(field) || to.Has(field)) && steering.in(field.Message()):
			if at := steered(from.Get(field).Message(), to.Get(field).Message()); at != "" {
				return field.JSONName() + "." + at
			}
		}
	}
	return ""
}
