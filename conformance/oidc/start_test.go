package oidc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The provider under test is a `writ dev --tls` of this commit, unless a variable
// names a running one:
//
//	WRIT_OIDC_CONFIG      its configuration; any provider
//	WRIT_TEST_READY_FILE  the ready file of a `writ dev`
//	WRIT_TEST_BINARY      the program to start, instead of building one
//
// WRIT_OIDC_RESULTS names the file that the results go to, as Markdown.
//
// The suite starts the program itself, because package harness starts it without
// TLS and the plans require https.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopServer(); err != nil {
		fmt.Fprintln(os.Stderr, "oidc:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

var started struct {
	dir   string
	cmd   *exec.Cmd
	log   bytes.Buffer // to be read once ended is closed
	ended chan struct{}
}

var config = sync.OnceValues(func() (*Config, error) {
	for _, name := range []string{"WRIT_OIDC_CONFIG", "WRIT_TEST_READY_FILE"} {
		if path := os.Getenv(name); path != "" {
			return Load(path)
		}
	}
	return startServer()
})

// provider returns a copy of the configuration of the provider under test.
func provider(t *testing.T) *Config {
	t.Helper()
	c, err := config()
	if err != nil {
		t.Fatalf("start a provider: %v", err)
	}
	own := *c
	own.FromEnvironment()
	own.Clients = map[string]*Client{}
	for role, client := range c.Clients {
		copied := *client
		own.Clients[role] = &copied
	}
	if c.Service != nil {
		copied := *c.Service
		own.Service = &copied
	}
	return &own
}

func startServer() (*Config, error) {
	dir, err := os.MkdirTemp("", "writ-oidc-")
	if err != nil {
		return nil, err
	}
	started.dir = dir
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL runs as another user when this one is root
		return nil, err
	}
	program := os.Getenv("WRIT_TEST_BINARY")
	if program == "" {
		program = filepath.Join(dir, "writ")
		if output, err := exec.Command("go", "build", "-o", program, "github.com/writ-id/writ/cmd/writ").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build: %w\n%s", err, output)
		}
	}
	ready := filepath.Join(dir, "ready.json")
	cmd := exec.Command(program, "dev", "--tls", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"), "--ready-file", ready, "--log-format", "json")
	for _, variable := range os.Environ() { // settings of the person who runs the tests are not its
		if !strings.HasPrefix(variable, "WRIT_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Stderr = &started.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	started.cmd, started.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says why
		close(started.ended)
	}()
	limit := time.After(60 * time.Second) // the first start makes a database
	for {
		if c, err := Load(ready); err == nil {
			return c, nil
		}
		select {
		case <-started.ended:
			return nil, fmt.Errorf("%s: %s\n%s", cmd, cmd.ProcessState, started.log.String())
		case <-limit:
			return nil, fmt.Errorf("%s is not ready after a minute", cmd)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopServer ends the server. It is an error when that logged one, which no
// request may cause (SEC-296).
func stopServer() error {
	defer func() { _ = os.RemoveAll(started.dir) }()
	if started.cmd == nil {
		return nil
	}
	select {
	case <-started.ended:
		log := started.log.String()
		return fmt.Errorf("%s ended by itself: %s\n%s", started.cmd, started.cmd.ProcessState, log[max(0, len(log)-4000):])
	default:
	}
	if err := started.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-started.ended:
	case <-time.After(30 * time.Second):
		_ = started.cmd.Process.Kill()
		<-started.ended
		return fmt.Errorf("%s did not drain within 30 s\n%s", started.cmd, started.log.String())
	}
	for line := range strings.Lines(started.log.String()) {
		var entry struct{ Level string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "ERROR" {
			return fmt.Errorf("the server logged an error: %s", line)
		}
	}
	return nil
}
