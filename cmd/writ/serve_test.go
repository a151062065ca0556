package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/secret"
)

func TestSEC311_TheMasterKeyComesFromAFileOrTheEnvironment(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := newMasterKey(file); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name              string
		args, environment []string
		wrong             string
	}{
		{"none", nil, nil, "no master key"},
		{"a file", []string{"--master-key-file", file}, nil, ""},
		{"a variable", nil, []string{"WRIT_MASTER_KEY=" + string(key)}, ""},
		{"a file in a variable", nil, []string{"WRIT_MASTER_KEY_FILE=" + file}, ""},
		{"no key", nil, []string{"WRIT_MASTER_KEY=c2hvcnQ="}, "not a Tink keyset"},
		{"no file", []string{"--master-key-file", file + "x"}, nil, "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := newRoot()
			serve, _, err := root.Find([]string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			// No PostgreSQL is there: with a key that is where it ends.
			args := slices.Concat(test.args, []string{"--addr", "127.0.0.1:0", "--database-url", "postgres://127.0.0.1:1/none"})
			if err := errors.Join(serve.ParseFlags(args), bindEnvironment(root, serve, test.environment)); err != nil {
				t.Fatal(err)
			}
			serve.SetContext(t.Context())
			err = serve.RunE(serve, nil)
			want := test.wrong
			if want == "" {
				want = "database"
			}
			if _, usage := errors.AsType[usageError](err); err == nil || usage != (test.wrong != "") || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to say %q", err, want)
			}
		})
	}
}

func TestSEC311_TheMasterKeyIsExchangedInSteps(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := newMasterKey(file); err != nil {
		t.Fatal(err)
	}
	if err := newMasterKey(file); err == nil {
		t.Error("a key that is there was overwritten")
	}
	read := func() *secret.MasterKey {
		t.Helper()
		key, err := readMasterKey("", file)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	step := func(name string, wrong bool) {
		t.Helper()
		root := newRoot()
		root.SetArgs([]string{"keys", "rotate-master", name, "--master-key-file", file})
		if err := root.ExecuteContext(t.Context()); (err != nil) != wrong {
			t.Fatalf("%s: got %v", name, err)
		}
	}
	old, err := read().Seal([]byte("x"), "place")
	if err != nil {
		t.Fatal(err)
	}
	step("switch", true) // there is nothing to switch to
	step("add", false)
	step("add", true)
	step("drop", true) // the old key still seals
	before := read()
	step("switch", false)
	after := read()
	anew, err := after.Seal([]byte("x"), "place")
	if err != nil {
		t.Fatal(err)
	}
	for name, sealed := range map[string][]byte{"old": old, "new": anew} {
		for node, key := range map[string]*secret.MasterKey{"a node that is not restarted yet": before, "one that is": after} {
			if plain, err := key.Open(sealed, "place"); err != nil || string(plain) != "x" {
				t.Errorf("%s cannot open what the %s key sealed: %v", node, name, err)
			}
		}
	}
	step("drop", false)
	if _, err := read().Open(anew, "place"); err != nil {
		t.Errorf("what the new key sealed does not open: %v", err)
	}
	if _, err := read().Open(old, "place"); err == nil {
		t.Error("what only the old key sealed still opens")
	}
}

func TestWhatIsNoCommandIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, `there is no command "writ nonsense"; see writ --help`},
		{[]string{"serv"}, "or serve?"},
		{[]string{"keys", "rotat"}, "did you mean rotate or"},
		{[]string{"keys", "rotate-master", "x"}, "see writ keys rotate-master --help"},
		{[]string{"serve", "now"}, "unknown command"},
	} {
		root := newRoot()
		root.SetArgs(test.args)
		err := root.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q", test.args, err, test.want)
		}
	}
}

// Nobody can be told to run a server whose password hashes protect nobody.
func TestSEC182_OnlyDevMakesCheapPasswordHashes(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"serve", "exec"} {
		cmd, _ := writ(t, command, "--password-cost", "minimal")
		if output, err := cmd.CombinedOutput(); codeOf(err) != 2 || !strings.Contains(string(output), "unknown flag: --password-cost") {
			t.Errorf("%s: got %v, %s; want a refusal", command, err, output)
		}
	}
	cmd, _ := writ(t, "dev", "--password-cost", "cheaper")
	if output, err := cmd.CombinedOutput(); codeOf(err) != 2 || !strings.Contains(string(output), `"cheaper" is not minimal`) {
		t.Errorf("dev: got %v, %s; want a refusal", err, output)
	}
}
