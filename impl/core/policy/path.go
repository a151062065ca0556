package policy

import (
	"fmt"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// jsonPath writes the path of a violation as clients spell fields:
// target.restWebhook.url, filters[0].name. A oneof is no field of the API: of one that lacks
// its member the path leads to the message that has it, and it is returned.
func jsonPath(elements []*validate.FieldPathElement, message protoreflect.MessageDescriptor) (string, protoreflect.OneofDescriptor) {
	var b strings.Builder
	for _, element := range elements {
		name := element.GetFieldName()
		if message != nil {
			if oneof := message.Oneofs().ByName(protoreflect.Name(name)); oneof != nil && element.GetFieldNumber() == 0 {
				return b.String(), oneof
			}
			if field := message.Fields().ByName(protoreflect.Name(name)); field != nil {
				name, message = field.JSONName(), field.Message()
			} else {
				name, message = LowerCamel(name), nil
			}
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name)
		switch at := element.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			fmt.Fprintf(&b, "[%d]", at.Index)
		case *validate.FieldPathElement_StringKey:
			fmt.Fprintf(&b, "[%q]", at.StringKey)
		}
	}
	return b.String(), nil
}

// exactlyOne says what a oneof lacks.
func exactlyOne(oneof protoreflect.OneofDescriptor) string {
	names := make([]string, oneof.Fields().Len())
	for i := range names {
		names[i] = oneof.Fields().Get(i).JSONName()
	}
	return "exactly one of " + strings.Join(names, ", ") + " is required"
}

// LowerCamel spells words with underscores or spaces as JSON does.
func LowerCamel(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == '_' || r == ' ' })
	for i, word := range words[min(1, len(words)):] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}
