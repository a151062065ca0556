package executions

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEvents goes through condition × target type × execution type × way to answer, all of
// it at one event: each cell is a target of its own, as one that fails may hold up what
// comes after it.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"event.event", "event.group", "event.all"} {
		for _, of := range []string{webhook, answering} {
			t.Run(kind+", "+of, func(t *testing.T) {
				t.Parallel()
				n := newTenant(t, strings.ToLower(strings.ReplaceAll(kind, ".", "-")+"-"+of))
				cells := map[string]*way{} // by target
				exec := map[string]string{}
				var targets []*target
				for _, how := range []string{waiting, async} {
					for i, one := range ways {
						timeout := patient
						if one.slow {
							timeout = hasty
						}
						if how == async && i%2 == 0 { // an execution has at most 100 targets, and this means nothing here
							continue
						}
						at := n.register(fmt.Sprintf("%s, %s", how, one.name), of, how, n.receiver.at(one, fmt.Sprint(how, "-", i)), timeout)
						cells[at.id], exec[at.id], targets = one, how, append(targets, at)
					}
				}
				n.put(in(kind), nil, targets...)
				name := "told of"
				project := idOf(n.must(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": name}))
				states := n.delivered(project, len(targets))
				for id, one := range cells {
					if want := one.comesTo(); states[id] != want {
						t.Errorf("%s, %s, %q, %s: the delivery is %s, want %s", kind, of, exec[id], one.name, states[id], want)
					}
				}
				// Whatever transport it comes by.
				good := n.register("good", of, waiting, n.receiver.at(ways[0], "good"), patient)
				n.put(in(kind), nil, good)
				for _, transport := range transports {
					if state := n.delivered(n.create(transport, transport), 1)[good.id]; state != "DELIVERY_STATE_DELIVERED" {
						t.Errorf("%s: the delivery is %s", transport, state)
					}
				}
				ids := map[string]string{}
				for _, call := range n.receiver.calls() {
					if call.JSON["aggregateID"] != project {
						continue // what else happens in the instance
					}
					payload, _ := call.JSON["event_payload"].(map[string]any)
					if call.JSON["event_type"] != "project.added" || call.JSON["aggregateType"] != "project" || call.JSON["instanceID"] != n.id ||
						call.JSON["resourceOwner"] != n.org || call.JSON["userID"] != n.own || payload["name"] != name || call.JSON["created_at"] == nil {
						t.Errorf("the target was told %s", call.Body)
					}
					id := call.Header.Get("Webhook-Id")
					_, whose, _ := strings.Cut(strings.TrimPrefix(call.Path, "/"), "/")
					if known := ids[id]; known != "" && known != whose {
						t.Errorf("%s and %s were told with the same ID", known, whose)
					}
					ids[id] = whose
				}
			})
		}
	}
}

// comesTo returns the state of a delivery after one attempt that is answered so.
func (w *way) comesTo() string {
	switch {
	case w.gone:
		return "DELIVERY_STATE_DEAD"
	case !w.failure || w.forwards != 0 || strings.HasPrefix(w.name, "forwarded"): // it has a status of 2xx
		return "DELIVERY_STATE_DELIVERED"
	}
	return "DELIVERY_STATE_FAILED"
}

// TestAnEventStopsAtATargetThatInterrupts has a target behind each that interrupts: it gets the event when
// that one has got it, waits while it fails and is never called when it is given up.
func TestAnEventStopsAtATargetThatInterrupts(t *testing.T) {
	t.Parallel()
	for _, of := range []string{webhook, answering} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t, "event-interrupts-"+strings.ToLower(of))
			behind := n.register("behind", webhook, waiting, n.receiver.at(ways[0], "behind"), patient)
			for i, one := range ways {
				timeout := patient
				if one.slow {
					timeout = hasty
				}
				gate := n.register("gate, "+one.name, of, interrupting, n.receiver.at(one, fmt.Sprint("gate-", i)), timeout)
				n.put(in("event.event"), nil, gate, behind)
				project := idOf(n.must(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": one.name}))
				ends, follows := one.comesTo(), one.comesTo() // given up, or delivered
				tried := 2
				if ends == "DELIVERY_STATE_FAILED" {
					tried, follows = 1, "DELIVERY_STATE_PENDING"
				}
				if states := n.delivered(project, tried); states[gate.id] != ends || states[behind.id] != follows {
					t.Errorf("%s: the delivery is %s, the one behind it %s, want %s and %s", one.name, states[gate.id], states[behind.id], ends, follows)
				}
				told := slices.ContainsFunc(n.receiver.calls(), func(call *delivery) bool {
					return call.JSON["aggregateID"] == project && strings.HasSuffix(call.Path, "/behind")
				})
				if told != (ends == "DELIVERY_STATE_DELIVERED") {
					t.Errorf("%s: the delivery is %s, and whether the target behind it was told is %v", one.name, ends, told)
				}
			}
		})
	}
}

// delivered waits until each target was tried with the event about an object, and returns
// the states by target.
func (n *tenant) delivered(object string, count int) map[string]string {
	n.Helper()
	states := map[string]string{}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		found := n.must(http.MethodPost, "/resources/v3alpha/executions/deliveries/_search?query.limit=1000", []any{
			map[string]any{"object": map[string]any{"type": "project", "id": object}},
		})
		tried := 0
		result, _ := found["result"].([]any)
		for _, one := range result {
			delivery, _ := one.(map[string]any)
			states[text(delivery, "target")] = text(delivery, "state")
			if text(delivery, "state") != "DELIVERY_STATE_PENDING" {
				tried++
			}
		}
		if tried == count {
			return states
		}
	}
	n.Errorf("not all of %d targets were tried: %v", count, states)
	return states
}
