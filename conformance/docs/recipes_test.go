package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheRecipesWork does in a copy of the repository what CONTRIBUTING.md says: all that stands
// before a recipe's `make generate`, the generation, once for all of them, and then the rest; a
// recipe's tests come when all are built.
func TestTheRecipesWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	var before, after []block
	recipes := strings.Split(string(page), "\n## ")[1:]
	n := 0
	for _, recipe := range recipes {
		list, generated := blocks([]byte(recipe)), false
		for _, one := range list {
			switch {
			case one.info == "sh" && one.text == "make generate\n":
				generated = true
				n++
			case generated:
				after = append(after, one)
			default:
				before = append(before, one)
			}
		}
	}
	if n != 4 {
		t.Fatalf("%d recipes say where they generate, want 4", n)
	}
	c := copyOf(t, "../..")
	for _, one := range before {
		c.take(one)
	}
	c.run("go generate .")
	for _, one := range after {
		c.take(one)
	}
	c.run("unformatted=$(gofmt -l impl conformance); test -z \"$unformatted\" || { echo \"$unformatted\"; exit 1; }")
	c.run("go build ./cmd/... ./impl/...")
	for _, script := range c.tests {
		c.run(script)
	}
}

// scratch is a copy of the repository.
type scratch struct {
	*testing.T
	dir   string
	tests []string // scripts that run tests, which come when all recipes are done
}

func copyOf(t *testing.T, root string) *scratch {
	t.Helper()
	c := &scratch{T: t, dir: t.TempDir()}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	// Files that are not committed count, those that git ignores do not. The tools are those of the checkout.
	c.run(fmt.Sprintf("mkdir bin; (cd '%[1]s'; git ls-files -z --cached --others --exclude-standard --deduplicate | while read -rd '' name; do [ ! -f \"$name\" ] || printf '%%s\\0' \"$name\"; done | xargs -0 cp --parents -t \"$OLDPWD\"); ln -s '%[1]s/bin/buf' '%[1]s/bin/sqlc' bin/", root))
	return c
}

// run runs a script in the copy.
func (c *scratch) run(script string) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), "bash", "-euo", "pipefail", "-c", script)
	// Without the path of the copy in what is compiled, the next run finds it compiled.
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "GOFLAGS=-trimpath")
	if said, err := cmd.CombinedOutput(); err != nil {
		c.Fatalf("%s\n%v\n%s", script, err, said)
	}
}

// take does what a block says.
func (c *scratch) take(b block) {
	c.Helper()
	kind, name, named := strings.Cut(b.info, " ")
	path := filepath.Join(c.dir, name)
	switch {
	case b.info == "sh" && strings.HasPrefix(b.text, "go "):
		c.tests = append(c.tests, b.text)
	case b.info == "sh":
		c.run(b.text)
	case !named || !filepath.IsLocal(name):
		c.Fatalf("a block begins with %q: sh, or diff or a language and a file", b.info)
	case kind == "diff":
		text, err := os.ReadFile(path)
		if err != nil {
			c.Fatal(err)
		}
		changed, err := apply(string(text), b.text)
		if err != nil {
			c.Fatalf("%s: %v", name, err)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			c.Fatal(err)
		}
	default:
		if _, err := os.Stat(path); err == nil {
			c.Fatalf("%s is there already: say what changes by a diff", name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			c.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
			c.Fatal(err)
		}
	}
}

// apply changes a text by hunks, which a line @@ parts. Each has to fit at one place.
func apply(text, diff string) (string, error) {
	for hunk := range strings.SplitSeq(diff, "@@\n") {
		var old, now strings.Builder
		for line := range strings.Lines(hunk) {
			switch line[0] {
			case '+':
				now.WriteString(line[1:])
			case '-':
				old.WriteString(line[1:])
			case ' ':
				old.WriteString(line[1:])
				now.WriteString(line[1:])
			default:
				return "", fmt.Errorf("the line %q begins with neither a space nor + nor -", line)
			}
		}
		if n := strings.Count("\n"+text, "\n"+old.String()); n != 1 {
			return "", fmt.Errorf("these lines stand %d times there, and have to once:\n%s", n, old.String())
		}
		text = strings.Replace("\n"+text, "\n"+old.String(), "\n"+now.String(), 1)[1:]
	}
	return text, nil
}
