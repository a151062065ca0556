package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/store/pgtest"
	"github.com/writ-id/writ/impl/server/servertest"
)

// TestMain lets the tests run this program as writ.
func TestMain(m *testing.M) {
	if os.Getenv("WRIT_TEST_MAIN") != "" {
		main()
		return
	}
	pgtest.Main(m)
}

// as returns the flags that call an instance of a cluster as a user.
func as(c *servertest.Cluster, host, user string) []string {
	back, err := url.Parse(c.Nodes[0])
	if err != nil {
		c.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(back)
		r.Out.Host = host
	}})
	c.Cleanup(front.Close)
	return []string{"--url", front.URL, "--token", c.Token(user)}
}

// run runs a command; an error is what makes its exit status other than 0.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestExportAndImportAreCommands(t *testing.T) {
	c := servertest.New(t, 1, nil)
	here, there := as(c, "a.example", "owner"), as(c, "b.example", "bob")
	dir := t.TempDir()
	path := filepath.Join(dir, "tenant.json.zst")
	stdout, stderr, err := run(t, append(here, "export", "--output", path, "--exclude-org", c.Org("A2"), "--timeout", "10m")...)
	if err != nil || stdout != "" || !strings.Contains(stderr, "organizations") || strings.Contains(stderr, "\x1b") {
		t.Fatalf("export: %v, %q, %q", err, stdout, stderr)
	}

	type report struct {
		DryRun   bool
		Outcomes []struct{ OrgID, Kind, Created, Skipped string }
	}
	read := func(text string) (r report) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return r
	}
	organizations := func() string {
		return c.Value("SELECT string_agg(name, ' ' ORDER BY name) FROM organizations WHERE instance_id = $1", c.Instance("b"))
	}
	stdout, _, err = run(t, append(there, "import", path, "--dry-run", "--json")...)
	if got := read(stdout); err != nil || !got.DryRun || organizations() != "B" {
		t.Errorf("a rehearsal: %v, %s, %s", err, stdout, organizations())
	}
	stdout, _, err = run(t, append(there, "import", path)...)
	if err != nil || !strings.Contains(stdout, "CREATED") || organizations() != "A B" {
		t.Errorf("import: %v, %s, %s", err, stdout, organizations())
	}
	stdout, _, err = run(t, append(there, "import", path)...)
	if err == nil || !strings.Contains(stdout, "Not carried over") {
		t.Errorf("again: %v, %s", err, stdout)
	}
	stdout, _, err = run(t, append(there, "import", path, "--on-conflict", "skip", "--json")...)
	if got := read(stdout); err != nil || got.Outcomes[0].Skipped == "0" || got.Outcomes[0].Created != "0" {
		t.Errorf("skipping: %v, %s", err, stdout)
	}

	people := filepath.Join(dir, "people.csv")
	if err := os.WriteFile(people, []byte("username,email\nada,ada@people.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, _, err = run(t, append(there, "import", people, "--from", "csv", "--org-name", "People")...); err != nil || organizations() != "A B People" {
		t.Errorf("from a table: %v, %s, %s", err, stdout, organizations())
	}

	if _, _, err := run(t, append(as(c, "a.example", "nobody"), "export", "--output", filepath.Join(dir, "none.json"))...); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("without the role: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("there is %v, %v", left, err)
	}
}

func TestExportAndImportSayHowTheyAreUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--output is required":            {"export"},
		"give --recipient or":             {"export", "--output", "t.json.age"},
		"exclude each other":              {"export", "--output", "t.json", "--recipient", "age1x", "--passphrase-file", "p"},
		"this is not the public key":      {"export", "--output", "t.json", "--recipient", "age1x"},
		"accepts 1 arg":                   {"import"},
		"no such file":                    {"import", "nowhere.json"},
		"is not refuse, skip or update":   {"import", file, "--on-conflict", "merge"},
		"is none of auth0, csv, firebase": {"import", file, "--from", "okta"},
		"say where things belong":         {"import", file, "--org-name", "x"},
		"--url needs a token":             {"import", file, "--url", "http://127.0.0.1:1"},
		"is not the address of a server":  {"export", "--output", filepath.Join(t.TempDir(), "t"), "--url", "nowhere"},
	} {
		_, _, err := run(t, args...)
		if _, usage := errors.AsType[usageError](err); err == nil || !strings.Contains(err.Error(), want) || !usage && want != "accepts 1 arg" {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}
