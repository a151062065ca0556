package policy

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
)

// Validator checks requests: by the rules of the contract (protovalidate), and
// by three rules that hold for every message on every transport: no unknown
// fields, no NUL in a text, nothing that was malformed on the wire.
type Validator struct {
	rules protovalidate.Validator
}

// NewValidator prepares the rules of every request, so that no first call pays.
func NewValidator(operations *Operations) (*Validator, error) {
	var requests []proto.Message
	for _, method := range operations.Methods() {
		service, name, _ := strings.Cut(method[1:], "/")
		descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
		if err != nil {
			return nil, err
		}
		input, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.(protoreflect.MethodDescriptor).Input().FullName())
		if err != nil {
			return nil, err
		}
		requests = append(requests, input.Zero().Interface())
	}
	return NewRules(requests...)
}

// rules are those of the contract, compiled once in a process, each message when it is
// prepared.
var rules = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

// NewRules prepares the rules of some messages.
func NewRules(messages ...proto.Message) (*Validator, error) {
	rules, err := rules()
	for _, message := range messages {
		if err != nil {
			break
		}
		// What an empty message breaks is of no interest, that its rules compile is.
		if defect, found := errors.AsType[*protovalidate.CompilationError](rules.Validate(message)); found {
			err = defect
		}
	}
	if err != nil {
		return nil, fmt.Errorf("rules of the contract: %w", err)
	}
	return &Validator{rules}, nil
}

// Broken returns all rules that a message breaks, for who explains each of them.
func (v *Validator) Broken(message proto.Message) []*protovalidate.Violation {
	if wrong, ok := errors.AsType[*protovalidate.ValidationError](v.rules.Validate(message)); ok {
		return wrong.Violations
	}
	return nil
}

// SearchLimits are how many matches a search returns when it does not say, and at
// most. Those of the contract are the defaults.
type SearchLimits struct{ Default, Max uint32 }

// OrDefault returns the limits, those of the contract where there are none.
func (l SearchLimits) OrDefault() SearchLimits {
	most := cmp.Or(l.Max, contractLimit)
	return SearchLimits{cmp.Or(l.Default, min(most, 100)), most}
}

// contractLimit is the rule of ListQuery.limit.
var contractLimit = func() uint32 {
	limit := (&object.ListQuery{}).ProtoReflect().Descriptor().Fields().ByName("limit")
	return proto.GetExtension(limit.Options(), validate.E_Field).(*validate.FieldRules).GetUint32().GetLte()
}()

// Check refuses a request that breaks a rule.
func (v *Validator) Check(request proto.Message) error {
	return v.check(request, SearchLimits{}.OrDefault())
}

// maxExplained is how many parts a request may have of which all rules are told that it
// breaks; of one with more it is the first. Who has no permission yet could have a megabyte
// of two letters each explained.
const maxExplained = 2000

// check is Check with other limits than those of the contract.
func (v *Validator) check(request proto.Message, limits SearchLimits) error {
	parts, refusal := checkWire(request.ProtoReflect())
	if refusal != nil {
		return refusal
	}
	if search, ok := request.(interface{ GetQuery() *object.ListQuery }); ok && limits.Max != contractLimit && search.GetQuery().GetLimit() > 0 {
		limit := search.GetQuery().GetLimit()
		if limit > limits.Max {
			return fault.Invalid("INVALID_FIELD", "query.limit", "must be less than or equal to %d", limits.Max)
		}
		search.GetQuery().Limit = 0 // the contract has less to say about it
		defer func() { search.GetQuery().Limit = limit }()
	}
	var options []protovalidate.ValidationOption
	if parts > maxExplained {
		options = append(options, protovalidate.WithFailFast())
	}
	err := v.rules.Validate(request, options...)
	if err == nil {
		return nil
	}
	violations, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return err
	}
	refusal = &fault.Error{Kind: fault.InvalidArgument, Reason: "INVALID_FIELD"}
	for _, violation := range violations.Violations {
		field, lacking := jsonPath(violation.Proto.GetField().GetElements(), request.ProtoReflect().Descriptor())
		described := violation.Proto.GetMessage()
		if lacking != nil {
			described = exactlyOne(lacking)
		}
		refusal.Fields = append(refusal.Fields, fault.Violation{Field: field, Description: described})
	}
	first := refusal.Fields[0]
	refusal.Message = strings.TrimPrefix(first.Field+": "+first.Description, ": ")
	return refusal
}

// refusalField is where a transport that cannot fail at decoding leaves why it could
// not decode a request. No message has a field of this number, and what a client
// sends in one does not begin with refusalKey.
const refusalField = protowire.MaxValidNumber

var refusalKey = rand.Text()

// MarkRefused makes the chain refuse request. It is for transports whose own
// decoding errors would not have the contract's error shape.
func MarkRefused(request proto.Message, refusal *fault.Error) {
	proto.Reset(request)
	text, _ := json.Marshal(refusal) // texts and a number
	unknown := protowire.AppendTag(nil, refusalField, protowire.BytesType)
	request.ProtoReflect().SetUnknown(protowire.AppendString(unknown, refusalKey+string(text)))
}

// marked returns the refusal that MarkRefused left in the unknown fields of a message.
func marked(number protowire.Number, value []byte) *fault.Error {
	text, _ := protowire.ConsumeString(value)
	text, ours := strings.CutPrefix(text, refusalKey)
	if refusal := (&fault.Error{}); number == refusalField && ours && json.Unmarshal([]byte(text), refusal) == nil {
		return refusal
	}
	return nil
}

// Malformed is the refusal of a message that could not be decoded.
func Malformed(reason string) *fault.Error {
	return fault.Invalid("MALFORMED_REQUEST", "", "the request cannot be decoded: %s", reason)
}

// MaxRequestBytes is how long a request may be on any transport (SEC-290).
const MaxRequestBytes = 1 << 20

// TooLarge is the refusal of a request longer than MaxRequestBytes.
func TooLarge() *fault.Error {
	return fault.New(fault.TooLarge, "REQUEST_TOO_LARGE", "a request may have at most %d bytes", MaxRequestBytes)
}
