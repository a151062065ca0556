package check

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/writ-id/writ/impl/core/telemetry"
)

// exported returns the metrics that a node exports, each with its labels, by having one of
// each measured.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	ctx := t.Context()
	meter, err := telemetry.New(ctx, telemetry.Config{Prometheus: true, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	meter.Watch(func(context.Context) (telemetry.Readings, error) {
		return telemetry.Readings{
			Pools: map[string]telemetry.Pool{"calls": {}}, Queues: map[string]telemetry.Queue{"deliveries": {}}, Rejections: map[string]int64{"calls": 1},
		}, nil
	})
	meter.Login(ctx, "password", true)
	meter.Token(ctx, "authorization_code", "")
	meter.Delivery(ctx, "success")
	request, served, _ := meter.Serve(ctx, "", false)
	served.End(request, http.MethodGet, "/", http.StatusOK, "", 1)
	call, servedCall, _ := meter.ServeCall(ctx, "", false)
	servedCall.EndCall(call, "/a.B/C", "OK", "", 1)

	answer := httptest.NewRecorder()
	meter.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	names := map[string][]string{"up": {"job", "instance"}}
	for _, found := range regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? `).FindAllStringSubmatch(answer.Body.String(), -1) {
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(names[found[1]], label[1]) {
				names[found[1]] = append(names[found[1]], label[1])
			}
		}
		if names[found[1]] == nil {
			names[found[1]] = []string{}
		}
	}
	return names
}

// rules are the groups of a file of Prometheus.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct{ Alert, Record, Expr string }
	}
}

// expressions returns the queries of the dashboard and of the rules, by what they are for.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var alerts rules
	if err := yaml.Unmarshal([]byte(read(t, "deploy/observability/rules.yaml")), &alerts); err != nil {
		t.Fatal(err)
	}
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			all["rule "+rule.Alert+rule.Record] = rule.Expr
		}
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/observability/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] || panel.GridPos.X+panel.GridPos.W > 24 || panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("the panel %q has an ID twice, is too wide or shows nothing", panel.Title)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			all["panel "+panel.Title+" "+target.RefID] = strings.NewReplacer("$__rate_interval", "5m", "$job", ".+").Replace(target.Expr)
		}
	}
	return all
}

// What of an expression is a metric, and what is a label of one.
var (
	metric   = regexp.MustCompile(`\b((?:http|rpc|writ|db|process|go)_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	recorded = regexp.MustCompile(`\bjob:[a-z_0-9:]+`)
	matcher  = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	grouped  = regexp.MustCompile(`\b(?:by|on) \(([a-z_, ]+)\)`)
)

// TestREL106_DashboardAndRulesNameOnlyWhatANodeExports: a panel of a metric that is called
// otherwise shows nothing, and a rule never fires.
func TestREL106_DashboardAndRulesNameOnlyWhatANodeExports(t *testing.T) {
	t.Parallel()
	names, all := exported(t), expressions(t)
	used := map[string]bool{}
	for of, expression := range all {
		known := []string{"job", "instance"}
		for _, name := range recorded.FindAllString(expression, -1) {
			if all["rule "+name] == "" {
				t.Errorf("%s: no rule records %s", of, name)
			}
		}
		plain := recorded.ReplaceAllString(expression, "")
		for _, found := range metric.FindAllStringSubmatch(grouped.ReplaceAllString(plain, ""), -1) {
			labels, there := names[found[1]]
			if !there {
				t.Errorf("%s: no node exports %s", of, found[1])
			}
			used[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(found[1], "_bucket"), "_sum"), "_count")] = true
			known = append(known, labels...)
			for _, label := range matcher.FindAllStringSubmatch(found[2], -1) {
				if !slices.Contains(append([]string{"job", "instance"}, labels...), label[1]) {
					t.Errorf("%s: %s has no label %s", of, found[1], label[1])
				}
			}
		}
		for _, list := range grouped.FindAllStringSubmatch(plain, -1) {
			for _, label := range strings.Split(list[1], ", ") {
				if !slices.Contains(known, label) {
					t.Errorf("%s: nothing has the label %s", of, label)
				}
			}
		}
	}
	for name := range names {
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !used[family] && !regexp.MustCompile("^(go|process)_|^target_info$").MatchString(name) {
			t.Errorf("%s is shown nowhere", name)
		}
	}
}

// TestREL105_TheRulesFireWhenTheyShouldAndOnlyThen runs the cases of rules.test.yaml, and has
// promtool read the expressions of the dashboard too.
func TestREL105_TheRulesFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "bin/promtool")
	must(t, promtool, "check", "rules", "deploy/observability/rules.yaml")
	must(t, promtool, "test", "rules", "deploy/observability/rules.test.yaml")

	var panels struct {
		Groups []any `yaml:"groups"`
	}
	var list []any
	for of, expression := range expressions(t) {
		if strings.HasPrefix(of, "panel ") {
			list = append(list, map[string]any{"record": "panel:x", "expr": expression, "labels": map[string]string{"of": of}})
		}
	}
	panels.Groups = []any{map[string]any{"name": "panels", "rules": list}}
	text, err := yaml.Marshal(panels)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, promtool, "check", "rules", file)

	tests := read(t, "deploy/observability/rules.test.yaml")
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, "deploy/observability/rules.yaml"), -1) {
		if !strings.Contains(tests, "alertname: "+alert[1]+"\n") {
			t.Errorf("no case is about %s", alert[1])
		}
	}
}

// TestWhatAlertsSendPeopleToIsThere: an operation of the API, or a command.
func TestWhatAlertsSendPeopleToIsThere(t *testing.T) {
	t.Parallel()
	contract, rules := read(t, "gen/openapi/openapi.json"), read(t, "deploy/observability/rules.yaml")
	for _, path := range regexp.MustCompile(`/resources/[a-z0-9/_]+`).FindAllString(rules, -1) {
		if !strings.Contains(contract, `"`+path+`"`) {
			t.Errorf("there is no %s", path)
		}
	}
	for _, command := range regexp.MustCompile(`\bwrit ((?:ready|doctor|keys [a-z]+))`).FindAllStringSubmatch(rules, -1) {
		must(t, append(append([]string{tool(t, "bin/writ")}, strings.Fields(command[1])...), "--help")...)
	}
}

// TestTheRoutesOfTheServiceLevelsAreServed: by the name that the label has.
func TestTheRoutesOfTheServiceLevelsAreServed(t *testing.T) {
	t.Parallel()
	contract := read(t, "contracts/openapi/oauth.yaml")
	for _, route := range []string{"/oauth/v2/token", "/oauth/v2/introspect", "/oauth/v2/keys"} {
		if !strings.Contains(contract, "\n  "+route+":\n") {
			t.Errorf("there is no %s", route)
		}
	}
	if !strings.Contains(read(t, "deploy/observability/rules.yaml"), `http_route=~"/oauth/v2/(token|introspect|keys)"`) {
		t.Error("the rules are about others")
	}
}
