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
	key := secret.NewKey()
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name              string
		args, environment []string
		wantNone, wrong   bool
	}{
		{"none", nil, nil, true, false},
		{"a file", []string{"--master-key-file", file}, nil, false, false},
		{"a variable", nil, []string{"WRIT_MASTER_KEY=" + key}, false, false},
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
