package check

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/store/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestWhatTheComposeFileRunsWorksAtTheFirstTryAndAgain runs its commands one after the other on
// this machine, with folders for volumes: the secrets, the master key, and a node, twice.
func TestWhatTheComposeFileRunsWorksAtTheFirstTryAndAgain(t *testing.T) {
	t.Parallel()
	asRoot(t) // the secrets get their owners
	out := must(t, tool(t, "bin/compose"), "-format", "json", filepath.Join(root, "deploy/compose/compose.yaml"))
	var project struct {
		Services map[string]struct {
			Entrypoint, Command []string
			Environment         map[string]string
			Healthcheck         struct{ Test []string }
		}
	}
	if err := json.Unmarshal([]byte(out), &project); err != nil {
		t.Fatal(err)
	}
	volume, writ := t.TempDir(), tool(t, "bin/writ")
	here := strings.NewReplacer("/secrets", volume, "/transfers", t.TempDir(), "/etc/writ/seed.yaml", filepath.Join(root, "deploy/compose/seed.yaml"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	database := pgtest.Empty(t)
	var made map[string]string
	for round := range 2 {
		secrets := project.Services["secrets"]
		script := here.Replace(strings.ReplaceAll(secrets.Command[0], "$$", "$"))
		must(t, append(append([]string{}, secrets.Entrypoint...), script)...)
		key := append([]string{writ}, project.Services["master-key"].Command...)
		for i := range key {
			key[i] = here.Replace(key[i])
		}
		must(t, key...)
		now := map[string]string{}
		for name, uid := range map[string]uint32{"database-url": 65532, "database-password": 999, "master-key.json": 0} { // the last by who ran it
			info, err := os.Stat(filepath.Join(volume, name))
			if err != nil {
				t.Fatal(err)
			}
			if owner := info.Sys().(*syscall.Stat_t).Uid; owner != uid || info.Mode().Perm() != 0o600 {
				t.Errorf("%s belongs to %d and has the mode %s", name, owner, info.Mode())
			}
			text, err := os.ReadFile(filepath.Join(volume, name))
			if err != nil {
				t.Fatal(err)
			}
			now[name] = string(text)
		}
		if len(now["database-password"]) != 64 || now["database-url"] != fmt.Sprintf("postgres://writ:%s@database:5432/writ", now["database-password"]) {
			t.Fatalf("got %q", now)
		}
		if made != nil && fmt.Sprint(made) != fmt.Sprint(now) {
			t.Fatal("the second start made other secrets")
		}
		made = now

		// The database of the test has another name; the rest is as the file says.
		node := project.Services["writ"]
		cmd := exec.Command(writ, append(append([]string{}, node.Command...), "--addr", address, "--drain-delay", "0s")...)
		for name, value := range node.Environment {
			if name != "WRIT_DATABASE_URL_FILE" {
				cmd.Env = append(cmd.Env, name+"="+here.Replace(value))
			}
		}
		cmd.Env = append(cmd.Env, "WRIT_DATABASE_URL="+database)
		var log strings.Builder
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for ready := false; !ready; {
			_, err := executeWith(t, []string{"WRIT_ADDR=" + address}, writ, "ready") // the image's health check
			ready = err == nil
			select {
			case err := <-ended:
				t.Fatalf("the node ended: %v\n%s", err, log.String())
			case <-time.After(50 * time.Millisecond):
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatalf("%v\n%s", err, log.String())
		}
		// The credentials are in a file, and no log has them.
		generated := filepath.Join(volume, "generated.json")
		info, err := os.Stat(generated)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(generated)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, mode %s", err, info.Mode())
		}
		var credentials map[string]string
		if err := json.Unmarshal(text, &credentials); err != nil || len(credentials) != 2 {
			t.Errorf("start %d: generated were %q: %v", round+1, text, err)
		}
		for path, secret := range credentials {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log has %s", path)
			}
		}
	}
}
