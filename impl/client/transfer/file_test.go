package transfer_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/writ-id/writ/impl/client/transfer"
)

// keys makes keys of both kinds, and those of somebody else.
func keys(t *testing.T) map[string][2]transfer.Keys {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	private, passphrase := write("key.txt", "# a comment\n"+identity.String()+"\n"), write("passphrase", "correct horse\nnot this\n")
	return map[string][2]transfer.Keys{
		"recipient":  {{Recipients: []string{identity.Recipient().String()}}, {Identity: private}},
		"passphrase": {{Passphrase: passphrase}, {Passphrase: passphrase}},
	}
}

func wrap(t *testing.T, name string, with transfer.Keys, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := transfer.Create(path, with, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Discard()
	if _, err := io.WriteString(out, content); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is there before its end", name)
	}
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	return path
}

func unwrap(t *testing.T, path string, with transfer.Keys) (string, error) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := transfer.Unwrap(file, with)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(plain)
	return string(text), err
}

func TestAFileIsReadByItsContentWhateverItsName(t *testing.T) {
	t.Parallel()
	content := `{"users":[` + strings.Repeat(`{"id":"somebody"},`, 100000) + `{}]}`
	all := keys(t)
	all[""] = [2]transfer.Keys{}
	for kind, pair := range all {
		for _, name := range []string{"t.json", "t.json.gz", "t.json.zst", "t.json.zst.age", "t"} {
			if kind == "" && strings.HasSuffix(name, ".age") || kind == "passphrase" && name != "t.json.zst.age" { // scrypt takes its time
				continue
			}
			path := wrap(t, name, pair[0], content)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if packed := strings.Contains(name, ".gz") || strings.Contains(name, ".zst"); packed != (info.Size() < int64(len(content)/10)) {
				t.Errorf("%s has %d bytes", name, info.Size())
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has the mode %v", name, info.Mode())
			}
			other := filepath.Join(t.TempDir(), "other.name")
			if err := os.Rename(path, other); err != nil {
				t.Fatal(err)
			}
			if got, err := unwrap(t, other, pair[1]); err != nil || got != content {
				t.Errorf("%s %s: got %d bytes, %v", kind, name, len(got), err)
			}
		}
	}
}

func TestAnEncryptedFileNeedsItsKey(t *testing.T) {
	t.Parallel()
	mine, others := keys(t), keys(t)
	if err := os.WriteFile(others["passphrase"][1].Passphrase, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, pair := range mine {
		path := wrap(t, "t.json.zst.age", pair[0], `{"users":["nobody sees this"]}`)
		text, err := os.ReadFile(path)
		if err != nil || bytes.Contains(text, []byte("nobody")) {
			t.Errorf("%s: it is not encrypted (%v)", kind, err)
		}
		for what, with := range map[string]transfer.Keys{"give --identity or --passphrase-file": {}, "for somebody else, or with another passphrase": others[kind][1]} {
			if _, err := unwrap(t, path, with); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: got %v, want %q", kind, err, what)
			}
		}
	}
	if _, err := transfer.Create(filepath.Join(t.TempDir(), "t.json.age"), transfer.Keys{}, nil); err == nil || !strings.Contains(err.Error(), "--recipient") {
		t.Errorf("without a key: got %v", err)
	}
}

func TestAFileThatWasCutIsNoFile(t *testing.T) {
	t.Parallel()
	content := `{"users":[` + strings.Repeat(`{"id":"somebody"},`, 1000) + `{}]}`
	for _, name := range []string{"t.json.gz", "t.json.zst", "t.json.age"} {
		pair := [2]transfer.Keys{}
		if strings.HasSuffix(name, ".age") {
			pair = keys(t)["recipient"]
		}
		path := wrap(t, name, pair[0], content)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-5); err != nil {
			t.Fatal(err)
		}
		if got, err := unwrap(t, path, pair[1]); err == nil {
			t.Errorf("%s: got %d bytes and no error", name, len(got))
		}
	}
}

func TestADiscardedFileLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"t.json", "t.json.gz", "t.json.zst", "t.json.age"} {
		out, err := transfer.Create(filepath.Join(dir, name), keys(t)["recipient"][0], nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(out, strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
		out.Discard()
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v", left, err)
	}
}
