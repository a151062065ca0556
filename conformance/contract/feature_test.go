package contract

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	featurev2 "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// as makes a call as somebody else on the REST transport; it has to succeed.
func as[Res proto.Message](s *suite, token string, req proto.Message) Res {
	s.t.Helper()
	got := s.transports[0].call(s.t, s.t.Context(), token, req)
	if got.refusal != nil {
		s.t.Fatalf("%s: %s", req.ProtoReflect().Descriptor().Name(), got)
	}
	return got.message.(Res)
}

// restoreFeatures undoes what a test does to the flags.
func (s *suite) restoreFeatures() {
	t := s.t
	t.Cleanup(func() {
		ctx := context.Background() // the test's own is over
		s.transports[1].call(t, ctx, s.SystemToken, &featurev2.ResetSystemFeaturesRequest{})
		s.transports[1].call(t, ctx, s.AdminToken, &featurev2.SetInstanceFeaturesRequest{
			Features: &featurev2.SetFeatures{MultitenancyResourcesApi: ptr(true), MultitenancySettings: ptr(true)},
		})
	})
}

// TestSEC238_AFeatureThatIsOffIsOffEverywhereAtOnce: every operation that needs
// it, on every transport, for whoever asks.
func TestSEC238_AFeatureThatIsOffIsOffEverywhereAtOnce(t *testing.T) {
	all := newSuite(t)
	all.restoreFeatures()
	all.everyFeature()
	before := all.state()
	set := func(name string, enabled bool) {
		t.Helper()
		flags := &featurev2.SetFeatures{}
		flags.ProtoReflect().Set(flags.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOfBool(enabled))
		must[*featurev2.SetInstanceFeaturesResponse](all, &featurev2.SetInstanceFeaturesRequest{Features: flags})
	}
	needed := 0
	for _, op := range sortedOperations() {
		feature := op.policy().GetFeature()
		if feature == policyv1.Feature_FEATURE_UNSPECIFIED {
			continue
		}
		needed++
		name, transports := strings.ToLower(strings.TrimPrefix(feature.String(), "FEATURE_")), all.transports
		req, err := example(t, all.Server, op)
		if err != nil {
			req, transports = op.question(), transports[1:6] // it is refused before it is looked at
		}
		set(name, false)
		for _, over := range transports {
			for _, token := range []string{all.AdminToken, all.NobodyToken} {
				got := over.call(t, t.Context(), token, req)
				if got.refusal == nil || got.code() != codes.FailedPrecondition || got.reason() != "FEATURE_DISABLED" || got.http != 0 && got.http != http.StatusBadRequest {
					t.Errorf("%s over %s: got %s, want FEATURE_DISABLED", op.path(), over.name(), got)
				} else if !strings.Contains(got.refusal.GetMessage(), name) {
					t.Errorf("%q does not name the feature", got.refusal.GetMessage())
				}
			}
			if got := over.call(t, t.Context(), "", req); got.refusal == nil || got.code() != codes.Unauthenticated {
				t.Errorf("%s over %s: got %s, want Unauthenticated for who is not known", op.path(), over.name(), got)
			}
		}
		set(name, true)
	}
	if needed < 11 {
		t.Errorf("%d operations need a feature; document 1 has 11 of the actions alone", needed)
	}
	const resources = "multitenancy_resources_api"
	for round := range 100 { // at once, not eventually
		enabled := round%2 == 0
		set(resources, enabled)
		over := all.transports[round/2%len(all.transports)]
		if got := over.call(t, t.Context(), all.AdminToken, &actionv3.ListAvailableExecutionMethodsRequest{}); (got.refusal == nil) != enabled {
			t.Errorf("round %d, over %s: got %s right after the feature became %t", round, over.name(), got, enabled)
		}
	}
	set(resources, true)
	after := all.state()
	if after.targets != before.targets || after.executions != before.executions {
		t.Errorf("a refused call wrote: before %+v, after %+v", before, after)
	}
}

// flag is a flag as GetInstanceFeatures answers it.
func flag(enabled bool, source featurev2.Source) *featurev2.FeatureFlag {
	return &featurev2.FeatureFlag{Enabled: enabled, Source: source}
}

// TestFeaturesOfTheInstanceWinOverTheSystems walks through setting and resetting
// on both levels.
func TestFeaturesOfTheInstanceWinOverTheSystems(t *testing.T) {
	s := newSuite(t)
	s.restoreFeatures()
	const nobody, system, instance = featurev2.Source_SOURCE_UNSPECIFIED, featurev2.Source_SOURCE_SYSTEM, featurev2.Source_SOURCE_INSTANCE
	as[*featurev2.ResetSystemFeaturesResponse](s, s.SystemToken, &featurev2.ResetSystemFeaturesRequest{})
	must[*featurev2.ResetInstanceFeaturesResponse](s, &featurev2.ResetInstanceFeaturesRequest{})
	for _, step := range []struct {
		name string
		do   func() *object.SettingDetails
		want *featurev2.Features // of the instance afterwards
	}{
		{"nobody decided", func() *object.SettingDetails { return nil }, &featurev2.Features{
			MultitenancyResourcesApi: flag(true, nobody), MultitenancySettings: flag(true, nobody), OidcTokenExchange: flag(false, nobody), UserSchema: flag(false, nobody),
		}},
		{"the system decides two", func() *object.SettingDetails {
			return as[*featurev2.SetSystemFeaturesResponse](s, s.SystemToken, &featurev2.SetSystemFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(true), MultitenancySettings: ptr(false)}}).GetDetails()
		}, &featurev2.Features{
			MultitenancyResourcesApi: flag(true, nobody), MultitenancySettings: flag(false, system), OidcTokenExchange: flag(false, nobody), UserSchema: flag(true, system),
		}},
		{"the instance decides otherwise", func() *object.SettingDetails {
			return must[*featurev2.SetInstanceFeaturesResponse](s, &featurev2.SetInstanceFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(false), MultitenancyResourcesApi: ptr(true)}}).GetDetails()
		}, &featurev2.Features{
			MultitenancyResourcesApi: flag(true, instance), MultitenancySettings: flag(false, system), OidcTokenExchange: flag(false, nobody), UserSchema: flag(false, instance),
		}},
		{"setting one leaves the others", func() *object.SettingDetails {
			return must[*featurev2.SetInstanceFeaturesResponse](s, &featurev2.SetInstanceFeaturesRequest{Features: &featurev2.SetFeatures{OidcTokenExchange: ptr(true)}}).GetDetails()
		}, &featurev2.Features{
			MultitenancyResourcesApi: flag(true, instance), MultitenancySettings: flag(false, system), OidcTokenExchange: flag(true, instance), UserSchema: flag(false, instance),
		}},
		{"the system's change shows where the instance is silent", func() *object.SettingDetails {
			return as[*featurev2.SetSystemFeaturesResponse](s, s.SystemToken, &featurev2.SetSystemFeaturesRequest{Features: &featurev2.SetFeatures{OidcTokenExchange: ptr(false), MultitenancySettings: ptr(true)}}).GetDetails()
		}, &featurev2.Features{
			MultitenancyResourcesApi: flag(true, instance), MultitenancySettings: flag(true, system), OidcTokenExchange: flag(true, instance), UserSchema: flag(false, instance),
		}},
		{"a reset gives the system's back", func() *object.SettingDetails {
			return must[*featurev2.ResetInstanceFeaturesResponse](s, &featurev2.ResetInstanceFeaturesRequest{}).GetDetails()
		}, &featurev2.Features{
			MultitenancyResourcesApi: flag(true, nobody), MultitenancySettings: flag(true, system), OidcTokenExchange: flag(false, system), UserSchema: flag(true, system),
		}},
		{"the system's reset leaves nothing", func() *object.SettingDetails {
			return as[*featurev2.ResetSystemFeaturesResponse](s, s.SystemToken, &featurev2.ResetSystemFeaturesRequest{}).GetDetails()
		}, &featurev2.Features{
			MultitenancyResourcesApi: flag(true, nobody), MultitenancySettings: flag(true, nobody), OidcTokenExchange: flag(false, nobody), UserSchema: flag(false, nobody),
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			details := step.do()
			got := must[*featurev2.GetInstanceFeaturesResponse](s, &featurev2.GetInstanceFeaturesRequest{})
			if diff := cmp.Diff(step.want, got.GetFeatures(), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			switch details.GetResourceOwner().GetType() {
			case object.OwnerType_OWNER_TYPE_INSTANCE:
				if diff := cmp.Diff(details, got.GetDetails(), protocmp.Transform()); diff != "" || details.GetResourceOwner().GetId() != s.InstanceID {
					t.Errorf("-answered +read:\n%s", diff)
				}
			case object.OwnerType_OWNER_TYPE_SYSTEM:
				read := as[*featurev2.GetSystemFeaturesResponse](s, s.SystemToken, &featurev2.GetSystemFeaturesRequest{})
				if diff := cmp.Diff(details, read.GetDetails(), protocmp.Transform()); diff != "" {
					t.Errorf("-answered +read:\n%s", diff)
				}
			}
		})
	}
}

func TestSettingTheSameFeaturesWritesNothing(t *testing.T) {
	s := newSuite(t)
	s.restoreFeatures()
	set := &featurev2.SetInstanceFeaturesRequest{Features: &featurev2.SetFeatures{UserSchema: ptr(true)}}
	first := must[*featurev2.SetInstanceFeaturesResponse](s, set).GetDetails()
	s.writesNothing(func() {
		for _, again := range []*featurev2.SetFeatures{set.GetFeatures(), {}} {
			got := must[*featurev2.SetInstanceFeaturesResponse](s, &featurev2.SetInstanceFeaturesRequest{Features: again}).GetDetails()
			if !proto.Equal(got, first) {
				t.Errorf("got details %v, want %v", got, first)
			}
		}
	})
}

// TestSEC218_AContextIsOneOfTheCallers tries each member of ctx on the
// operations that take one, on each transport.
func TestSEC218_AContextIsOneOfTheCallers(t *testing.T) {
	all := newSuite(t)
	all.restoreFeatures()
	system := func(value bool) *object.RequestContext {
		return &object.RequestContext{Owner: &object.RequestContext_System{System: value}}
	}
	org := func(id string) *object.RequestContext {
		return &object.RequestContext{Owner: &object.RequestContext_OrgId{OrgId: id}}
	}
	for _, test := range []struct {
		name   string
		ctx    *object.RequestContext
		reason string // "" when it is accepted
		field  string
		http   int
	}{
		{"none", nil, "", "", 200},
		{"the instance by ID", instanceByID(all.InstanceID), "", "", 200},
		{"the instance by domain", instanceByDomain("localhost"), "", "", 200},
		{"the instance by domain in other case", instanceByDomain("LocalHost"), "", "", 200},
		{"an unknown instance", instanceByID("unknown"), "CONTEXT_NOT_FOUND", "", 404},
		{"an unknown domain", instanceByDomain("unknown.example"), "CONTEXT_NOT_FOUND", "", 404},
		{"the organization", org(all.OrgID), "CONTEXT_NOT_APPLICABLE", "ctx", 400},
		{"an unknown organization", org("unknown"), "CONTEXT_NOT_FOUND", "", 404},
		{"the organization by domain", &object.RequestContext{Owner: &object.RequestContext_OrgDomain{OrgDomain: "default.localhost"}}, "CONTEXT_NOT_APPLICABLE", "ctx", 400},
		{"the system", system(true), "CONTEXT_NOT_APPLICABLE", "ctx", 400},
		{"the system, false", system(false), "INVALID_FIELD", "ctx.system", 400},
		{"an ID of 201", instanceByID(strings.Repeat("a", 201)), "INVALID_FIELD", "ctx.instanceId", 400},
		{"an empty ID", instanceByID(""), "INVALID_FIELD", "ctx.instanceId", 400},
		{"a domain of 254", instanceByDomain(strings.Repeat("a", 254)), "INVALID_FIELD", "ctx.instanceDomain", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := all.in(t)
			for _, req := range []proto.Message{
				&featurev2.GetInstanceFeaturesRequest{Ctx: test.ctx},
				&featurev2.SetInstanceFeaturesRequest{Ctx: test.ctx, Features: &featurev2.SetFeatures{MultitenancyResourcesApi: ptr(true)}},
				&featurev2.ResetInstanceFeaturesRequest{Ctx: test.ctx},
			} {
				for _, over := range s.transports[1:] { // the document leaves members out that never apply
					refuse := func() {
						got := over.call(t, s.wrong(), s.AdminToken, req)
						if test.reason == "" && got.refusal != nil {
							t.Errorf("%s: got %s, want an answer", over.name(), got)
						} else if test.reason != "" {
							s.refused(got, test.reason, test.field)
						}
						if got.http != 0 && got.http != test.http {
							t.Errorf("%s: got HTTP %d, want %d", over.name(), got.http, test.http)
						}
					}
					if test.reason == "" {
						refuse()
						s.empty()
					} else {
						s.writesNothing(refuse)
					}
				}
			}
		})
	}
	t.Run("two members", func(t *testing.T) {
		s := all.in(t)
		for _, query := range []string{
			"ctx.instanceId=" + s.InstanceID + "&ctx.instanceDomain=localhost",
			"ctx.instanceId=" + s.InstanceID + "&ctx.instance_domain=localhost",
			"ctx.system=true&ctx.orgId=" + s.OrgID,
			"ctx.instanceId=" + s.InstanceID + "&ctx.system=true",
		} {
			request, err := http.NewRequestWithContext(s.wrong(), http.MethodGet, s.Issuer+"/v2/features/instance?"+query, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+s.AdminToken)
			got := s.transports[len(s.transports)-1].(plain).send(t, operationOf(&featurev2.GetInstanceFeaturesRequest{}), request)
			if got.http != http.StatusBadRequest || got.reason() != "ONEOF_CONFLICT" || !strings.HasPrefix(got.field(), "ctx.") {
				t.Errorf("%s: got %s, want ONEOF_CONFLICT", query, got)
			}
		}
	})
}

// TestREL063_AFeatureIsOffOnTheOtherNodeWithinASecond switches on one node and
// watches the other.
func TestREL063_AFeatureIsOffOnTheOtherNodeWithinASecond(t *testing.T) {
	s := newSuite(t)
	second := suiteOf(t, s.Node(t))
	s.restoreFeatures()
	for _, enabled := range []bool{false, true, false, true} {
		second.try(&actionv3.ListAvailableExecutionMethodsRequest{}) // the other node remembers now
		must[*featurev2.SetInstanceFeaturesResponse](s, &featurev2.SetInstanceFeaturesRequest{Features: &featurev2.SetFeatures{MultitenancyResourcesApi: &enabled}})
		changed := time.Now()
		for {
			got := second.try(&actionv3.ListAvailableExecutionMethodsRequest{})
			if (got.refusal == nil) == enabled {
				break
			}
			if late := time.Since(changed); late > 1100*time.Millisecond {
				t.Fatalf("the other node has not noticed enabled=%t after %s: %s", enabled, late, fmt.Sprint(got))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
