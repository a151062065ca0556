package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/dev/ready"
)

func TestWritVersionPrintsAVersion(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetArgs([]string{"version"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+[-+.0-9a-z]*\nRS256 signatures by (go1|OpenSSL 3)\..*\n$`).MatchString(out.String()) {
		t.Errorf("got %q", out.String())
	}
}

func TestAPipedStartTellsOneFactALineUnlessJSONIsAskedFor(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"auto": "\n  Issuer          http://127.0.0.1:8080\n", "json": `"issuer":"http://127.0.0.1:8080"`} {
		var out bytes.Buffer
		s := start{dev: &dev{nodeFlags: nodeFlags{logFormat: format}}, out: &out, dir: t.TempDir()}
		if err := s.announce(ready.Info{Issuer: "http://127.0.0.1:8080"}, ""); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %q", format, out.String())
		}
	}
}
