// Package rule holds what people type to the rules of the contract, by the messages
// that forms make: no bound of a field stands in Go a second time.
package rule

import (
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
)

// rules are those of the messages that forms make.
var rules = sync.OnceValue(func() *policy.Validator {
	made, err := policy.NewRules(&userv3.User{}, &userv3.SetPassword{}, &userv3.Email{})
	if err != nil {
		panic(err) // a defect that the first start finds: Prepare
	}
	return made
})

// Prepare has the rules ready, so that no first form pays.
func Prepare() { rules() }

// The rules of texts, by their IDs.
const (
	TooShort = "string.min_len"
	TooLong  = "string.max_len"
)

// Broken returns the IDs of the rules that a message breaks, by the paths of its fields;
// of one field the first.
func Broken(message proto.Message) map[string]string {
	broken := map[string]string{}
	for _, one := range rules().Broken(message) {
		if path := protovalidate.FieldPathString(one.Proto.GetField()); broken[path] == "" {
			broken[path] = one.Proto.GetRuleId()
		}
	}
	return broken
}

// IsEmail reports whether an address can be like that.
func IsEmail(address string) bool { return len(Broken(&userv3.Email{Address: address})) == 0 }

// Length returns how many characters a text of a message may have, at least and at most.
func Length(message proto.Message, field protoreflect.Name) (least, most int) {
	options := message.ProtoReflect().Descriptor().Fields().ByName(field).Options()
	of := proto.GetExtension(options, validate.E_Field).(*validate.FieldRules).GetString()
	return int(of.GetMinLen()), int(of.GetMaxLen())
}
