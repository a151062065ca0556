package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestABuildIsTheSameInAnotherFolderAndWithAnotherCache builds the program twice as a release
// does: here, and in a copy of the project elsewhere that shares nothing with the first, also
// not what the compiler kept of earlier builds. Its own cache stays, so that this costs a
// minute once and then what was changed, compiled twice.
func TestABuildIsTheSameInAnotherFolderAndWithAnotherCache(t *testing.T) {
	t.Parallel()
	flags := regexp.MustCompile(`ldflags: \["(.*) -X main\.released=v\{\{ \.Version \}\}"\]`).FindStringSubmatch(read(t, "deploy/goreleaser.yaml"))
	if flags == nil {
		t.Fatal("deploy/goreleaser.yaml does not say the flags of the linker")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "another", "folder")
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	must(t, "bash", "-c", `git ls-files -co --exclude-standard -z go.mod go.sum cmd contracts gen impl sql | tar --null -T - -c | tar -x -C "$0"`, elsewhere)
	build := func(folder string, environment ...string) string {
		program := filepath.Join(t.TempDir(), "writ")
		environment = append(environment, "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		if out, err := executeWith(t, environment, "go", "build", "-C", folder, "-trimpath", "-ldflags", flags[1]+" -X main.released=v9.9.9", "-o", program, "./cmd/writ"); err != nil {
			t.Fatal(err, out)
		}
		return strings.Fields(must(t, "sha256sum", program))[0]
	}
	here := build(root)
	if there := build(elsewhere, "GOCACHE="+filepath.Join(cache, "writ", "reproducible")); here != there {
		t.Errorf("here it is %s, elsewhere %s", here, there)
	}
}
