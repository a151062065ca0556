package executions

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestSEC218_NoTenantIsToldOfTheSystem has somebody of the system call at the host of a
// tenant, who has everything called: nothing of the system, and nothing of another tenant,
// is told or changed there.
func TestSEC218_NoTenantIsToldOfTheSystem(t *testing.T) {
	t.Parallel()
	n, other := newTenant(t, "nosy"), newTenant(t, "victim")
	const update = "/writ.instance.v3alpha.ServiceInstances/PatchInstance"
	at := n.register("all", answering, interrupting, n.receiver.at(asks, "x"), patient)
	n.receiver.mu.Lock()
	n.receiver.change = func(message map[string]any) {
		if instance, ok := message["instance"].(map[string]any); ok && message["id"] != nil {
			message["id"] = other.id
			instance["name"] = "taken"
		}
	}
	n.receiver.mu.Unlock()
	request, response := n.put(in("request.all"), nil, at), n.put(in("response.all"), nil, at)
	n.put(map[string]any{"event": map[string]any{"all": true}}, nil, n.register("events", webhook, waiting, n.receiver.at(ways[0], "events"), patient))
	for _, of := range []string{"request", "response"} {
		for name, condition := range map[string]map[string]any{
			"method":  {"method": update},
			"service": {"service": "writ.instance.v3alpha.ServiceInstances"},
		} {
			got := n.rest(http.MethodPost, "/resources/v3alpha/executions", map[string]any{"condition": map[string]any{of: condition}, "targets": []string{at.id}}, skip...)
			if got.Status != http.StatusBadRequest || !strings.Contains(got.Message, "of the system") {
				t.Errorf("an execution on a %s of the system, %s: got %d %v", name, of, got.Status, got.Body)
			}
		}
		if got := n.rest(http.MethodPost, "/resources/v3alpha/targets/"+at.id+"/_test", map[string]any{of: map[string]any{"method": update}}, skip...); got.OK {
			t.Errorf("a test of a condition of the system: got %d %v", got.Status, got.Body)
		}
		// One that was put before they were refused.
		for _, id := range []string{of + "." + update, of + ".writ.instance.v3alpha.ServiceInstances", of + "./writ.feature.v2.ServiceFeatures/SetSystemFeatures"} {
			if _, err := n.db.Exec(t.Context(), `WITH e AS (INSERT INTO executions (instance_id, id, condition_type, sequence, creation_date, change_date)
				VALUES ($1, $2, $3, 1, now(), now()) RETURNING instance_id, id)
				INSERT INTO execution_targets (instance_id, execution_id, position, target_id) SELECT instance_id, id, 1, $4 FROM e`, n.id, id, of, at.id); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.put(in("request.method"), nil, at) // so that the table is read anew
	methods := n.must(http.MethodGet, "/resources/v3alpha/executions/methods", nil)["methods"].([]any)
	services := n.must(http.MethodGet, "/resources/v3alpha/executions/services", nil)["services"].([]any)
	if len(methods) < 50 || slices.Contains(methods, any(update)) || slices.Contains(services, any("writ.instance.v3alpha.ServiceInstances")) ||
		!slices.Contains(services, any("writ.feature.v2.ServiceFeatures")) {
		t.Errorf("listed are %v and %v", services, methods)
	}

	system := n.by(n.server.SystemToken)
	n.receiver.forget()
	for name, call := range map[string]func() *outcome{
		"an instance is read":    func() *outcome { return system.rest(http.MethodGet, "/resources/v3alpha/instances/"+other.id, nil) },
		"instances are searched": func() *outcome { return system.rest(http.MethodPost, "/resources/v3alpha/instances/_search", []any{}) },
		"an instance is renamed": func() *outcome {
			return system.rest(http.MethodPatch, "/resources/v3alpha/instances/"+n.id, map[string]any{"name": "nosy as before"})
		},
		"features of the system": func() *outcome { return system.rest(http.MethodGet, "/v2/features/system", nil) },
		"features are set":       func() *outcome { return system.rest(http.MethodPut, "/v2/features/system", map[string]any{}) },
		"memberships in ctx": func() *outcome {
			return system.rest(http.MethodPost, "/resources/v3alpha/memberships/_search?ctx.system=true", []any{})
		},
		"features of another": func() *outcome {
			return system.rest(http.MethodGet, "/v2/features/instance?ctx.instanceId="+other.id, nil)
		},
		"memberships of another": func() *outcome {
			return system.rest(http.MethodPost, "/resources/v3alpha/memberships/_search?ctx.instanceId="+other.id, []any{})
		},
		"branding of the system": func() *outcome { return system.rest(http.MethodGet, "/settings/v3alpha/branding?ctx.system=true", nil) },
		"a provider of the system": func() *outcome {
			made := system.rest(http.MethodPost, "/resources/v3alpha/idps/github?ctx.system=true", map[string]any{"idp": map[string]any{"name": "shared"}, "config": map[string]any{"clientId": "c", "clientSecret": "of-the-system"}})
			if made.OK {
				defer system.rest(http.MethodDelete, "/resources/v3alpha/idps/"+made.ID, nil)
				if got := system.rest(http.MethodPatch, "/resources/v3alpha/idps/github/"+made.ID, map[string]any{"idp": map[string]any{"name": "shared more"}}); !got.OK {
					t.Errorf("got %d %v", got.Status, got.Body)
				}
				if got := system.rest(http.MethodGet, "/resources/v3alpha/idps/github/"+made.ID, nil); !got.OK {
					t.Errorf("got %d %v", got.Status, got.Body)
				}
			}
			return made
		},
	} {
		if got := call(); !got.OK {
			t.Errorf("%s: got %d %v", name, got.Status, got.Body)
		}
	}
	for _, call := range n.receiver.calls() {
		if call.JSON["request"] != nil || call.JSON["response"] != nil {
			t.Errorf("the target was told %s", call.Body)
		}
	}
	if got := n.value("SELECT name FROM instances WHERE id = $1", other.id); got != "victim" {
		t.Errorf("another tenant is called %q now", got)
	}

	// In the tenant's own context it is told, and keeps nobody of the system out.
	n.receiver.forget()
	if got := system.rest(http.MethodPost, "/resources/v3alpha/memberships/_search", []any{}); !got.OK || len(n.receiver.calls()) == 0 {
		t.Errorf("about the tenant: got %d %v, and %d calls", got.Status, got.Body, len(n.receiver.calls()))
	}
	for _, call := range n.receiver.calls() {
		if call.JSON["instanceID"] != nil && call.JSON["instanceID"] != n.id {
			t.Errorf("the target was told %s", call.Body)
		}
	}
	elsewhere := other.by(n.server.SystemToken)
	n.receiver.forget()
	if got := elsewhere.rest(http.MethodPost, "/resources/v3alpha/memberships/_search?ctx.instanceId="+n.id, []any{}); !got.OK || len(n.receiver.calls()) == 0 {
		t.Errorf("about the tenant, at another host: got %d %v, and %d calls", got.Status, got.Body, len(n.receiver.calls()))
	}
	n.receiver.mu.Lock()
	n.receiver.change = func(message map[string]any) { maps.Copy(message, map[string]any{"nothing": true}) }
	n.receiver.mu.Unlock()
	if got := system.rest(http.MethodPost, "/resources/v3alpha/memberships/_search", []any{}); got.OK {
		t.Errorf("an interrupting target: got %d %v", got.Status, got.Body)
	}
	if got := system.rest(http.MethodPost, "/resources/v3alpha/memberships/_search", []any{}, skip...); !got.OK {
		t.Errorf("somebody of the system who skips: got %d %v", got.Status, got.Body)
	}

	// What happens to the system is in no tenant's trail, and no target's.
	n.remove(request)
	n.remove(response)
	last := idOf(n.must(http.MethodPost, "/resources/v3alpha/projects", map[string]any{"name": "last"}))
	n.delivered(last, 1)
	for _, call := range n.receiver.calls() {
		if kind, _ := call.JSON["event_type"].(string); strings.HasPrefix(kind, "feature.system") || call.JSON["instanceID"] == "" {
			t.Errorf("the target was told %s", call.Body)
		}
	}
}
