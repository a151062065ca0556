package policy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	_ "google.golang.org/grpc/health/grpc_health_v1" // a service without a policy

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"

	_ "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/fault"
)

func allOperations(t *testing.T) *Operations {
	t.Helper()
	var services []string
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			if strings.HasPrefix(string(file.Package()), "writ.") {
				services = append(services, string(file.Services().Get(i).FullName()))
			}
		}
		return true
	})
	operations, err := NewOperations(services...)
	if err != nil {
		t.Fatal(err)
	}
	return operations
}

// TestSEC230_EveryPermissionIsHeldBySomeRole finds permissions that nobody could
// ever have, a misspelling in a contract or in the table of roles.
func TestSEC230_EveryPermissionIsHeldBySomeRole(t *testing.T) {
	t.Parallel()
	roles, err := NewRoles()
	if err != nil {
		t.Fatal(err)
	}
	for _, permission := range allOperations(t).Permissions() {
		held := false
		for _, level := range levelNames {
			for _, name := range roles.Names(level) {
				held = held || roles.grants([]string{name}, permission)
			}
		}
		if !held {
			t.Errorf("no role holds %s", permission)
		}
	}
}

func TestSEC230_AServiceWithoutPolicyIsNotServed(t *testing.T) {
	t.Parallel()
	if _, err := NewOperations("no.such.Service"); err == nil {
		t.Error("got no error for a service without descriptor")
	}
	if _, err := NewOperations("grpc.health.v1.Health"); err == nil || !strings.Contains(err.Error(), "operation") {
		t.Errorf("got %v, want a complaint about the missing option", err)
	}
}

func TestRolesHoldOnTheirLevelAndBelow(t *testing.T) {
	t.Parallel()
	roles, err := NewRoles()
	if err != nil {
		t.Fatal(err)
	}
	system := Context{Level: policyv1.Level_LEVEL_SYSTEM}
	instance := Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: "i"}
	other := Context{Level: policyv1.Level_LEVEL_INSTANCE, InstanceID: "other"}
	org := Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: "i", OrgID: "o"}
	otherOrg := Context{Level: policyv1.Level_LEVEL_ORG, InstanceID: "i", OrgID: "p"}
	holder := func(level policyv1.Level, object, role string) *Caller {
		return &Caller{grants: []grant{{level, object, []string{role}}}}
	}
	systemOwner := holder(policyv1.Level_LEVEL_SYSTEM, "", "SYSTEM_OWNER")
	owner := holder(policyv1.Level_LEVEL_INSTANCE, "i", "IAM_OWNER")
	viewer := holder(policyv1.Level_LEVEL_INSTANCE, "i", "IAM_OWNER_VIEWER")
	orgOwner := holder(policyv1.Level_LEVEL_ORG, "o", "ORG_OWNER")
	for _, test := range []struct {
		name       string
		caller     *Caller
		permission string
		in         Context
		want       bool
	}{
		{"an instance owner writes targets", owner, "action.target.write", instance, true},
		{"not in another instance", owner, "action.target.write", other, false},
		{"not in the system", owner, "system.feature.write", system, false},
		{"but in the organizations of the instance", owner, "idp.write", org, true},
		{"a viewer reads", viewer, "action.target.read", instance, true},
		{"and does not write", viewer, "action.target.write", instance, false},
		{"nor delete", viewer, "action.execution.delete", instance, false},
		{"an organization owner has no targets", orgOwner, "action.target.read", instance, false},
		{"but providers in the organization", orgOwner, "idp.write", org, true},
		{"not in another one", orgOwner, "idp.write", otherOrg, false},
		{"the system's owner holds everywhere", systemOwner, "iam.feature.write", other, true},
		{"a user without roles holds nothing", &Caller{}, "action.target.read", instance, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.caller.may(roles, test.permission, test.in.place()); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestSEC215_HostsAreCanonical(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"localhost": "localhost", "localhost:8080": "localhost", "LOCALHOST.": "localhost", "Example.COM:443": "example.com",
		"[::1]:8080": "::1", "[::1]": "::1", "127.0.0.1:9": "127.0.0.1", "": "",
	} {
		if got := CanonicalHost(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}

func TestValidationNamesTheField(t *testing.T) {
	t.Parallel()
	v, err := NewValidator(allOperations(t))
	if err != nil {
		t.Fatal(err)
	}
	target := func(change func(*actionv3.Target)) proto.Message {
		target := &actionv3.Target{
			Name: "n", Timeout: durationpb.New(time.Second),
			TargetType: &actionv3.Target_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: "https://a.example"}},
		}
		change(target)
		return &actionv3.CreateTargetRequest{Target: target}
	}
	withUnknown := func(m proto.Message, number protowire.Number) proto.Message {
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), 1))
		return m
	}
	malformed, tooLarge := &actionv3.GetTargetRequest{}, &actionv3.GetTargetRequest{}
	MarkRefused(malformed, Malformed("why"))
	MarkRefused(tooLarge, TooLarge())
	forged := &actionv3.GetTargetRequest{Id: "a"} // a client that knows the number, but not the key
	forged.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, refusalField, protowire.BytesType), `{"Kind":0,"Reason":"INTERNAL"}`))
	for _, test := range []struct {
		name    string
		request proto.Message
		kind    fault.Kind
		reason  string
		field   string
	}{
		{"a URL that is none", target(func(t *actionv3.Target) { t.GetRestWebhook().Url = "not a url" }), fault.InvalidArgument, "INVALID_FIELD", "target.restWebhook.url"},
		{"a name too long", target(func(t *actionv3.Target) { t.Name = strings.Repeat("ü", 201) }), fault.InvalidArgument, "INVALID_FIELD", "target.name"},
		{"no type", target(func(t *actionv3.Target) { t.TargetType = nil }), fault.InvalidArgument, "INVALID_FIELD", "target"},
		{"a NUL", target(func(t *actionv3.Target) { t.Name = "a\x00" }), fault.InvalidArgument, "INVALID_TEXT", "target.name"},
		{"a NUL in a list", &actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Targets: []string{"a", "\x00"}}}, fault.InvalidArgument, "INVALID_TEXT", "execution.targets[1]"},
		{"an unknown field", withUnknown(&actionv3.GetTargetRequest{Id: "a"}, 99), fault.InvalidArgument, "UNKNOWN_FIELD", ""},
		{"a nested unknown field", target(func(t *actionv3.Target) { withUnknown(t.GetRestWebhook(), 7) }), fault.InvalidArgument, "UNKNOWN_FIELD", "target.restWebhook"},
		{"a refusal of the client's own", forged, fault.InvalidArgument, "UNKNOWN_FIELD", ""},
		{"what could not be decoded", malformed, fault.InvalidArgument, "MALFORMED_REQUEST", ""},
		{"what was too large", tooLarge, fault.TooLarge, "REQUEST_TOO_LARGE", "-"},
		{"an element of a list", &actionv3.SearchTargetsRequest{Filters: []*actionv3.TargetSearchFilter{{}}}, fault.InvalidArgument, "INVALID_FIELD", "filters[0]"},
		{"a limit too high", &actionv3.SearchTargetsRequest{Query: &object.ListQuery{Limit: 1001}}, fault.InvalidArgument, "INVALID_FIELD", "query.limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			refusal, ok := errors.AsType[*fault.Error](v.Check(test.request))
			if !ok {
				t.Fatal("got no refusal")
			}
			field := "-"
			if len(refusal.Fields) > 0 {
				field = refusal.Fields[0].Field
			}
			if refusal.Kind != test.kind || refusal.Reason != test.reason || field != test.field {
				t.Errorf("got %v %s %q, want %v %s %q", refusal.Kind, refusal.Reason, field, test.kind, test.reason, test.field)
			}
		})
	}
	if err := v.Check(target(func(*actionv3.Target) {})); err != nil {
		t.Errorf("a good request: %v", err)
	}
}

// What runs outside of a call by mistake is refused, and does not panic.
func TestACallOfNobodyReachesNothing(t *testing.T) {
	t.Parallel()
	call := CallFrom(t.Context())
	at := Place{InstanceID: "i", OrgID: "o", UserID: "u"}
	if call.Reaches(at) || call.Reaches(Place{}) || call.Holds("org.read", at) || call.Require(at) == nil || call.Context.InstanceID != "" {
		t.Errorf("nobody reaches something: %+v", call)
	}
	if err := call.MayGrant([]string{"IAM_OWNER"}, policyv1.Level_LEVEL_INSTANCE, at, "roles"); err == nil {
		t.Error("nobody gives a role")
	}
}
