package claims_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/writ-id/writ/impl/oidc/claims"
	"github.com/writ-id/writ/impl/oidc/scope"
	"github.com/writ-id/writ/impl/oidc/subject"
)

// TestSEC293_RolesAreWrittenInOnePass: a user with a thousand roles costs the allocations of one
// with a few, not thirty times as much, and each role is told once, with where it was given.
func TestSEC293_RolesAreWrittenInOnePass(t *testing.T) {
	// Not parallel: allocations are counted.
	of := func(n int) *subject.Subject {
		s := &subject.Subject{}
		for _, org := range []string{"o2", "o1"} {
			grant := subject.RoleGrant{Project: "p", Org: org, Domain: org + ".example"}
			for i := range n {
				grant.Keys = append(grant.Keys, fmt.Sprintf("role-%d\"", n-i), fmt.Sprintf("role-%d\"", n-i))
			}
			s.Roles = append(s.Roles, grant)
		}
		return s
	}
	write := func(s *subject.Subject) []byte {
		o := claims.NewSet()
		claims.Roles(o, s, scope.Of(nil), "p", []string{"p"}, nil)
		return o.End()
	}
	var got map[string]map[string]map[string]string
	if err := json.Unmarshal(write(of(2)), &got); err != nil {
		t.Fatal(err)
	}
	where := map[string]string{"o1": "o1.example", "o2": "o2.example"}
	for name, roles := range got {
		if !reflect.DeepEqual(roles, map[string]map[string]string{"role-1\"": where, "role-2\"": where}) {
			t.Errorf("%s: %v", name, roles)
		}
	}
	if len(got) != 2 {
		t.Errorf("the claims are %v", got)
	}
	few, many := of(10), of(1000)
	a, b := testing.AllocsPerRun(20, func() { write(few) }), testing.AllocsPerRun(20, func() { write(many) })
	if b > a+20 {
		t.Errorf("%v allocations for a thousand roles, %v for ten", b, a)
	}
}
