package page

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"maps"
)

var verb = regexp.MustCompile(`%.`)

func TestEveryTextIsInEveryLanguage(t *testing.T) {
	t.Parallel()
	for language, texts := range catalogues {
		if got, want := slices.Sorted(maps.Keys(texts)), slices.Sorted(maps.Keys(catalogues["en"])); !slices.Equal(got, want) {
			t.Errorf("%s has %v, English %v", language, got, want)
		}
		for key, text := range texts {
			if strings.TrimSpace(text) == "" || !slices.Equal(verb.FindAllString(text, -1), verb.FindAllString(catalogues["en"][key], -1)) {
				t.Errorf("%s: %s is %q", language, key, text)
			}
		}
	}
}

var named = regexp.MustCompile(`(?:Get|link)\("([a-zA-Z.]+)"|Text "([a-zA-Z.]+)"|mistake\{"\w+", "([a-zA-Z.]+)"`)

// TestEveryTextThatIsNamedExists looks for the keys in the templates.
func TestEveryTextThatIsNamedExists(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(files, "templates", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		for _, found := range named.FindAllStringSubmatch(string(content), -1) {
			if !(Words{language: "en"}).Has(found[2]) {
				t.Errorf("%s: there is no text %q", path, found[2])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSourcesOfAPolicy(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://app.example/cb?x=y": "https://app.example", "http://127.0.0.1:4711/": "http://127.0.0.1:4711", "http://[::1]:80/": "http:",
		"com.example.app:/cb": "com.example.app:", "javascript:alert(1)": "", "data:text/html,x": "", "": "", "/cb": "",
		"https://app.example; script-src *": "", "https://*.example/": "https:", "https://a b/": "",
	} {
		if got := source(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}
