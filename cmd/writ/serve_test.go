package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/writ-id/writ/impl/secret"
)

func TestTheMasterKeyComesFromAFileOrTheEnvironment(t *testing.T) {
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
		wantNone, wrong   bool
	}{
		{"none", nil, nil, true, false},
		{"a file", []string{"--master-key-file", file}, nil, false, false},
		{"a variable", nil, []string{"WRIT_MASTER_KEY=" + string(key)}, false, false},
		{"a file in a variable", nil, []string{"WRIT_MASTER_KEY_FILE=" + file}, false, false},
		{"no key", nil, []string{"WRIT_MASTER_KEY=c2hvcnQ="}, false, true},
		{"no file", []string{"--master-key-file", file + "x"}, nil, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := newRoot()
			serve, _, err := root.Find([]string{"serve"})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(serve.ParseFlags(test.args), bindEnvironment(root, serve, test.environment)); err != nil {
				t.Fatal(err)
			}
			sealer, err := readSealer(serve.Flag("master-key").Value.String(), serve.Flag("master-key-file").Value.String())
			if (err != nil) != test.wrong {
				t.Fatalf("got %v", err)
			}
			if _, none := sealer.(secret.NoKey); none != test.wantNone {
				t.Errorf("got %T", sealer)
			}
		})
	}
}

func TestTheMasterKeyIsExchangedInSteps(t *testing.T) {
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
