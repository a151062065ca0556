package token

import (
	"reflect"
	"strings"
	"testing"

	appv3 "github.com/writ-id/writ/gen/proto/writ/app/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// Every grant type of the contract has a row, and only one. The implicit grant is the
// authorization endpoint's: it has no token request.
func TestEveryGrantOfTheContractHasARow(t *testing.T) {
	t.Parallel()
	of := map[appv3.GrantType]int{appv3.GrantType_GRANT_TYPE_UNSPECIFIED: 1, appv3.GrantType_GRANT_TYPE_IMPLICIT: 1}
	for _, row := range table {
		if row.needs != appv3.GrantType_GRANT_TYPE_UNSPECIFIED {
			of[row.needs]++
		}
	}
	values := appv3.GrantType(0).Descriptor().Values()
	for i := range values.Len() {
		if value := values.Get(i); of[appv3.GrantType(value.Number())] != 1 {
			t.Errorf("%s has %d rows", value.Name(), of[appv3.GrantType(value.Number())])
		}
	}
	names := map[string]bool{}
	for _, row := range table {
		if names[row.name] {
			t.Errorf("%s has two rows", row.name)
		}
		names[row.name] = true
	}
}

// A row says all that there is to say: who asks, by which methods, what they are told who
// may not, and what is written.
func TestEveryRowIsWhole(t *testing.T) {
	t.Parallel()
	for _, row := range table {
		if row.name == "" || row.begin == nil || row.writes == "" || row.stranger == nil || len(row.methods) == 0 {
			t.Errorf("%s lacks something: %+v", row.name, row)
		}
		application := row.by == applications
		if application != (row.needs != appv3.GrantType_GRANT_TYPE_UNSPECIFIED) || application != (row.denied != "") || application != (row.barred != nil) {
			t.Errorf("%s: what applications need is said of them, and of them only: %+v", row.name, row)
		}
		if (row.scopes == limited) != (row.nothing != "") {
			t.Errorf("%s: what is told when no scope is left belongs to scopes that are limited", row.name)
		}
		if !application && row.refresh != never {
			t.Errorf("%s: a service user gets refresh tokens", row.name)
		}
		if find(row.name) == nil || find(row.name).name != row.name {
			t.Errorf("%s is not found", row.name)
		}
		g := reflect.TypeOf(row.begin(&Endpoint{})).Elem()
		if g.Kind() != reflect.Struct || g.Field(0).Type != reflect.TypeFor[*Endpoint]() {
			t.Errorf("%s is no grant of this endpoint", row.name)
		}
	}
}

// What a switch turns off is not listed.
func TestTypesFollowTheSwitches(t *testing.T) {
	t.Parallel()
	on := Types(func(policyv1.Feature) bool { return true })
	off := Types(func(policyv1.Feature) bool { return false })
	if len(on) != len(table) || len(off) != len(on)-1 || strings.Join(off, " ") != strings.Join(on[:len(off)], " ") {
		t.Errorf("on: %q, off: %q", on, off)
	}
}
