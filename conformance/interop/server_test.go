// Package interop lets relying parties that nobody changed for us log in, use
// what they get and log out: go-oidc with golang.org/x/oauth2, and openid-client
// of npm. What one of them refuses is a failure, whatever the standards say.
//
// The provider is a `writ dev` of this commit. WRIT_TEST_BINARY names another
// program to start; WRIT_TEST_READY_FILE names the ready file of a running
// provider, ours or another (conformance/load/peer), whose keys are not rotated.
package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/interop/browser"
)

// provider is how to reach the provider: the content of its ready file.
type provider struct {
	Issuer      string            `json:"issuer"`
	ProjectID   string            `json:"project_id"`
	User        user              `json:"user"`
	ServiceUser client            `json:"service_user"`
	Clients     map[string]client `json:"clients"`

	program, dataDir string // of one that this package started
}

type user struct {
	LoginName string `json:"login_name"`
	Password  string `json:"password"`
	Email     string `json:"email"`
}

// client is a relying party or a service as it is registered.
type client struct {
	ClientID              string `json:"client_id"`
	ClientSecret          string `json:"client_secret,omitempty"`
	KeyFile               string `json:"key_file,omitempty"`
	RedirectURI           string `json:"redirect_uri,omitempty"`
	PostLogoutRedirectURI string `json:"post_logout_redirect_uri,omitempty"`
	// Of the peer, which is pickier about client_credentials than ours may be.
	Scope     string `json:"scope,omitempty"`
	BasicOnly bool   `json:"basic_only,omitempty"`
}

const (
	startLimit = time.Minute // the first start makes a database
	stopLimit  = 30 * time.Second
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shared returns the one provider of the test binary.
func shared(t *testing.T) *provider {
	t.Helper()
	p, err := theProvider()
	if err != nil {
		t.Fatalf("start a provider: %v", err)
	}
	return p
}

var theProvider = sync.OnceValues(func() (*provider, error) {
	if path := os.Getenv("WRIT_TEST_READY_FILE"); path != "" {
		return read(path)
	}
	return start()
})

func read(path string) (*provider, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &provider{}
	return p, json.Unmarshal(text, p)
}

// What this process started, to be taken away.
var started struct {
	server *exec.Cmd
	ended  chan error
	log    bytes.Buffer // read only once the server has ended
	dir    string
}

// start starts `writ dev` on a folder of its own.
func start() (*provider, error) {
	dir, err := os.MkdirTemp("", "writ-interop-")
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
	readyFile, dataDir := filepath.Join(dir, "ready.json"), filepath.Join(dir, "data")
	server := exec.Command(program, "dev", "--addr", "127.0.0.1:0", "--data-dir", dataDir, "--ready-file", readyFile, "--log-format", "json")
	server.Env = environment()
	server.Stderr = &started.log
	if err := server.Start(); err != nil {
		return nil, err
	}
	started.server, started.ended = server, make(chan error, 1)
	go func() { started.ended <- server.Wait() }()
	for limit := time.After(startLimit); ; {
		p, err := read(readyFile)
		if err == nil {
			p.program, p.dataDir = program, dataDir
			return p, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		select {
		case err := <-started.ended:
			started.server = nil
			return nil, fmt.Errorf("%s ended: %w\n%s", server, err, started.log.String())
		case <-limit:
			return nil, fmt.Errorf("%s is not ready after %s", server, startLimit)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// environment is ours without settings of the person who runs the tests.
func environment() (env []string) {
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "WRIT_") {
			env = append(env, variable)
		}
	}
	return env
}

// stop drains the server. An error that it logged is one here too (SEC-296).
func stop() (err error) {
	if started.server != nil {
		_ = started.server.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-started.ended:
		case <-time.After(stopLimit):
			_ = started.server.Process.Kill()
			err = errors.Join(errors.New("the server did not drain"), <-started.ended)
		}
		for line := range strings.Lines(started.log.String()) {
			var entry struct{ Level string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "ERROR" {
				err = errors.Join(err, fmt.Errorf("the server logged an error: %s", line))
			}
		}
	}
	if started.dir != "" {
		err = errors.Join(err, os.RemoveAll(started.dir))
	}
	return err
}

// rotating keeps tests from rotating at once: there is one next key at most.
var rotating sync.Mutex

// rotate makes a new signing key with the operator's command and has it sign. A
// key is published for ten minutes first, so the clock of the server is moved, and
// then put right again: clients have their own. It reports whether it could.
func (p *provider) rotate(ctx context.Context, algorithm string) (bool, error) {
	if p.dataDir == "" {
		return false, nil
	}
	rotating.Lock()
	defer rotating.Unlock()
	before, err := p.activeKey(ctx)
	if err != nil {
		return false, err
	}
	if _, err := p.keys(ctx, "rotate", "--algorithm", algorithm); err != nil {
		return false, err
	}
	if err := p.moveClock(ctx, `{"advance":"11m"}`); err != nil {
		return false, err
	}
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		now, err := p.activeKey(ctx)
		if err != nil {
			return false, err
		}
		if now != before {
			break
		}
		if time.Now().After(deadline) {
			return false, errors.New("the next key does not sign although its time has come")
		}
	}
	// A node reads its keys anew within a second.
	time.Sleep(1100 * time.Millisecond)
	return true, p.moveClock(ctx, `{"reset":true}`)
}

// keys runs `writ keys`.
func (p *provider) keys(ctx context.Context, args ...string) (string, error) {
	socket, err := filepath.EvalSymlinks(filepath.Join(p.dataDir, "sock")) // may be a link: the paths of sockets are short
	if err != nil {
		return "", err
	}
	database := url.URL{Scheme: "postgres", User: url.User("writ"), Path: "/postgres", RawQuery: url.Values{"host": {socket}}.Encode()}
	cmd := exec.CommandContext(ctx, p.program, append(append([]string{"keys"}, args...),
		"--database-url", database.String(), "--master-key-file", filepath.Join(p.dataDir, "master-key.json"))...)
	cmd.Env = environment()
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return string(output), nil
}

// activeKey returns the line of the key that signs.
func (p *provider) activeKey(ctx context.Context) (string, error) {
	list, err := p.keys(ctx, "list")
	for line := range strings.Lines(list) {
		if strings.Contains(line, "active") {
			return line, err
		}
	}
	return "", err
}

func (p *provider) moveClock(ctx context.Context, change string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Issuer+"/_dev/clock", strings.NewReader(change))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("POST /_dev/clock: %s", res.Status)
	}
	return nil
}

// browse returns a browser in front of which the user of the seed sits.
func (p *provider) browse() *browser.Agent {
	return browser.New(http.DefaultTransport, p.User.LoginName, p.User.Password)
}
