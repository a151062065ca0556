package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is what is there to be named: files, and words of the sources.
type repository struct {
	paths []string // with a slash before and, of folders, behind
	words map[string]bool
}

var (
	word       = regexp.MustCompile(`[\pL_][\pL\pN_]*`)
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	path       = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)*/?$`)
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\(\))?$`)
	test       = regexp.MustCompile(`^(Test|Fuzz)\w*$`)
	link       = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

func read(t *testing.T) *repository {
	t.Helper()
	r := &repository{words: map[string]bool{}}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		short := "/" + strings.TrimPrefix(filepath.ToSlash(name), "../")
		switch base := entry.Name(); {
		case entry.IsDir() && (slices.Contains([]string{"bin", "third_party", "node_modules", "dist"}, base) || strings.HasPrefix(base, ".") && base != ".." && base != ".ci"):
			return fs.SkipDir
		case entry.IsDir():
			r.paths = append(r.paths, short+"/")
			return nil
		}
		r.paths = append(r.paths, short)
		if !slices.Contains([]string{".go", ".sql", ".proto", ".yaml", ".json", ".html", ".tmpl", ".js"}, filepath.Ext(name)) && entry.Name() != "Makefile" {
			return nil
		}
		if strings.HasPrefix(short, "/gen/sdk") || strings.HasPrefix(short, "/gen/openapi") || short == "/docs/design_test.go" {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, one := range word.FindAllString(string(text), -1) {
			r.words[one] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// has reports whether there is a file or folder of a path, or of the end of one.
func (r *repository) has(name string) bool {
	if strings.Contains(name, "*") {
		pattern := regexp.MustCompile("/" + strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, "[^/]*") + "/?$")
		return slices.ContainsFunc(r.paths, pattern.MatchString)
	}
	name = strings.TrimSuffix(name, "/")
	return slices.ContainsFunc(r.paths, func(path string) bool { return strings.HasSuffix(strings.TrimSuffix(path, "/"), "/"+name) })
}

// TestTheDesignNamesWhatIsThere holds each path, test and identifier that ARCHITECTURE.md and
// docs/design name to the repository.
func TestTheDesignNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	r := read(t)
	pages, err := filepath.Glob("design/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "../ARCHITECTURE.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), to[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, to[1])
			}
		}
		for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
			if name := found[1]; !r.knows(name) {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
	}
	if r.knows("impl/core/nothing.go") || r.knows("store.NoSuchThing") || r.knows("TestSEC999_Nothing") {
		t.Error("it knows everything")
	}
}

// knows reports whether a text that is marked as code is there, when it is a path, a test or
// an identifier of a program.
func (r *repository) knows(name string) bool {
	switch prefix, cut := strings.CutSuffix(name, "…"); {
	case test.MatchString(prefix):
		if !cut {
			return r.words[name]
		}
		for one := range r.words {
			if strings.HasPrefix(one, prefix) {
				return true
			}
		}
		return false
	case strings.Contains(name, "/") && path.MatchString(name) && slices.ContainsFunc([]string{"impl/", "contracts/", "sql/", "gen/", "cmd/", "conformance/", "deploy/", "docs/", "tools/"}, func(top string) bool { return strings.HasPrefix(name, top) }),
		strings.HasSuffix(name, ".go") && path.MatchString(name), strings.HasSuffix(name, ".sql") && path.MatchString(name):
		return r.has(name)
	case identifier.MatchString(name) && strings.ContainsFunc(name, func(c rune) bool { return c >= 'A' && c <= 'Z' }):
		parts := strings.Split(strings.TrimSuffix(name, "()"), ".")
		return r.words[parts[len(parts)-1]]
	}
	return true
}
