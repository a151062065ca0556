// Package interop lets relying parties that nobody changed for us log in, use
// what they get and log out: go-oidc with golang.org/x/oauth2, and openid-client
// of npm. What one of them refuses is a failure, whatever the standards say.
//
// The provider is a `writ dev` of this commit. WRIT_TEST_BINARY names another
// program to start; WRIT_TEST_READY_FILE names the ready file of a running
// provider, ours or another (conformance/load/peer), whose keys are not rotated.
package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/harness"
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

func TestMain(m *testing.M) { harness.Main(m) }

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
	d, err := harness.StartDev()
	if err != nil {
		return nil, err
	}
	p, err := read(d.ReadyFile)
	if err == nil {
		p.program, p.dataDir = d.Program, d.DataDir
	}
	return p, err
})

func read(path string) (*provider, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &provider{}
	return p, json.Unmarshal(text, p)
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
	cmd.Env = harness.Environment()
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
