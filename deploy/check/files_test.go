package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestTheDockerfileFollowsTheRules(t *testing.T) {
	t.Parallel()
	must(t, tool(t, "bin/hadolint"), "deploy/Dockerfile")
	wrong := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(wrong, []byte("FROM debian\nRUN apt-get install curl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, tool(t, "bin/hadolint"), wrong); err == nil {
		t.Error("the linter takes anything")
	}
}

// TestTheServiceIsGoodAndLocksItselfIn asks systemd what it thinks of the unit.
func TestTheServiceIsGoodAndLocksItselfIn(t *testing.T) {
	t.Parallel()
	analyze := installed(t, "systemd-analyze", "apt-get install systemd")
	unit := read(t, "deploy/systemd/writ.service")
	check := func(unit string) (float64, error) {
		file := filepath.Join(t.TempDir(), "writ.service")
		// The program is not installed here.
		if err := os.WriteFile(file, []byte(strings.Replace(unit, "/usr/bin/writ ", tool(t, "bin/writ")+" ", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := execute(t, analyze, "verify", "--man=no", file); err != nil {
			return 0, err
		} else if out != "" {
			t.Errorf("systemd says: %s", out)
		}
		out := must(t, analyze, "security", "--offline=true", "--no-pager", file)
		level := regexp.MustCompile(`Overall exposure level for writ.service: ([0-9.]+)`).FindStringSubmatch(out)
		if level == nil {
			t.Fatalf("no level in\n%s", out)
		}
		return strconv.ParseFloat(level[1], 64)
	}
	level, err := check(unit)
	if err != nil {
		t.Fatal(err)
	}
	if level > 1.5 { // of ten; a unit that says nothing has 9.6
		t.Errorf("the exposure is %.1f", level)
	}
	if open, err := check(strings.ReplaceAll(unit, "ProtectSystem=strict\n", "")); err != nil || open <= level {
		t.Errorf("without its protection the exposure is %.1f, %v", open, err)
	}
}

// TestWhatTheServiceTellsTheNodeIsGood runs its configuration file through the program.
func TestWhatTheServiceTellsTheNodeIsGood(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	must(t, tool(t, "bin/writ"), "keys", "new-master", key)
	if _, err := executeWith(t, []string{"WRIT_MASTER_KEY_FILE=" + key, "WRIT_DATABASE_URL=postgres://writ@db/writ"},
		tool(t, "bin/writ"), "config", "validate", "--config", "deploy/systemd/writ.yaml"); err != nil {
		t.Error(err)
	}
}

// TestTheComposeFileComesUpInOrder holds the file against the specification, and the order in
// which things start against what each needs.
func TestTheComposeFileComesUpInOrder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(root, "deploy/compose/compose.yaml")
	out := must(t, tool(t, "bin/compose"), "-format", "json", file)
	var project struct {
		Services map[string]struct {
			DependsOn   map[string]struct{ Condition string } `json:"depends_on"`
			Environment map[string]string
			Command     []string
			Healthcheck struct{ Test []string }
			Image       string
			Ports       []struct {
				HostIP string `json:"host_ip"`
			}
			Volumes []struct {
				Source, Target string
				ReadOnly       bool `json:"read_only"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &project); err != nil {
		t.Fatal(err)
	}
	for service, needs := range map[string]map[string]string{
		"database":   {"secrets": "service_completed_successfully"},
		"master-key": {"secrets": "service_completed_successfully"},
		"writ":       {"database": "service_healthy", "master-key": "service_completed_successfully"},
	} {
		for other, condition := range needs {
			if got := project.Services[service].DependsOn[other].Condition; got != condition {
				t.Errorf("%s waits for %s to be %q, want %q", service, other, got, condition)
			}
		}
	}
	node := project.Services["writ"]
	if len(node.Ports) != 1 || node.Ports[0].HostIP != "127.0.0.1" {
		t.Errorf("the node is open to others: %v", node.Ports)
	}
	if regexp.MustCompile(`(?i)password:\s*\w|postgres://\w+:\w`).MatchString(read(t, "deploy/compose/compose.yaml")) {
		t.Error("there is a password in the file")
	}
}
