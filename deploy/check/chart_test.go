package check

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const chart = "deploy/helm/writ"

// versions of Kubernetes: the oldest that the chart takes, and the newest with a schema.
var versions = []string{"1.27.0", "1.37.0"}

// rendered returns the objects that the chart makes with a file of values and settings.
func rendered(t *testing.T, values string, settings ...string) (string, map[string]map[string]any, error) {
	t.Helper()
	args := []string{tool(t, "bin/helm"), "template", "r", chart, "--namespace", "id", "--kube-version", versions[0], "-f", filepath.Join(chart, "ci", values+"-values.yaml")}
	for _, setting := range settings {
		args = append(args, "--set", setting)
	}
	text, err := execute(t, args...)
	if err != nil {
		return "", nil, err
	}
	objects := map[string]map[string]any{}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var object map[string]any
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return text, objects, nil
		} else if err != nil {
			return "", nil, err
		}
		if object != nil {
			objects[fmt.Sprintf("%v/%v", object["kind"], at(object, "metadata", "name"))] = object
		}
	}
}

// at walks through mappings and lists.
func at(value any, path ...any) any {
	for _, step := range path {
		switch in := value.(type) {
		case map[string]any:
			value = in[fmt.Sprint(step)]
		case []any:
			i, ok := step.(int)
			if !ok || i >= len(in) {
				return nil
			}
			value = in[i]
		default:
			return nil
		}
	}
	return value
}

func TestTheChartIsGoodAndWhatItMakesFitsTheSchemasOfKubernetes(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][]string{
		"minimal": {"ConfigMap/r-writ", "Deployment/r-writ", "Job/r-writ-migrate", "PodDisruptionBudget/r-writ", "Service/r-writ", "Service/r-writ-metrics", "ServiceAccount/r-writ"},
		"everything": {
			"ConfigMap/r-writ", "Deployment/r-writ", "HorizontalPodAutoscaler/r-writ", "Ingress/r-writ", "Job/r-writ-migrate", "NetworkPolicy/r-writ",
			"PodDisruptionBudget/r-writ", "Service/r-writ", "Service/r-writ-metrics", "ServiceAccount/r-writ", "ServiceMonitor/r-writ",
		},
		"single": {"ConfigMap/r-writ", "Deployment/r-writ", "Service/r-writ"},
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			must(t, tool(t, "bin/helm"), "lint", "--strict", chart, "--kube-version", versions[0], "-f", filepath.Join(chart, "ci", values+"-values.yaml"))
			text, objects, err := rendered(t, values)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for name := range objects {
				got = append(got, name)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			file := filepath.Join(t.TempDir(), "all.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, version := range versions {
				must(t, tool(t, ".cache/deploy/bin/kubernetes-validate"), "-k", version, "--strict", "--quiet", "--no-warn", file)
			}
		})
	}
}

func TestTheSchemaCheckRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	text, _, err := rendered(t, "minimal")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"readinessProbe:", "readynessProbe:"}, {"periodSeconds: 10", "periodSeconds: ten"}} {
		file := filepath.Join(t.TempDir(), "all.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(text, change[0], change[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := execute(t, tool(t, ".cache/deploy/bin/kubernetes-validate"), "-k", versions[1], "--strict", file); err == nil {
			t.Errorf("%v was taken\n%s", change, out)
		}
	}
}

func TestPodsAreRestrictedAndHoldNoSecret(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"minimal", "everything", "single"} {
		text, objects, err := rendered(t, values)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "kind: Secret") || strings.Contains(text, "postgres://") {
			t.Errorf("%s: there is a secret in it", values)
		}
		for name, object := range objects {
			pod := at(object, "spec", "template", "spec")
			if pod == nil {
				continue
			}
			// The standard "restricted" of pod security, and a file system that nobody writes.
			container := at(pod, "containers", 0)
			for what, got := range map[string]any{
				"runAsNonRoot":             at(pod, "securityContext", "runAsNonRoot"),
				"seccomp":                  at(pod, "securityContext", "seccompProfile", "type") == "RuntimeDefault",
				"no escalation":            at(container, "securityContext", "allowPrivilegeEscalation") == false,
				"read-only":                at(container, "securityContext", "readOnlyRootFilesystem"),
				"no capabilities":          at(container, "securityContext", "capabilities", "drop", 0) == "ALL",
				"no token of the cluster":  at(pod, "automountServiceAccountToken") == false,
				"no variables of services": at(pod, "enableServiceLinks") == false,
				"limits":                   at(container, "resources", "limits", "memory") != nil,
			} {
				if got != true {
					t.Errorf("%s %s: %s does not hold", values, name, what)
				}
			}
		}
	}
}

func TestTheChartProbesWhatTheServerServes(t *testing.T) {
	t.Parallel()
	for values, scheme := range map[string]string{"minimal": "HTTP", "single": "HTTPS"} {
		_, objects, err := rendered(t, values)
		if err != nil {
			t.Fatal(err)
		}
		container := at(objects["Deployment/r-writ"], "spec", "template", "spec", "containers", 0)
		for probe, path := range map[string]string{"startupProbe": "/readyz", "livenessProbe": "/livez", "readinessProbe": "/readyz"} {
			if got := at(container, probe, "httpGet", "path"); got != path || at(container, probe, "httpGet", "scheme") != scheme {
				t.Errorf("%s of %s: got %v", probe, values, at(container, probe))
			}
		}
	}
}

func TestMigrationsRunBeforeARelease(t *testing.T) {
	t.Parallel()
	_, objects, err := rendered(t, "everything")
	if err != nil {
		t.Fatal(err)
	}
	job := objects["Job/r-writ-migrate"]
	if got := at(job, "metadata", "annotations", "helm.sh/hook"); got != "pre-install,pre-upgrade" {
		t.Errorf("the hook is %v", got)
	}
	if got := at(job, "spec", "template", "spec", "volumes", 0, "secret", "secretName"); got != "db-owner" {
		t.Errorf("it takes the secret %v", got)
	}
	// Else the job would be behind the service, or in the budget of the nodes.
	selector := at(objects["Service/r-writ"], "spec", "selector", "app.kubernetes.io/name")
	if at(job, "spec", "template", "metadata", "labels", "app.kubernetes.io/name") == selector {
		t.Error("the service selects the job")
	}
}

func TestValuesThatAreWrongAreRefused(t *testing.T) {
	t.Parallel()
	for setting, wrong := range map[string]string{
		"replica=3":                            "replica",
		"image.digest=latest":                  "digest",
		"config.database-url=postgres://x":     "secret",
		"database.secret.name=":                "database",
		"ingress.enabled=true":                 "ingress.hosts",
		"service.type=External":                "type",
		"drainDelay=soon":                      "drainDelay",
		"metrics.serviceMonitor.every=10s":     "every",
		"config.outgoing-allow.network=10/8":   "outgoing-allow",
		"autoscaling.targetCPUUtilization=200": "targetCPUUtilization",
	} {
		if _, _, err := rendered(t, "minimal", setting); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: got %v", setting, err)
		}
	}
}

// TestWhatTheChartTellsTheNodeIsGood runs the config map of the chart through the program.
func TestWhatTheChartTellsTheNodeIsGood(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"minimal", "everything", "single"} {
		_, objects, err := rendered(t, values)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := at(objects["ConfigMap/r-writ"], "data", "writ.yaml").(string)
		folder := t.TempDir()
		key := filepath.Join(folder, "master-key.json")
		must(t, tool(t, "bin/writ"), "keys", "new-master", key)
		for _, name := range []string{"database-url", "pooler-url"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte("postgres://writ@db/writ"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text = strings.ReplaceAll(text, "/etc/writ/secrets", folder)
		args := []string{tool(t, "bin/writ"), "config", "validate", "--config", filepath.Join(folder, "writ.yaml")}
		if values == "everything" {
			if err := os.WriteFile(filepath.Join(folder, "seed.yaml"), []byte(read(t, "deploy/compose/seed.yaml")), 0o600); err != nil {
				t.Fatal(err)
			}
			text = strings.ReplaceAll(text, "/etc/writ/seed", folder)
		}
		if values == "single" { // whose certificate is a secret of the cluster
			text = strings.ReplaceAll(text, "tls-cert-file", "# tls-cert-file")
			text = strings.ReplaceAll(text, "tls-key-file", "# tls-key-file")
		}
		if err := os.WriteFile(filepath.Join(folder, "writ.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, args...)
	}
}
