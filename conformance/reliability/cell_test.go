package reliability

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/conformance/harness"
	"github.com/writ-id/writ/conformance/interop/browser"
)

// proxy leads all that is sent to a host to a node, as the one in front of cells does.
type proxy struct{ to atomic.Pointer[string] }

func (p *proxy) lead(node *harness.Server) { p.to.Store(&node.Addr) }

func (p *proxy) transport() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *p.to.Load())
	}}
}

// cell is an installation whose instance a proxy leads to.
type cell struct {
	*testing.T
	*harness.Server
	client *http.Client
}

// ask returns the status of a request, Retry-After and the answer.
func (c *cell) ask(method, path, authorization, contentType, body string) (status int, later string, answer map[string]any) {
	req, err := http.NewRequestWithContext(c.Context(), method, c.Issuer+path, strings.NewReader(body))
	if err != nil {
		c.Error(err)
		return 0, "", nil
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Content-Type", contentType)
	res, err := c.client.Do(req)
	if err != nil {
		c.Error(err)
		return 0, "", nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.Error(err)
	}
	_ = json.Unmarshal(text, &answer) // a page is none
	return res.StatusCode, res.Header.Get("Retry-After"), answer
}

func (c *cell) form(path string, values url.Values) (int, string, map[string]any) {
	web := c.Clients["web"]
	return c.ask(http.MethodPost, path, "Basic "+base64.StdEncoding.EncodeToString([]byte(web.ClientID+":"+web.ClientSecret)), "application/x-www-form-urlencoded", values.Encode())
}

func (c *cell) api(method, path, body string) (int, string, map[string]any) {
	return c.ask(method, "/resources/v3alpha"+path, "Bearer "+c.AdminToken, "application/json", body)
}

const verifier = "a-code-verifier-of-somebody-who-moves-that-is-long-enough"

// authorize goes through the pages, and returns the code.
func (c *cell) authorize(agent *browser.Agent, prompt string) string {
	c.Helper()
	challenge, web := sha256.Sum256([]byte(verifier)), c.Clients["web"]
	query := url.Values{
		"client_id": {web.ClientID}, "redirect_uri": {web.RedirectURI}, "response_type": {"code"}, "scope": {"openid profile offline_access"},
		"state": {"some-state"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	if prompt != "" {
		query.Set("prompt", prompt)
	}
	back, page, err := agent.Visit(c.Context(), c.Issuer+"/oauth/v2/authorize?"+query.Encode(), web.RedirectURI)
	if err != nil || back.Query().Get("code") == "" {
		c.Fatalf("the login ended at %v: %v\n%.500s", back, err, page)
	}
	return back.Query().Get("code")
}

// redeem exchanges a code for an access token and a refresh token.
func (c *cell) redeem(code string) (access, refresh string) {
	c.Helper()
	status, _, answer := c.form("/oauth/v2/token", url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.Clients["web"].RedirectURI}, "code_verifier": {verifier}})
	access, _ = answer["access_token"].(string)
	refresh, _ = answer["refresh_token"].(string)
	if status != http.StatusOK || access == "" || refresh == "" {
		c.Fatalf("redeeming the code: %d %v", status, answer)
	}
	return access, refresh
}

// keys returns the IDs of the published keys.
func (c *cell) keys() string {
	_, _, answer := c.ask(http.MethodGet, "/oauth/v2/keys", "", "", "")
	var ids []string
	list, _ := answer["keys"].([]any)
	for _, key := range list {
		ids = append(ids, fmt.Sprint(key.(map[string]any)["kid"]))
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// writer makes projects one after the other, and notes those that were answered.
type writer struct {
	mu      sync.Mutex
	made    []string
	refused int
	stop    atomic.Bool
	done    sync.WaitGroup
}

func (w *writer) start(c *cell) {
	w.done.Go(func() {
		for i := 0; !w.stop.Load(); i++ {
			name := fmt.Sprint("written while moving ", i)
			status, later, answer := c.api(http.MethodPost, "/projects", fmt.Sprintf(`{"name":%q}`, name))
			w.mu.Lock()
			switch {
			case status == http.StatusCreated:
				w.made = append(w.made, name)
			case status == http.StatusServiceUnavailable && later != "":
				w.refused++
			default:
				c.Errorf("a write while moving: %d, Retry-After %q, %v", status, later, answer)
			}
			w.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// until waits until so many more were made.
func (w *writer) until(c *cell, more int) {
	count := func() int { w.mu.Lock(); defer w.mu.Unlock(); return len(w.made) }
	for before, deadline := count(), time.Now().Add(time.Minute); count() < before+more; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) || c.Failed() {
			c.Fatal("nothing is written any more")
		}
	}
}

// system is what both cells have above their instances.
const system = `
system: {}
`

// emptyCell starts a node on an empty database of another PostgreSQL, with another master
// key, and returns both.
func emptyCell(t *testing.T, of *harness.Server) (node *harness.Server, database string) {
	t.Helper()
	other := harness.Own(t)
	address, err := other.DatabaseURL()
	if err != nil || address == "" {
		t.Skip("the database is out of reach", err)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE cell"); err != nil {
		t.Fatal(err)
	}
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Path = "/cell"
	_, port, err := net.SplitHostPort(of.Addr)
	if err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(seed, []byte(system), 0o600); err != nil {
		t.Fatal(err)
	}
	return other.Node(t, "--outgoing-allow", "127.0.0.0/8", "--seed", seed, "--database-url", parsed.String(), "--pooler-url", "", "--migrate", "--external-scheme", "http", "--external-port", port), parsed.String()
}

// TestREL064_AnInstanceMovesToAnotherCellWithSessionsAndTokens moves an instance from one
// PostgreSQL to another while somebody writes. What was answered is there, and whoever was
// signed in still is: with the session of the browser, tokens and keys.
func TestREL064_AnInstanceMovesToAnotherCellWithSessionsAndTokens(t *testing.T) {
	source := harness.Own(t)
	from, err := source.DatabaseURL()
	if err != nil || from == "" {
		t.Skip("the database is out of reach", err)
	}
	target, to := emptyCell(t, source)
	var front proxy
	front.lead(source)
	c := &cell{T: t, Server: source, client: &http.Client{Transport: front.transport(), Timeout: 20 * time.Second}}
	move := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), harness.Program(t), append([]string{"move-instance", "--from", from, "--to", to, "--instance", source.InstanceID,
			"--master-key-file", source.MasterKeyFile(), "--to-master-key-file", target.MasterKeyFile()}, args...)...)
		cmd.Env = harness.Environment()
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		err := cmd.Run()
		return output.String(), err
	}

	agent := browser.New(front.transport(), source.User.LoginName, source.User.Password)
	access, refresh := c.redeem(c.authorize(agent, ""))
	pending := c.authorize(agent, "none")
	keys := c.keys()

	// Who hears of projects hears of each once, from the one cell or the other.
	receiver := newReceiver(t)
	_, _, answer := c.api(http.MethodPost, "/targets", fmt.Sprintf(`{"name":"receiver","restWebhook":{"url":%q},"timeout":"10s"}`, receiver.URL))
	details, _ := answer["details"].(map[string]any)
	if status, _, answer := c.api(http.MethodPost, "/executions", fmt.Sprintf(`{"condition":{"event":{"event":"project.added"}},"targets":["%s"]}`, details["id"])); status >= 300 {
		t.Fatal(status, answer)
	}

	var w writer
	defer func() { w.stop.Store(true); w.done.Wait() }()
	w.start(c)
	w.until(c, 5)
	output, err := move("--rehearse")
	if err != nil || !strings.Contains(output, "rehearsed: nothing was changed") || strings.Contains(output, "differ") {
		t.Fatalf("the rehearsal: %v\n%s", err, output)
	}
	w.until(c, 5)
	w.mu.Lock()
	if w.refused > 0 {
		t.Errorf("%d writes were refused during the rehearsal", w.refused)
	}
	w.mu.Unlock()
	if output, err = move(); err != nil {
		t.Fatalf("the move: %v\n%s", err, output)
	}
	t.Log(output)

	gone := &cell{T: t, Server: source, client: http.DefaultClient}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if status, later, _ := gone.ask(http.MethodGet, "/.well-known/openid-configuration", "", "", ""); status == http.StatusServiceUnavailable && later != "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the source serves what has moved")
		}
	}
	front.lead(target)
	w.until(c, 5)
	w.stop.Store(true)
	w.done.Wait()

	status, _, answer := c.api(http.MethodPost, "/projects/_search?query.limit=1000", "[]")
	list, err := json.Marshal(answer)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, answer, err)
	}
	for _, name := range w.made {
		if !bytes.Contains(list, []byte(`"`+name+`"`)) {
			t.Errorf("%q was answered, and is lost", name)
		}
	}
	heard := func() int { receiver.mu.Lock(); defer receiver.mu.Unlock(); return len(receiver.ids) }
	for deadline := time.Now().Add(time.Minute); heard() < len(w.made) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	receiver.mu.Lock()
	if len(receiver.ids) != len(w.made) || len(receiver.wrong) > 0 {
		t.Errorf("of %d events %d were delivered; %v", len(w.made), len(receiver.ids), receiver.wrong)
	}
	receiver.mu.Unlock()
	t.Logf("%d writes, %d of them refused", len(w.made)+w.refused, w.refused)
	if got := c.keys(); got != keys || keys == "" {
		t.Errorf("the keys are %s, want %s", got, keys)
	}
	if status, _, answer := c.form("/oauth/v2/introspect", url.Values{"token": {access}}); status != http.StatusOK || answer["active"] != true {
		t.Errorf("a token of before: %d %v", status, answer)
	}
	if status, _, answer := c.ask(http.MethodGet, "/oidc/v1/userinfo", "Bearer "+access, "", ""); status != http.StatusOK || answer["sub"] == nil {
		t.Errorf("userinfo with a token of before: %d %v", status, answer)
	}
	if status, _, answer := c.form("/oauth/v2/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}); status != http.StatusOK {
		t.Errorf("a refresh token of before: %d %v", status, answer)
	}
	c.redeem(pending)
	agent.Answers = map[string]string{} // who is asked for a password has none
	c.redeem(c.authorize(agent, "none"))

	if output, err := move("--delete-source"); err != nil {
		t.Errorf("deleting at the source: %v\n%s", err, output)
	}
	if status, _, answer := c.api(http.MethodGet, "/projects/none", ""); status != http.StatusNotFound {
		t.Errorf("the target serves no more: %d %v", status, answer)
	}
}
