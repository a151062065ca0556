package contract

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	projectv3 "github.com/writ-id/writ/gen/proto/writ/project/v3alpha"

	"github.com/writ-id/writ/conformance/harness"
)

// endpoint is a receiver of events of projects: it answers by the name of the project.
type endpoint struct {
	*httptest.Server
	mu   sync.Mutex
	ids  []string // of the requests
	hold chan struct{}
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{hold: make(chan struct{})}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var body struct {
			Payload struct{ Name string } `json:"event_payload"`
		}
		if err := json.Unmarshal(text, &body); err != nil {
			t.Errorf("got %s: %v", text, err)
		}
		e.mu.Lock()
		e.ids = append(e.ids, r.Header.Get("Webhook-Id"))
		e.mu.Unlock()
		switch body.Payload.Name {
		case "gone":
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, strings.Repeat("gone ", 2000))
		case "slow":
			<-e.hold
		}
	}))
	t.Cleanup(func() { close(e.hold); e.Close() })
	return e
}

func (e *endpoint) times(id string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.ids {
		if one == id {
			n++
		}
	}
	return n
}

// eventually waits until it is so.
func (s *suite) eventually(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("it never came to that: %s", what)
		}
	}
}

func (s *suite) deliveries(filters ...*actionv3.DeliverySearchFilter) (ids []string) {
	s.t.Helper()
	found := must[*actionv3.SearchDeliveriesResponse](s, &actionv3.SearchDeliveriesRequest{
		Query: &object.ListQuery{Asc: true}, Filters: filters,
	})
	for _, delivery := range found.GetResult() {
		ids = append(ids, delivery.GetDetails().GetId())
	}
	return ids
}

// TestDeliveries has events delivered, refused and held, and shows and replays them.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, harness.Own(t))
	receiver := newEndpoint(t)
	endpoint := webhook("deliveries")
	endpoint.GetRestWebhook().Url = receiver.URL
	target := must[*actionv3.CreateTargetResponse](s, &actionv3.CreateTargetRequest{Target: endpoint})
	s.rememberSecret(target.GetSigningKey(), actionv3.ServiceActions_CreateTarget_FullMethodName)
	id := target.GetDetails().GetId()
	s.put(onEvent("project.added"), []string{id}, nil)
	made := map[string]string{}
	for _, name := range []string{"good", "gone", "slow"} {
		project := must[*projectv3.CreateProjectResponse](s, &projectv3.CreateProjectRequest{Project: &projectv3.Project{Name: name}})
		made[name] = project.GetDetails().GetId()
	}
	of := func(name string) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_Object{Object: &actionv3.DeliveryObjectFilter{Id: made[name]}}}
	}
	in := func(state actionv3.DeliveryState) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_State{State: &actionv3.DeliveryStateFilter{State: state}}}
	}
	const pending, delivered, failed, dead = actionv3.DeliveryState_DELIVERY_STATE_PENDING, actionv3.DeliveryState_DELIVERY_STATE_DELIVERED,
		actionv3.DeliveryState_DELIVERY_STATE_FAILED, actionv3.DeliveryState_DELIVERY_STATE_DEAD
	s.eventually("each has its state", func() bool {
		return len(s.deliveries(in(delivered))) == 1 && len(s.deliveries(in(dead))) == 1 && len(s.deliveries(in(pending))) == 1
	})
	known := map[string]string{}
	for name := range made {
		if ids := s.deliveries(of(name)); len(ids) == 1 {
			known[name] = ids[0]
		}
	}
	good, gone, slow := known["good"], known["gone"], known["slow"]
	s.eventually("the slow one is on its way", func() bool { return receiver.times(slow) == 1 })
	kind, other := "project", "user"
	ofKind := func(kind *string) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_Object{Object: &actionv3.DeliveryObjectFilter{Id: made["good"], Type: kind}}}
	}
	byTargetID := func(id string) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_Target{Target: &object.IDFilter{Id: id}}}
	}
	byEvent := func(name string) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_EventType{EventType: &actionv3.EventTypeFilter{Type: name}}}
	}
	byIDs := func(ids ...string) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_InIds{InIds: &object.InIDsFilter{Ids: ids}}}
	}
	since := func(at time.Time) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_CreationDate{CreationDate: &object.TimestampFilter{
			Timestamp: timestamppb.New(at), Method: object.TimestampFilterMethod_TIMESTAMP_Filter_METHOD_GREATER,
		}}}
	}
	replayable := func(is bool) *actionv3.DeliverySearchFilter {
		return &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_Replayable{Replayable: &object.BoolFilter{Value: is}}}
	}
	type filters = []*actionv3.DeliverySearchFilter
	for _, test := range []struct {
		name    string
		filters filters
		want    []string
	}{
		{"none", nil, []string{good, gone, slow}},
		{"target", filters{byTargetID(id)}, []string{good, gone, slow}},
		{"another target", filters{byTargetID("none")}, nil},
		{"event", filters{byEvent("project.added")}, []string{good, gone, slow}},
		{"another event", filters{byEvent("project.removed")}, nil},
		{"object", filters{ofKind(nil)}, []string{good}},
		{"object of a kind", filters{ofKind(&kind)}, []string{good}},
		{"object of another kind", filters{ofKind(&other)}, nil},
		{"state", filters{in(dead)}, []string{gone}},
		{"another state", filters{in(failed)}, nil},
		{"IDs", filters{byIDs(good, slow, "none")}, []string{good, slow}},
		{"time", filters{since(time.Now().Add(-time.Hour))}, []string{good, gone, slow}},
		{"another time", filters{since(time.Now().Add(time.Hour))}, nil},
		{"replayable", filters{replayable(true)}, []string{good, gone}},
		{"not replayable", filters{replayable(false)}, []string{slow}},
		{"two", filters{byTargetID(id), in(delivered)}, []string{good}},
	} {
		for _, column := range []actionv3.DeliveryFieldName{actionv3.DeliveryFieldName_DELIVERY_FIELD_NAME_UNSPECIFIED, actionv3.DeliveryFieldName_DELIVERY_FIELD_NAME_ID, actionv3.DeliveryFieldName_DELIVERY_FIELD_NAME_CREATION_DATE} {
			for _, over := range s.transports {
				got := over.call(t, t.Context(), s.AdminToken, &actionv3.SearchDeliveriesRequest{SortingColumn: column, Filters: test.filters})
				if got.refusal != nil {
					t.Fatalf("%s: %s", test.name, got)
				}
				res := got.message.(*actionv3.SearchDeliveriesResponse)
				var ids []string
				for _, one := range res.GetResult() {
					ids = append(ids, one.GetDetails().GetId())
				}
				if column == actionv3.DeliveryFieldName_DELIVERY_FIELD_NAME_ID && !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) {
					t.Errorf("%s by %s: got %v", test.name, column, ids)
				}
				slices.Sort(ids)
				want := slices.Sorted(slices.Values(test.want))
				if !slices.Equal(ids, want) || res.GetDetails().GetTotalResult() != uint64(len(want)) {
					t.Errorf("%s by %s: got %v of %d, want %v", test.name, column, ids, res.GetDetails().GetTotalResult(), want)
				}
			}
		}
	}

	for _, over := range s.transports {
		got := over.call(t, t.Context(), s.AdminToken, &actionv3.GetDeliveryRequest{Id: gone})
		if got.refusal != nil {
			t.Fatal(got)
		}
		res := got.message.(*actionv3.GetDeliveryResponse)
		if d := res.GetDelivery(); d.GetTarget() != id || d.GetExecution() != "event.project.added" || d.GetEvent().GetObjectId() != made["gone"] || d.GetEvent().GetObjectType() != "project" ||
			d.GetEvent().GetSequence() == 0 || d.GetState() != dead || d.GetDeadReason() != actionv3.DeadReason_DEAD_REASON_GONE || d.GetAttempts() != 1 || d.GetNextAttempt() != nil {
			t.Errorf("got %v", d)
		}
		sent := res.GetRequest()
		if sent.GetHeaders()["Webhook-Id"] != gone || sent.GetHeaders()["Webhook-Timestamp"] == "" || sent.GetHeaders()["Webhook-Signature"] != "" || !strings.Contains(sent.GetBody(), made["gone"]) {
			t.Errorf("got %v", sent)
		}
		if len(res.GetAttempts()) != 1 {
			t.Fatalf("got %v", res.GetAttempts())
		}
		if a := res.GetAttempts()[0]; a.GetNumber() != 1 || a.GetStatus() != http.StatusGone || a.GetError() == "" || len(a.GetAnswer()) != 4<<10 || a.GetDuration().AsDuration() <= 0 {
			t.Errorf("got %v", a)
		}
		s.refused(over.call(t, t.Context(), s.AdminToken, &actionv3.GetDeliveryRequest{Id: "none"}), "NOT_FOUND", "")
		s.refused(over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveryRequest{Id: "none"}), "NOT_FOUND", "")
		s.refused(over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveryRequest{Id: slow}), "DELIVERY_PENDING", "")
		s.refused(over.call(t, t.Context(), s.ViewerToken, &actionv3.ReplayDeliveryRequest{Id: good}), "PERMISSION_DENIED", "")
	}

	for i, over := range s.transports {
		if got := over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveryRequest{Id: good}); got.refusal != nil {
			t.Fatal(got)
		}
		s.eventually("it is delivered again", func() bool { return receiver.times(good) == 2+2*i && len(s.deliveries(in(delivered))) == 1 })
		for _, dry := range []bool{true, false} {
			got := over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveriesRequest{Filters: filters{byTargetID(id)}, DryRun: dry})
			if got.refusal != nil {
				t.Fatal(got)
			}
			if n := got.message.(*actionv3.ReplayDeliveriesResponse).GetCount(); n != 2 {
				t.Errorf("dry %v: %d are replayed, want the two that ended", dry, n)
			}
		}
		s.eventually("both are sent again", func() bool {
			return receiver.times(good) == 3+2*i && receiver.times(gone) == 2+i && len(s.deliveries(in(delivered))) == 1 && len(s.deliveries(in(dead))) == 1
		})
		res := must[*actionv3.GetDeliveryResponse](s, &actionv3.GetDeliveryRequest{Id: good})
		if len(res.GetAttempts()) != 3+2*i || res.GetDelivery().GetAttempts() != 1 {
			t.Errorf("%d attempts are shown, %d since the replay", len(res.GetAttempts()), res.GetDelivery().GetAttempts())
		}
	}

	must[*actionv3.DeleteTargetResponse](s, &actionv3.DeleteTargetRequest{Id: id})
	for _, over := range s.transports {
		s.refused(over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveryRequest{Id: good}), "TARGET_DELETED", "")
		s.refused(over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveriesRequest{Filters: filters{in(dead)}}), "TARGET_DELETED", "")
	}
}

// TestDeliveriesThatFollow has a target that interrupts give an event up, and replays what
// was behind it: alone, when it is sent at once, and with it, when it waits again.
func TestDeliveriesThatFollow(t *testing.T) {
	t.Parallel()
	s := suiteOf(t, harness.Own(t))
	receiver := newEndpoint(t)
	var targets []string
	for _, name := range []string{"first", "second"} {
		endpoint := webhook(name)
		endpoint.GetRestWebhook().Url = receiver.URL
		if endpoint.ExecutionType = nil; name == "first" {
			endpoint.ExecutionType = &actionv3.Target_InterruptOnError{InterruptOnError: true}
		}
		target := must[*actionv3.CreateTargetResponse](s, &actionv3.CreateTargetRequest{Target: endpoint})
		s.rememberSecret(target.GetSigningKey(), actionv3.ServiceActions_CreateTarget_FullMethodName)
		targets = append(targets, target.GetDetails().GetId())
	}
	s.put(onEvent("project.added"), targets, nil)
	project := must[*projectv3.CreateProjectResponse](s, &projectv3.CreateProjectRequest{Project: &projectv3.Project{Name: "gone"}})
	of := &actionv3.DeliverySearchFilter{Filter: &actionv3.DeliverySearchFilter_Object{Object: &actionv3.DeliveryObjectFilter{Id: project.GetDetails().GetId()}}}
	read := func() (first, second *actionv3.GetDelivery) {
		for _, one := range must[*actionv3.SearchDeliveriesResponse](s, &actionv3.SearchDeliveriesRequest{Filters: []*actionv3.DeliverySearchFilter{of}}).GetResult() {
			if first = one; one.GetTarget() == targets[1] {
				second = one
			}
		}
		if second != nil {
			first = must[*actionv3.GetDeliveryResponse](s, &actionv3.GetDeliveryRequest{Id: second.GetFollows()}).GetDelivery()
		}
		return first, second
	}
	const dead, interrupted = actionv3.DeliveryState_DELIVERY_STATE_DEAD, actionv3.DeadReason_DEAD_REASON_INTERRUPTED
	s.eventually("the execution is interrupted", func() bool {
		first, second := read()
		return first.GetState() == dead && second.GetState() == dead
	})
	first, second := read()
	gate, behind := first.GetDetails().GetId(), second.GetDetails().GetId()
	if first.GetTarget() != targets[0] || first.Follows != nil || first.GetDeadReason() != actionv3.DeadReason_DEAD_REASON_GONE || second.GetDeadReason() != interrupted || second.GetAttempts() != 0 {
		t.Errorf("got %v and %v", first, second)
	}
	for i, over := range s.transports {
		if got := over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveriesRequest{Filters: []*actionv3.DeliverySearchFilter{of}}); got.refusal != nil {
			t.Fatal(got)
		}
		s.eventually("both are given up again", func() bool {
			first, second := read()
			return receiver.times(gate) == 2+i && first.GetState() == dead && second.GetDeadReason() == interrupted
		})
		if n := receiver.times(behind); n != i {
			t.Errorf("the second target was called %d times, want %d", n, i)
		}
		if got := over.call(t, t.Context(), s.AdminToken, &actionv3.ReplayDeliveryRequest{Id: behind}); got.refusal != nil {
			t.Fatal(got)
		}
		s.eventually("it was sent", func() bool { _, second := read(); return receiver.times(behind) == 1+i && second.GetState() == dead })
	}
}
