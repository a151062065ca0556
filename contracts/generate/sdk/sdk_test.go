package main

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const root = "../../.."

func modelOf(t *testing.T, name string) *model {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The sample has an operation of each shape, and a field of each kind.
func TestSample(t *testing.T) {
	t.Parallel()
	m := modelOf(t, "testdata/sample.openapi.json")
	m.Reasons = []string{"THING_NAME_TAKEN"}
	files, err := packages(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"go/types.go", "go/services.go", "go/reasons.go", "go/examples/examples.go", "typescript/src/types.ts", "typescript/src/services.ts", "typescript/examples/examples.ts",
		"python/src/writ/types.py", "python/src/writ/_async/services.py", "python/src/writ/_sync/services.py", "python/examples/examples.py",
	} {
		golden := filepath.Join("testdata", strings.ReplaceAll(name, "/", "_")+".golden")
		if *update {
			if err := os.WriteFile(golden, files[name], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(files[name])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestThePackagesAreOfThisContract(t *testing.T) {
	t.Parallel()
	m := modelOf(t, root+"/gen/openapi/openapi.json")
	var err error
	if m.Reasons, err = reasons(root + "/contracts/reasons.txt"); err != nil {
		t.Fatal(err)
	}
	files, err := packages(m)
	if err != nil {
		t.Fatal(err)
	}
	module, err := moduleFiles(root, m)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range module {
		files["go/"+name] = content
	}
	for name, want := range files {
		if got, err := os.ReadFile(root + "/gen/sdk/" + name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("gen/sdk/%s is not what the contract makes (%v): run make generate", name, err)
		}
	}
	calls := 0
	for _, s := range m.Services {
		calls += len(s.Operations)
	}
	if calls < 200 || len(m.Types) < 400 || len(files) < 40 {
		t.Errorf("got %d calls, %d types and %d files", calls, len(m.Types), len(files))
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, test := range [][4]string{
		{"inIds", "in_ids", "inIds", "InIDs"},
		{"CreateGitHubESIDP", "create_github_es_idp", "createGithubEsIdp", "CreateGitHubESIDP"},
		{"AddOTPSMS", "add_otp_sms", "addOtpSms", "AddOTPSMS"},
		{"SearchUserIDPLinks", "search_user_idp_links", "searchUserIdpLinks", "SearchUserIDPLinks"},
		{"OAuth", "oauth", "oauth", "OAuth"},
		{"post_logout_redirect_uri", "post_logout_redirect_uri", "postLogoutRedirectUri", "PostLogoutRedirectURI"},
	} {
		if got := [4]string{test[0], snake(test[0]), camel(test[0]), exported(test[0])}; got != test {
			t.Errorf("got %q, want %q", got, test)
		}
	}
	for version, want := range map[string]string{"3.0.0": "3.0.0", "3.0.0-alpha": "3.0.0a0", "3.1.0-rc.2": "3.1.0rc2"} {
		if got := pythonVersion(version); got != want {
			t.Errorf("Python writes %s as %s, want %s", version, got, want)
		}
	}
}

func TestNamesThatWouldMeetAreRefused(t *testing.T) {
	t.Parallel()
	_, err := read([]byte(`{"components": {"schemas": {"AppV3alphaThing": {"type": "object"}, "AppThing": {"type": "object"}}}}`))
	if err == nil || !strings.Contains(err.Error(), "AppThing") {
		t.Errorf("got %v", err)
	}
}

// TestEveryReasonIsListed finds what the server refuses with: reasons that it writes out, not
// those that it makes of the names of columns, and not those of /_dev, which clients of the
// contract do not meet.
func TestEveryReasonIsListed(t *testing.T) {
	t.Parallel()
	listed, err := reasons(root + "/contracts/reasons.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(listed) {
		t.Error("contracts/reasons.txt is not sorted")
	}
	refuses := regexp.MustCompile(`fault\.(?:[A-Z][A-Za-z]+)\((?:fault\.[A-Za-z]+,\s*)?"([A-Z][A-Z0-9_]+)"|&?(?:fault\.Error|Refusal)\{[^}]*Reason:\s*"([A-Z][A-Z0-9_]+)"`)
	found := map[string]string{}
	err = filepath.WalkDir(root+"/impl", func(path string, entry os.DirEntry, err error) error {
		name := filepath.Base(path)
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "dev") || strings.Contains(filepath.ToSlash(path), "/impl/dev/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range refuses.FindAllSubmatch(text, -1) {
			found[string(match[1])+string(match[2])] = path
		}
		return err
	})
	worded := regexp.MustCompile(`(?m)^ +reason: "([A-Z][A-Z0-9_]+)"$`) // of constraints (writ.storage.v1.Refused)
	contracts, globErr := filepath.Glob(root + "/contracts/proto/writ/*/v3alpha/*.proto")
	for _, path := range contracts {
		text, readErr := os.ReadFile(path)
		err = errors.Join(err, globErr, readErr)
		for _, match := range worded.FindAllSubmatch(text, -1) {
			found[string(match[1])] = path
		}
	}
	if err != nil || len(found) < 100 {
		t.Fatalf("got %d reasons, %v", len(found), err)
	}
	for _, reason := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(listed, reason) {
			t.Errorf("%s refuses with %s, which contracts/reasons.txt does not list: add it, in order", found[reason], reason)
		}
	}
}
