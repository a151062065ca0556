package main

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

var errSecret = errors.New("a secret of a request needs a field that steers it: set (writ.policy.v1.steers) = true on the field that says whose it is")

// checkSecrets refuses a request with a secret of which nothing says where it goes, and a
// mark where it would not be seen: in lists and maps, whose elements have no place to be
// compared at.
func checkSecrets(method *protogen.Method) error {
	var secrets, steers []protoreflect.FullName
	seen := map[protoreflect.FullName]bool{}
	var walk func(m *protogen.Message, inList bool) error
	walk = func(m *protogen.Message, inList bool) error {
		if seen[m.Desc.FullName()] {
			return nil
		}
		seen[m.Desc.FullName()] = true
		for _, field := range m.Fields {
			of := field.Desc.Options()
			if proto.GetExtension(of, policyv1.E_Secret).(bool) {
				secrets = append(secrets, field.Desc.FullName())
			}
			if proto.GetExtension(of, policyv1.E_Steers).(bool) {
				if inList {
					return fmt.Errorf("%s: in a list it steers nothing, take it out: %w", field.Desc.FullName(), errSecret)
				}
				steers = append(steers, field.Desc.FullName())
			}
			if field.Message != nil {
				if err := walk(field.Message, inList || field.Desc.IsList() || field.Desc.IsMap()); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(method.Input, false); err != nil {
		return err
	}
	if len(secrets) > 0 && len(steers) == 0 {
		return fmt.Errorf("%s: %w", secrets[0], errSecret)
	}
	return nil
}
