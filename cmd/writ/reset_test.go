package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/dev/ready"
)

// devOnce runs writ dev until it is ready, and returns what it tells.
func devOnce(t *testing.T, args ...string) ready.Info {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	cmd, _ := writ(t, append([]string{"dev", "--addr", "127.0.0.1:0", "--ready-file", file}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var info ready.Info
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			if err := json.Unmarshal(text, &info); err != nil {
				t.Fatalf("the ready file is not whole: %v", err)
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("it ended: %v", err)
	}
	return info
}

func TestResetBeginsAnewAndLeavesOtherFilesAlone(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "wx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	mine := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, again := devOnce(t, "--data-dir", dir), devOnce(t, "--data-dir", dir)
	if first.InstanceID != again.InstanceID || first.AdminToken != again.AdminToken {
		t.Error("what was there is not kept")
	}
	anew := devOnce(t, "--data-dir", dir, "--reset")
	if anew.InstanceID == first.InstanceID || anew.AdminToken == first.AdminToken || anew.User.Password == first.User.Password {
		t.Error("it did not begin anew")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("somebody's file is gone: %v", err)
	}
	cmd, _ := writ(t, "dev", "--reset")
	if output, err := cmd.CombinedOutput(); codeOf(err) != 2 || !strings.Contains(string(output), "--data-dir") {
		t.Errorf("without a folder: %v: %s", err, output)
	}
}
