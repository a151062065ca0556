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
	keep(message.ProtoReflect(), changed.ProtoReflect())
	return changed, nil
}

func isSecret(field protoreflect.FieldDescriptor) bool {
	return proto.GetExtension(field.Options(), policyv1.E_Secret).(bool)
}

// known is what hasSecrets found out.
var known sync.Map // of bool, by name of the message

// hasSecrets reports whether a message of a type can hold a secret.
func hasSecrets(message protoreflect.MessageDescriptor) bool {
	if found, ok := known.Load(message.FullName()); ok {
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
			found = found || isSecret(field)
			if below := field.Message(); below != nil {
				walk(below)
			}
		}
	}
	walk(message)
	known.Store(message.FullName(), found)
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
// message is that they were in. No message of the contract has secrets in lists
// (TestNoListHasSecrets), where that could not be said.
func keep(from, to protoreflect.Message) {
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case isSecret(field):
			if choice := field.ContainingOneof(); choice == nil || to.WhichOneof(choice) == nil {
				to.Set(field, value)
			}
		case field.Message() != nil && !field.IsList() && !field.IsMap() && to.Has(field):
			keep(value.Message(), to.Mutable(field).Message())
		}
		return true
	})
}
