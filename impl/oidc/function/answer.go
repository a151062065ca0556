package function

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/execution"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/wire"
	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// maxClaims bounds the claims of all answers, as JSON, which the contract cannot say. Tokens
// travel in headers, which take some ten KiB.
const maxClaims = 8 << 10

// answers are those of the targets of one function, in their order.
type answers struct {
	function string
	rules    *policy.Validator
	size     int // of the claims
	metadata []*eventv1.FunctionMetadata
	claims   []*eventv1.FunctionClaim
	log      []string
}

// accept reads an answer. One that breaks a rule counts as none.
func (a *answers) accept(text []byte) error {
	if len(text) > execution.MaxFunctionAnswer {
		return fmt.Errorf("the answer is longer than %d bytes", execution.MaxFunctionAnswer)
	}
	answer := &eventv1.FunctionAnswer{}
	if err := wire.UnmarshalJSON(text, answer, protojson.UnmarshalOptions{}); err != nil {
		return fmt.Errorf("the answer is none of a function: %w", err)
	}
	if err := a.rules.CheckAnswer(answer); err != nil {
		return fmt.Errorf("the answer breaks a rule: %w", err)
	}
	size := a.size
	for _, claim := range answer.GetAppendClaims() {
		value, err := json.Marshal(claim.GetValue().AsInterface())
		if err != nil {
			return fmt.Errorf("the claim %q: %w", claim.GetKey(), err)
		}
		size += len(claim.GetKey()) + len(value)
	}
	for _, line := range answer.GetAppendLogClaims() {
		size += len(line)
	}
	if size > maxClaims {
		return fmt.Errorf("the claims of all answers are longer than %d bytes", maxClaims)
	}
	a.size = size
	a.metadata = append(a.metadata, answer.GetSetUserMetadata()...)
	a.claims = append(a.claims, answer.GetAppendClaims()...)
	a.log = append(a.log, answer.GetAppendLogClaims()...)
	return nil
}

// appendTo adds the claims to those that there are (SEC-039). What could not be added is
// told in the log.
func (a *answers) appendTo(o *claims.Set) {
	for _, claim := range a.claims {
		switch name := claim.GetKey(); {
		case claims.Reserved(name):
			a.log = append(a.log, fmt.Sprintf("the claim %q is reserved", name))
		case o.Has(name):
			a.log = append(a.log, fmt.Sprintf("the claim %q is there already", name))
		default:
			o.Value(name, claim.GetValue().AsInterface())
		}
	}
	o.Strings(scope.URN+"action:"+a.function+":log", a.log)
}
