package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/impl/fault"
)

// explain finds out why a body could not be decoded, so that the refusal names
// the field. It runs only after decoding failed with cause; what it cannot pin
// down keeps the cause's text.
func explain(data []byte, message protoreflect.MessageDescriptor, field string, cause error) *fault.Error {
	e := explainer{json.NewDecoder(bytes.NewReader(data))}
	e.in.UseNumber()
	return e.result(e.message(message, field), field, cause)
}

// explainList does so for a body that is a list.
func explainList(data []byte, element proto.Message, field string, cause error) *fault.Error {
	e := explainer{json.NewDecoder(bytes.NewReader(data))}
	e.in.UseNumber()
	return e.result(e.list(field, func(path string) error {
		return e.message(element.ProtoReflect().Descriptor(), path)
	}), field, cause)
}

// explainer walks a JSON text beside a descriptor. Its methods read one value
// and return a refusal, or the error of a text that is not JSON.
type explainer struct{ in *json.Decoder }

func (e explainer) result(err error, field string, cause error) *fault.Error {
	if refusal, ok := errors.AsType[*fault.Error](err); ok {
		return refusal
	}
	if err == nil && e.in.More() {
		return fault.Invalid("MALFORMED_REQUEST", field, "there is something after the JSON value")
	}
	if err != nil {
		return fault.Invalid("MALFORMED_JSON", field, "the body is not JSON")
	}
	if refusal, ok := errors.AsType[*fault.Error](cause); ok {
		return refusal
	}
	return fault.Invalid("MALFORMED_REQUEST", field, "%s", plain(cause))
}

func (e explainer) message(message protoreflect.MessageDescriptor, path string) error {
	switch message.FullName() {
	case "google.protobuf.Timestamp":
		return e.text(path, &timestamppb.Timestamp{}, `a time such as "2026-01-31T12:00:00Z"`)
	case "google.protobuf.Duration":
		return e.text(path, &durationpb.Duration{}, `a duration such as "10s"`)
	case "google.protobuf.Struct", "google.protobuf.Value":
		return e.free(path)
	}
	if err := e.open(path, '{', "an object"); err != nil {
		return err
	}
	seen, members := map[protoreflect.Name]bool{}, map[protoreflect.Name]string{}
	for e.in.More() {
		token, err := e.in.Token()
		if err != nil {
			return err
		}
		name := token.(string)
		field := message.Fields().ByJSONName(name)
		if field == nil {
			field = message.Fields().ByTextName(name)
		}
		at := path + "." + name
		if path == "" {
			at = name
		}
		if field == nil {
			return fault.Invalid("UNKNOWN_FIELD", at, "there is no such field")
		}
		if seen[field.Name()] {
			return fault.Invalid("DUPLICATE_FIELD", at, "the field is there twice")
		}
		seen[field.Name()] = true
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			if other := members[oneof.Name()]; other != "" {
				return fault.Invalid("ONEOF_CONFLICT", at, "only one of %s and %s can be set", other, name)
			}
			members[oneof.Name()] = name
		}
		if err := e.field(field, at); err != nil {
			return err
		}
	}
	_, err := e.in.Token()
	return err
}

func (e explainer) field(field protoreflect.FieldDescriptor, path string) error {
	switch {
	case field.IsMap():
		return e.object(field.MapValue(), path)
	case field.IsList():
		return e.list(path, func(path string) error { return e.single(field, path) })
	}
	return e.single(field, path)
}

// object reads a map, whose members have any name.
func (e explainer) object(value protoreflect.FieldDescriptor, path string) error {
	if err := e.open(path, '{', "an object"); err != nil {
		return err
	}
	for e.in.More() {
		token, err := e.in.Token()
		if err != nil {
			return err
		}
		if err := e.single(value, path+"."+token.(string)); err != nil {
			return err
		}
	}
	_, err := e.in.Token()
	return err
}

// free reads an object that may hold anything but null.
func (e explainer) free(path string) error {
	var text json.RawMessage
	if err := e.in.Decode(&text); err != nil {
		return err
	}
	switch {
	case string(text) == "null":
		return null(path)
	case len(text) == 0 || text[0] != '{':
		return wrongType(path, "an object")
	case scanJSON(text) != nil:
		return scanJSON(text).On(path)
	}
	return nil
}

func (e explainer) list(path string, element func(path string) error) error {
	if err := e.open(path, '[', "an array"); err != nil {
		return err
	}
	for i := 0; e.in.More(); i++ {
		if err := element(fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	_, err := e.in.Token()
	return err
}

func (e explainer) single(field protoreflect.FieldDescriptor, path string) error {
	if field.Message() != nil {
		return e.message(field.Message(), path)
	}
	token, err := e.in.Token()
	if err != nil {
		return err
	}
	if token == nil {
		return null(path)
	}
	switch field.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		if _, ok := token.(string); !ok {
			return wrongType(path, "a text")
		}
	case protoreflect.BoolKind:
		if _, ok := token.(bool); !ok {
			return wrongType(path, "true or false")
		}
	case protoreflect.EnumKind:
		name, ok := token.(string)
		number, isNumber := token.(json.Number)
		if !ok && !isNumber {
			return wrongType(path, "the name of a value")
		}
		if refusal := checkNumber(field, path, number.String()); isNumber && refusal != nil {
			return refusal
		}
		if ok && field.Enum().Values().ByName(protoreflect.Name(name)) == nil {
			return fault.Invalid("INVALID_ENUM", path, "%q is not a value of %s", name, field.Enum().Name())
		}
	default:
		text, ok := token.(string)
		number, isNumber := token.(json.Number)
		if !ok && !isNumber {
			return wrongType(path, "a number")
		}
		if isNumber {
			text = number.String()
		}
		if refusal := checkNumber(field, path, text); refusal != nil {
			return refusal
		}
	}
	return nil
}

// text reads a value that kind writes as a JSON string.
func (e explainer) text(path string, kind proto.Message, what string) error {
	token, err := e.in.Token()
	if err != nil {
		return err
	}
	text, ok := token.(string)
	switch {
	case token == nil:
		return null(path)
	case !ok:
		return wrongType(path, what)
	}
	quoted, err := json.Marshal(text)
	if err == nil && protojson.Unmarshal(quoted, kind) != nil {
		return fault.Invalid("INVALID_VALUE", path, "must be %s", what)
	}
	return err
}

// open reads the delimiter that opens an object or array.
func (e explainer) open(path string, delimiter json.Delim, what string) error {
	token, err := e.in.Token()
	switch {
	case err != nil:
		return err
	case token == nil:
		return null(path)
	case token != delimiter:
		return wrongType(path, what)
	}
	return nil
}

func wrongType(path, want string) error {
	return fault.Invalid("WRONG_TYPE", path, "must be %s", want)
}

func null(path string) error {
	return fault.Invalid("NULL_VALUE", path, "null is not a value; leave the member out")
}
