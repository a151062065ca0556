package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var wanted = regexp.MustCompile(`// want (\w+)$`)

// TestEveryLinterFindsWhatIsPlanted runs the program as make does, on a package with one
// mistake for each linter.
func TestEveryLinterFindsWhatIsPlanted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lint")
	if output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	source, err := os.ReadFile("testdata/planted/planted.go")
	if err != nil {
		t.Fatal(err)
	}
	vet := exec.Command("go", "vet", "-vettool="+program, ".")
	vet.Dir = "testdata/planted"
	output, err := vet.CombinedOutput()
	if err == nil {
		t.Fatal("nothing is found")
	}
	lines := strings.Split(string(source), "\n")
	for i, line := range lines {
		mark := fmt.Sprintf("planted.go:%d:", i+1)
		if want := wanted.FindStringSubmatch(line); want != nil {
			found := false
			for _, said := range strings.Split(string(output), "\n") {
				found = found || strings.Contains(said, mark) && strings.HasSuffix(said, "("+want[1]+")")
			}
			if !found {
				t.Errorf("%s does not find line %d: %s", want[1], i+1, line)
			}
		} else if strings.Contains(string(output), mark) && (strings.Contains(line, "nolint") || strings.Contains(line, "Close")) {
			t.Errorf("line %d is found: %s", i+1, line)
		}
	}
	if t.Failed() {
		t.Log(string(output))
	}
}
