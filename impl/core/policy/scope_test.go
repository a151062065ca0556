package policy

import (
	"strings"
	"testing"

	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// holder returns a caller of an instance with roles.
func holder(grants ...grant) *Caller {
	return &Caller{InstanceID: "i", OrgID: "home", UserID: "me", grants: grants}
}

func roles(t *testing.T) *Roles {
	t.Helper()
	known, err := NewRoles()
	if err != nil {
		t.Fatal(err)
	}
	return known
}

var (
	ofInstance = grant{policyv1.Level_LEVEL_INSTANCE, "i", []string{"IAM_OWNER"}}
	ofOrg      = grant{policyv1.Level_LEVEL_ORG, "o", []string{"ORG_OWNER"}}
	ofProject  = grant{policyv1.Level_LEVEL_PROJECT, "p", []string{"PROJECT_OWNER"}}
	ofGrant    = grant{policyv1.Level_LEVEL_PROJECT_GRANT, "g", []string{"PROJECT_GRANT_OWNER"}}
)

// TestSEC232_WhatIsReachedIsWhereTheRoleIsHeld asks of each level of roles which objects
// they reach, and which not.
func TestSEC232_WhatIsReachedIsWhereTheRoleIsHeld(t *testing.T) {
	t.Parallel()
	known := roles(t)
	read := &Operation{Permission: "project.read"}
	here := Place{InstanceID: "i", OrgID: "o", ProjectID: "p", ProjectGrantID: "g"}
	for _, test := range []struct {
		name  string
		held  []grant
		at    Place
		reach bool
	}{
		{"nobody", nil, here, false},
		{"the instance's", []grant{ofInstance}, here, true},
		{"another instance's", []grant{ofInstance}, Place{InstanceID: "j", OrgID: "o"}, false},
		{"the organization's", []grant{ofOrg}, here, true},
		{"another organization's", []grant{ofOrg}, Place{InstanceID: "i", OrgID: "q"}, false},
		{"the organization's, of what is in none", []grant{ofOrg}, Place{InstanceID: "i"}, false},
		{"the project's", []grant{ofProject}, here, true},
		{"another project's in the organization", []grant{ofProject}, Place{InstanceID: "i", OrgID: "o", ProjectID: "q"}, false},
		{"the project's, of its organization", []grant{ofProject}, Place{InstanceID: "i", OrgID: "o"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			caller := holder(test.held...)
			scope := caller.scope(known, read, test.at.InstanceID)
			if got := scope.has(test.at); got != test.reach {
				t.Errorf("got %v in %+v, want %v", got, scope, test.reach)
			}
			if got := caller.may(known, read.Permission, test.at); got != test.reach {
				t.Errorf("a single call says %v, a search %v", got, test.reach)
			}
		})
	}
}

// TestSEC180_OwnThingsAreOwnOnly reaches what is a user's own, and nothing of others.
func TestSEC180_OwnThingsAreOwnOnly(t *testing.T) {
	t.Parallel()
	known, own := roles(t), &Operation{Permission: "user.read", self: true}
	mine, theirs := Place{InstanceID: "i", OrgID: "home", UserID: "me"}, Place{InstanceID: "i", OrgID: "home", UserID: "you"}
	if scope := holder().scope(known, own, "i"); !scope.has(mine) || scope.has(theirs) || scope.has(Place{InstanceID: "i", OrgID: "home"}) {
		t.Errorf("got %+v", scope)
	}
	if scope := holder().scope(known, own, "j"); !scope.empty() {
		t.Errorf("in another instance: %+v, want nothing", scope)
	}
	if scope := holder().scope(known, &Operation{Permission: "user.read"}, "i"); !scope.empty() {
		t.Errorf("of an operation that is not for oneself: %+v", scope)
	}
	elsewhere := holder()
	elsewhere.within = "other" // by an application of another organization, which nobody trusts
	if scope := elsewhere.scope(known, own, "i"); !scope.empty() {
		t.Errorf("within another organization: %+v, want nothing", scope)
	}
}

// TestSEC235_NobodyGivesMoreThanTheyHold tries to give the roles of each level.
func TestSEC235_NobodyGivesMoreThanTheyHold(t *testing.T) {
	t.Parallel()
	known := roles(t)
	here := Place{InstanceID: "i", OrgID: "o", ProjectID: "p", ProjectGrantID: "g"}
	for _, test := range []struct {
		name, role string
		held       grant
		level      policyv1.Level
		at         Place
		want       string
	}{
		{"an owner makes an owner", "ORG_OWNER", ofOrg, policyv1.Level_LEVEL_ORG, here, ""},
		{"the instance makes one", "ORG_OWNER", ofInstance, policyv1.Level_LEVEL_ORG, here, ""},
		{"an organization makes one of the instance", "IAM_OWNER", ofOrg, policyv1.Level_LEVEL_INSTANCE, Place{InstanceID: "i"}, "ROLE_TOO_HIGH"},
		{"a project makes one of its organization", "ORG_OWNER", ofProject, policyv1.Level_LEVEL_ORG, here, "ROLE_TOO_HIGH"},
		{"an organization makes one of another", "ORG_OWNER", ofOrg, policyv1.Level_LEVEL_ORG, Place{InstanceID: "i", OrgID: "q"}, "ROLE_TOO_HIGH"},
		{"a grant makes one of its project", "PROJECT_OWNER", ofGrant, policyv1.Level_LEVEL_PROJECT, here, "ROLE_TOO_HIGH"},
		{"a role of another level", "ORG_OWNER", ofInstance, policyv1.Level_LEVEL_INSTANCE, here, "UNKNOWN_ROLE"},
		{"a role that is none", "EMPEROR", ofInstance, policyv1.Level_LEVEL_ORG, here, "UNKNOWN_ROLE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			call := &Call{Caller: holder(test.held), roles: known}
			err := call.MayGrant([]string{test.role}, test.level, test.at, "membership.roles")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestWhoDoesNotAskIsFoundOut tells a method that asked what it may reach from one that
// did not, which Intercept lets fail.
func TestWhoDoesNotAskIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*Call){
		"Reaches": func(c *Call) { c.Reaches(Place{InstanceID: "i"}) },
		"Scope":   func(c *Call) { c.Scope() },
		"Require": func(c *Call) { _ = c.Require(Place{InstanceID: "i"}) },
	} {
		call := &Call{Operation: &Operation{}, Caller: holder(), scope: &Scope{}}
		if call.asked.Load() {
			t.Error("a new call has asked")
		}
		if ask(call); !call.asked.Load() {
			t.Errorf("%s does not count as asking", name)
		}
	}
}
