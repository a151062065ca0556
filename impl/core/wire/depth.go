package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaxDepth bounds how deep what comes from outside may nest: as JSON in objects and arrays,
// whichever wire it came by, and whoever sent it (SEC-291).
const MaxDepth = 64

// maxMessages is the same in messages: of a Struct an object is one, its member, and the
// Value of that.
const maxMessages = 3*MaxDepth + 2

// TooDeep is the refusal of what nests deeper.
func TooDeep() *Refusal {
	return &Refusal{Reason: "TOO_DEEP", Field: "", Description: fmt.Sprintf("the body nests deeper than %d", MaxDepth)}
}

// Unmarshal reads a message in the binary form, no deeper than may be. Exact to the
// object is who walks what came of it, by Step.
func Unmarshal(data []byte, message proto.Message) error {
	err := proto.UnmarshalOptions{RecursionLimit: maxMessages}.Unmarshal(data, message)
	if err != nil && strings.Contains(err.Error(), "maximum recursion depth") { // it has no name
		return TooDeep()
	}
	return err
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
