package server

import (
	"math/big"
	"net/url"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/impl/fault"
)

// checkQuery refuses query parameters that the operation does not have, that
// are there twice, or whose value does not fit. bound names the fields of the
// request that come from the path or the body.
func checkQuery(raw string, request protoreflect.MessageType, bound map[string]bool) *fault.Error {
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return fault.Invalid("MALFORMED_QUERY", "", "the query string cannot be decoded")
	}
	scratch := request.New().Interface()
	set := map[protoreflect.FullName]string{} // by oneof
	seen := map[string]bool{}                 // by name in proto spelling
	for name, list := range values {
		field, canonical := find(request.Descriptor(), name)
		switch {
		case field == nil || bound[strings.SplitN(canonical, ".", 2)[0]]:
			return fault.Invalid("UNKNOWN_PARAMETER", name, "there is no such query parameter")
		case (len(list) > 1 || seen[canonical]) && !field.IsList():
			return fault.Invalid("REPEATED_PARAMETER", name, "the query parameter is there more than once")
		}
		seen[canonical] = true
		if oneof := field.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			if other := set[oneof.FullName()]; other != "" {
				return fault.Invalid("ONEOF_CONFLICT", name, "only one of %s and %s can be set", other, name)
			}
			set[oneof.FullName()] = name
		}
		if refusal := checkParameter(scratch, field, name, canonical, list[0]); refusal != nil {
			return refusal
		}
	}
	return nil
}

// find returns the scalar field of a dotted name in either spelling, and the
// name in proto spelling.
func find(message protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, string) {
	var field protoreflect.FieldDescriptor
	var canonical []string
	for _, part := range strings.Split(name, ".") {
		if message == nil {
			return nil, ""
		}
		field = message.Fields().ByJSONName(part)
		if field == nil {
			field = message.Fields().ByTextName(part)
		}
		if field == nil {
			return nil, ""
		}
		canonical = append(canonical, string(field.Name()))
		message = field.Message()
	}
	if message != nil && message.FullName().Parent() != "google.protobuf" {
		return nil, "" // a message has no spelling as a parameter
	}
	return field, strings.Join(canonical, ".")
}

func checkParameter(scratch proto.Message, field protoreflect.FieldDescriptor, name, canonical, value string) *fault.Error {
	switch field.Kind() {
	case protoreflect.EnumKind:
		// By name or, as in a body, by number.
		number, err := strconv.ParseInt(value, 10, 32)
		if field.Enum().Values().ByName(protoreflect.Name(value)) == nil && (err != nil || field.Enum().Values().ByNumber(protoreflect.EnumNumber(number)) == nil) {
			return fault.Invalid("INVALID_ENUM", name, "%q is not a value of %s", value, field.Enum().Name())
		}
	case protoreflect.BoolKind:
		if value != "true" && value != "false" {
			return fault.Invalid("WRONG_TYPE", name, "must be true or false")
		}
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
	default:
		if refusal := checkNumber(field, name, value); refusal != nil {
			return refusal
		}
	}
	if err := runtime.PopulateFieldFromPath(scratch, canonical, value); err != nil {
		return fault.Invalid("INVALID_VALUE", name, "the value does not fit")
	}
	return nil
}

// checkNumber refuses a text that is not a number in the range of the field.
func checkNumber(field protoreflect.FieldDescriptor, path, text string) *fault.Error {
	bits, signed := 64, true
	switch field.Kind() {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		bits, signed = 32, false
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		signed = false
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.EnumKind:
		bits = 32
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return nil // the decoder's own check has all there is to say
	}
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits))
	if signed {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if len(text) > 40 {
		return wrongNumber(path)
	}
	number, ok := new(big.Int).SetString(text, 10)
	if !ok || strings.HasPrefix(text, "+") {
		return wrongNumber(path)
	}
	if number.Cmp(low) < 0 || number.Cmp(high) >= 0 {
		return fault.Invalid("OUT_OF_RANGE", path, "must be from %s to %s", low, new(big.Int).Sub(high, big.NewInt(1)))
	}
	return nil
}

func wrongNumber(path string) *fault.Error {
	return fault.Invalid("WRONG_TYPE", path, "must be a whole number")
}
