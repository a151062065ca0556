package policy

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/wire"
)

// walk goes once through what is set in a message, before anybody knows who may have it
// read: it keeps nothing of the way, and a path is put together only of what is wrong, on
// the way back.
type walk struct {
	parts   int // messages, elements of lists and entries of maps
	refusal *fault.Error
	path    []string // of what is wrong, from its end
}

// checkWire refuses a message with what no message may have, and counts its parts.
func checkWire(m protoreflect.Message) (parts int, refusal *fault.Error) {
	w := &walk{}
	if w.message(m, 0) {
		return w.parts, nil
	}
	var path strings.Builder
	for i := len(w.path) - 1; i >= 0; i-- {
		if path.Len() > 0 && w.path[i][0] != '[' {
			path.WriteByte('.')
		}
		path.WriteString(w.path[i])
	}
	if path.Len() > 0 {
		w.refusal.Fields[0].Field = path.String()
	}
	return w.parts, w.refusal
}

func (w *walk) refuse(refusal *fault.Error) bool {
	w.refusal = refusal
	return false
}

// below notes a step on the way back from what is wrong.
func (w *walk) below(fits bool, step func() string) bool {
	if !fits {
		w.path = append(w.path, step())
	}
	return fits
}

// message reports whether a message fits that lies so deep.
func (w *walk) message(m protoreflect.Message, depth int) bool {
	w.parts++
	if depth += wire.Step(m.Descriptor()); depth > wire.MaxDepth {
		return w.refuse(fault.Invalid("TOO_DEEP", "", "%s", wire.TooDeep().Description))
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		number, _, n := protowire.ConsumeTag(unknown)
		if refusal := marked(number, unknown[n:]); refusal != nil {
			return w.refuse(refusal)
		}
		return w.refuse(fault.Invalid("UNKNOWN_FIELD", "", "the message has no field number %d", number))
	}
	fits := true
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fits = w.below(w.field(field, value, depth+wire.Step(field)), field.JSONName)
		return fits
	})
	return fits
}

func (w *walk) field(field protoreflect.FieldDescriptor, value protoreflect.Value, depth int) (fits bool) {
	switch {
	case field.IsMap():
		fits = true
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			fits = w.below(w.text(field.MapKey(), key.Value()) && w.value(field.MapValue(), value, depth), func() string { return "[" + key.String() + "]" })
			return fits
		})
		return fits
	case field.IsList():
		list := value.List()
		if field.Message() == nil && field.Kind() != protoreflect.StringKind {
			w.parts += list.Len()
			return true
		}
		for i := range list.Len() {
			if !w.below(w.value(field, list.Get(i), depth), func() string { return "[" + strconv.Itoa(i) + "]" }) {
				return false
			}
		}
		return true
	default:
		return w.value(field, value, depth)
	}
}

func (w *walk) value(field protoreflect.FieldDescriptor, value protoreflect.Value, depth int) bool {
	if field.Message() != nil {
		return w.message(value.Message(), depth)
	}
	w.parts++
	return w.text(field, value)
}

func (w *walk) text(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	if field.Kind() != protoreflect.StringKind {
		return true
	}
	switch text := value.String(); {
	case strings.IndexByte(text, 0) >= 0:
		return w.refuse(fault.Invalid("INVALID_TEXT", "", "must not contain NUL"))
	case !utf8.ValidString(text): // from a path or query; the decoders refuse it
		return w.refuse(fault.Invalid("INVALID_UTF8", "", "must be UTF-8"))
	}
	return true
}
