package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaxDepth bounds how deep what comes from outside may nest: as JSON in objects and arrays,
// whichever wire it came by, and whoever sent it (SEC-291).
const MaxDepth = 64

// maxMessages is the same in messages: of a Struct an object is one, its member, and the
// Value of that.
const maxMessages = 3*MaxDepth + 2

// MaxValues bounds how many values, members and elements, a text has, or a binary message
// has messages: each costs far more in memory than its two or three bytes (SEC-291).
const MaxValues = 100_000

// TooMany is the refusal of a body with more.
func TooMany() *Refusal {
	return &Refusal{Reason: "TOO_MANY_VALUES", Field: "", Description: fmt.Sprintf("the body has more than %d values", MaxValues)}
}

// TooDeep is the refusal of what nests deeper.
func TooDeep() *Refusal {
	return &Refusal{Reason: "TOO_DEEP", Field: "", Description: fmt.Sprintf("the body nests deeper than %d", MaxDepth)}
}

// Unmarshal reads a message in the binary form, no deeper than may be. Exact to the
// object is who walks what came of it, by Step.
func Unmarshal(data []byte, message proto.Message) error {
	if len(data) > 2*MaxValues { // a shorter one cannot have more
		left := MaxValues
		if count(data, message.ProtoReflect().Descriptor(), maxMessages, &left); left < 0 {
			return TooMany()
		}
	}
	err := proto.UnmarshalOptions{RecursionLimit: maxMessages}.Unmarshal(data, message)
	if err != nil && strings.Contains(err.Error(), "maximum recursion depth") { // it has no name
		return TooDeep()
	}
	return err
}

// count takes the messages within one from those that are left. It reads each tag once, and
// leaves mistakes to who decodes.
func count(data []byte, of protoreflect.MessageDescriptor, deep int, left *int) {
	for len(data) > 0 && *left >= 0 && deep > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
			return
		}
		if field := of.Fields().ByNumber(number); kind == protowire.BytesType && field != nil && field.Message() != nil {
			*left--
			within, _ := protowire.ConsumeBytes(data)
			count(within, field.Message(), deep-1, left)
		}
		data = data[n:]
	}
}

// UnmarshalJSON reads a message of what a target answers, as protojson does, no deeper than
// may be.
func UnmarshalJSON(text []byte, message proto.Message, options protojson.UnmarshalOptions) error {
	if err := checkShape(text); err != nil {
		return err
	}
	return options.Unmarshal(text, message)
}

// Step is how many objects and arrays a message, or a list or map of a field, is as JSON.
func Step(of protoreflect.Descriptor) int {
	switch of := of.(type) {
	case protoreflect.FieldDescriptor:
		if of.IsList() || of.IsMap() {
			return 1
		}
	case protoreflect.MessageDescriptor:
		if of.ParentFile().Package() != "google.protobuf" { // those have forms of their own
			return 1
		}
	}
	return 0
}
