package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

var errContext = errors.New("the levels of the operation and its request do not say the same of its context")

const requestContext = "writ.object.v3alpha.RequestContext"

// checkContext holds the levels of an operation to its request: whether a call is about
// the system, of which no target of a tenant is told, has to be known before the method runs.
func checkContext(method *protogen.Method) error {
	op := proto.GetExtension(method.Desc.Options(), policyv1.E_Operation).(*policyv1.Operation)
	selects := slices.ContainsFunc(method.Input.Fields, func(f *protogen.Field) bool {
		return f.Desc.Name() == "ctx" && f.Message != nil && f.Message.Desc.FullName() == requestContext
	})
	levels := op.GetLevels()
	ofSystem := slices.Equal(levels, []policyv1.Level{policyv1.Level_LEVEL_SYSTEM})
	var wrong string
	switch {
	case ofSystem && (selects || op.GetInherits()):
		wrong = "it applies to the system alone, but its request selects a context"
	case !ofSystem && strings.HasPrefix(op.GetPermission(), "system."):
		wrong = "its permission is one of the system, but it applies to tenants"
	case !ofSystem && slices.Contains(levels, policyv1.Level_LEVEL_SYSTEM) && !selects:
		wrong = "it applies to the system and to tenants, but its request has no ctx"
	case len(levels) > 1 && levels[0] == policyv1.Level_LEVEL_SYSTEM:
		wrong = "without a ctx it would be about the system"
	case op.GetInherits() && (selects || len(levels) > 0):
		wrong = "it inherits, so its object says the context"
	default:
		return nil
	}
	return fmt.Errorf("%s: %w: %s; change the one that is wrong", method.Desc.FullName(), errContext, wrong)
}
