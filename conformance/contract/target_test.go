package contract

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// create creates a target and returns its details.
func (s *suite) create(target *actionv3.Target) *object.Details {
	s.t.Helper()
	return must[*actionv3.CreateTargetResponse](s, &actionv3.CreateTargetRequest{Target: target}).GetDetails()
}

// get reads a target.
func (s *suite) get(id string) *actionv3.GetTarget {
	s.t.Helper()
	return must[*actionv3.GetTargetResponse](s, &actionv3.GetTargetRequest{Id: id}).GetTarget()
}

// patch patches a target and returns the details.
func (s *suite) patch(id string, patch *actionv3.PatchTarget) *object.Details {
	s.t.Helper()
	return must[*actionv3.PatchTargetResponse](s, &actionv3.PatchTargetRequest{Id: id, Target: patch}).GetDetails()
}

// checkDetails checks what every details record promises.
func (s *suite) checkDetails(d *object.Details) {
	s.t.Helper()
	if d.GetId() == "" || d.GetSequence() == 0 {
		s.t.Errorf("details without ID or sequence: %v", d)
	}
	want := &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: s.InstanceID}
	if !proto.Equal(d.GetResourceOwner(), want) {
		s.t.Errorf("got owner %v, want %v", d.GetResourceOwner(), want)
	}
	if age := time.Since(d.GetChangeDate().AsTime()); age < -time.Minute || age > 10*time.Minute {
		s.t.Errorf("the change date %s is not now", d.GetChangeDate().AsTime())
	}
}

func TestATargetIsReadAsItWasCreated(t *testing.T) {
	s := newSuite(t)
	sent := webhook("audit")
	created := s.create(sent)
	s.checkDetails(created)
	got := s.get(created.GetId())
	if diff := cmp.Diff(&actionv3.GetTarget{Details: created, Target: sent}, got, protocmp.Transform()); diff != "" {
		t.Errorf("-created +read:\n%s", diff)
	}
	second := s.create(webhook("another"))
	if second.GetId() == created.GetId() || second.GetSequence() <= created.GetSequence() {
		t.Errorf("got ID %s and sequence %d after %s and %d", second.GetId(), second.GetSequence(), created.GetId(), created.GetSequence())
	}
}

func TestTargetNamesAreUnique(t *testing.T) {
	s := newSuite(t)
	first, second := s.create(webhook("first")), s.create(webhook("second"))
	s.writesNothing(func() {
		s.refused(s.try(&actionv3.CreateTargetRequest{Target: webhook("first")}), "TARGET_NAME_TAKEN", "target.name", `"first"`)
		s.refused(s.try(&actionv3.PatchTargetRequest{Id: second.GetId(), Target: &actionv3.PatchTarget{Name: ptr("first")}}), "TARGET_NAME_TAKEN", "target.name", `"first"`)
	})
	s.patch(first.GetId(), &actionv3.PatchTarget{Name: ptr("first")}) // its own name is not taken
	must[*actionv3.DeleteTargetResponse](s, &actionv3.DeleteTargetRequest{Id: first.GetId()})
	s.create(webhook("first")) // a name is free again once its target is gone
}

func TestAPatchChangesWhatIsPresent(t *testing.T) {
	s := newSuite(t)
	request := &actionv3.Target_RestRequestResponse{RestRequestResponse: &actionv3.RestRequestResponse{Url: "https://new.example"}}
	for _, test := range []struct {
		name   string
		start  func(*actionv3.Target)
		patch  *actionv3.PatchTarget
		change func(*actionv3.Target)
	}{
		{"the name alone", nil, &actionv3.PatchTarget{Name: ptr("renamed")}, func(t *actionv3.Target) { t.Name = "renamed" }},
		{"the timeout alone", nil, &actionv3.PatchTarget{Timeout: durationpb.New(time.Millisecond)}, func(t *actionv3.Target) { t.Timeout = durationpb.New(time.Millisecond) }},
		{
			"the URL alone", nil,
			&actionv3.PatchTarget{TargetType: &actionv3.PatchTarget_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: "https://new.example"}}},
			func(t *actionv3.Target) { t.GetRestWebhook().Url = "https://new.example" },
		},
		{
			"a type replaces the other with its settings", nil,
			&actionv3.PatchTarget{TargetType: &actionv3.PatchTarget_RestRequestResponse{RestRequestResponse: request.RestRequestResponse}},
			func(t *actionv3.Target) { t.TargetType = request },
		},
		{
			"an execution type where there was none", nil,
			&actionv3.PatchTarget{ExecutionType: &actionv3.PatchTarget_InterruptOnError{InterruptOnError: true}},
			func(t *actionv3.Target) {
				t.ExecutionType = &actionv3.Target_InterruptOnError{InterruptOnError: true}
			},
		},
		{
			"an execution type replaces the other", func(t *actionv3.Target) {
				t.ExecutionType = &actionv3.Target_InterruptOnError{InterruptOnError: true}
			},
			&actionv3.PatchTarget{ExecutionType: &actionv3.PatchTarget_IsAsync{IsAsync: true}},
			func(t *actionv3.Target) { t.ExecutionType = &actionv3.Target_IsAsync{IsAsync: true} },
		},
		{
			"false is a value", func(t *actionv3.Target) { t.ExecutionType = &actionv3.Target_IsAsync{IsAsync: true} },
			&actionv3.PatchTarget{ExecutionType: &actionv3.PatchTarget_IsAsync{IsAsync: false}},
			func(t *actionv3.Target) { t.ExecutionType = &actionv3.Target_IsAsync{IsAsync: false} },
		},
		{
			"everything at once", func(t *actionv3.Target) { t.ExecutionType = &actionv3.Target_IsAsync{IsAsync: true} },
			&actionv3.PatchTarget{
				Name: ptr("all"), Timeout: durationpb.New(time.Minute),
				TargetType:    &actionv3.PatchTarget_RestRequestResponse{RestRequestResponse: request.RestRequestResponse},
				ExecutionType: &actionv3.PatchTarget_InterruptOnError{InterruptOnError: false},
			},
			func(t *actionv3.Target) {
				t.Name, t.Timeout, t.TargetType = "all", durationpb.New(time.Minute), request
				t.ExecutionType = &actionv3.Target_InterruptOnError{InterruptOnError: false}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			target := webhook(test.name)
			if test.start != nil {
				test.start(target)
			}
			created := s.create(target)
			patched := s.patch(created.GetId(), test.patch)
			s.checkDetails(patched)
			if patched.GetId() != created.GetId() || patched.GetSequence() <= created.GetSequence() || !patched.GetChangeDate().AsTime().After(created.GetChangeDate().AsTime()) {
				t.Errorf("got details %v after %v, want the same ID, a greater sequence and a later date", patched, created)
			}
			test.change(target)
			if diff := cmp.Diff(&actionv3.GetTarget{Details: patched, Target: target}, s.get(created.GetId()), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestREL024_APatchThatChangesNothingWritesNothing: it succeeds, and neither
// sequence nor date move.
func TestREL024_APatchThatChangesNothingWritesNothing(t *testing.T) {
	s := newSuite(t)
	target := webhook("still")
	target.ExecutionType = &actionv3.Target_IsAsync{IsAsync: false}
	created := s.create(target)
	for _, test := range []struct {
		name  string
		patch *actionv3.PatchTarget
	}{
		{"nothing present", &actionv3.PatchTarget{}},
		{"the same name", &actionv3.PatchTarget{Name: ptr("still")}},
		{"the same everything", &actionv3.PatchTarget{
			Name: ptr("still"), Timeout: durationpb.New(10 * time.Second), ExecutionType: &actionv3.PatchTarget_IsAsync{IsAsync: false},
			TargetType: &actionv3.PatchTarget_RestWebhook{RestWebhook: proto.CloneOf(target.GetRestWebhook())},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			s.writesNothing(func() {
				if diff := cmp.Diff(created, s.patch(created.GetId(), test.patch), protocmp.Transform()); diff != "" {
					t.Errorf("-created +patched:\n%s", diff)
				}
			})
		})
	}
}

func TestADeletedTargetIsGone(t *testing.T) {
	s := newSuite(t)
	created := s.create(webhook("short-lived"))
	deleted := must[*actionv3.DeleteTargetResponse](s, &actionv3.DeleteTargetRequest{Id: created.GetId()}).GetDetails()
	s.checkDetails(deleted)
	if deleted.GetId() != created.GetId() || deleted.GetSequence() <= created.GetSequence() {
		t.Errorf("got details %v after %v, want the same ID and a greater sequence", deleted, created)
	}
	s.writesNothing(func() {
		for _, req := range []proto.Message{
			&actionv3.GetTargetRequest{Id: created.GetId()},
			&actionv3.PatchTargetRequest{Id: created.GetId(), Target: &actionv3.PatchTarget{Name: ptr("back")}},
			&actionv3.PatchTargetRequest{Id: created.GetId(), Target: &actionv3.PatchTarget{}},
			&actionv3.DeleteTargetRequest{Id: created.GetId()},
		} {
			got := s.try(req)
			s.refused(got, "NOT_FOUND", "", created.GetId())
			if got.http != 404 {
				t.Errorf("got HTTP %d, want 404", got.http)
			}
		}
	})
}

// TestSEC292_BoundsCountCharacters tests each bound of a target at it and one
// beyond; what is beyond is in the suite of wrong input too.
func TestSEC292_BoundsCountCharacters(t *testing.T) {
	s := newSuite(t)
	url := func(length int) string {
		return "https://hooks.example.com/" + strings.Repeat("a", length-len("https://hooks.example.com/"))
	}
	for _, test := range []struct {
		name   string
		change func(*actionv3.Target)
		field  string // "" when it is accepted
	}{
		{"a name of one character", func(t *actionv3.Target) { t.Name = "a" }, ""},
		{"a name of 200 characters", func(t *actionv3.Target) { t.Name = strings.Repeat("a", 200) }, ""},
		{"a name of 200 characters of four bytes", func(t *actionv3.Target) { t.Name = strings.Repeat("🙂", 200) }, ""},
		{"a name of 201 characters of four bytes", func(t *actionv3.Target) { t.Name = strings.Repeat("🙂", 201) }, "target.name"},
		{"an empty name", func(t *actionv3.Target) { t.Name = "" }, "target.name"},
		{"a URL of 1000 characters", func(t *actionv3.Target) { t.GetRestWebhook().Url = url(1000) }, ""},
		{"a URL of 1001 characters", func(t *actionv3.Target) { t.GetRestWebhook().Url = url(1001) }, "target.restWebhook.url"},
		{"the longest timeout", func(t *actionv3.Target) { t.Timeout = durationpb.New(270 * time.Second) }, ""},
		{"a longer timeout", func(t *actionv3.Target) { t.Timeout = durationpb.New(270*time.Second + 1) }, "target.timeout"},
		{"the shortest timeout", func(t *actionv3.Target) { t.Timeout = durationpb.New(1) }, ""},
		{"no time at all", func(t *actionv3.Target) { t.Timeout = durationpb.New(0) }, "target.timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			target := webhook(test.name)
			test.change(target)
			got := s.transports[0].call(t, s.wrong(), s.AdminToken, &actionv3.CreateTargetRequest{Target: target})
			if test.field != "" {
				s.refused(got, "INVALID_FIELD", test.field)
			} else if got.refusal != nil {
				t.Errorf("got %s, want it to be accepted", got)
			} else if back := s.get(got.message.(*actionv3.CreateTargetResponse).GetDetails().GetId()).GetTarget(); !proto.Equal(back, target) {
				t.Errorf("got %v, want %v", back, target)
			}
		})
	}
}
