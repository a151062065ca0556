// Package webhook holds the signatures of calls of targets to the libraries for Standard
// Webhooks as npm and PyPI have them: receivers of ten lines, those of the page
// /docs/executions, verify what a real server sends, and nothing else.
package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/harness"
	"github.com/writ-id/writ/conformance/interop/npm"
)

func TestMain(m *testing.M) { harness.Main(m) }

// program starts a receiver.
type program struct {
	file string
	args func(t *testing.T) []string
}

var programs = map[string]program{
	"node": {"node/receiver.js", func(t *testing.T) []string {
		dir, err := npm.Install("node", "webhook")
		if err != nil {
			t.Fatal(err)
		}
		return []string{"node", filepath.Join(dir, "receiver.js")}
	}},
	"python": {"python/receiver.py", func(t *testing.T) []string {
		return []string{filepath.Join(virtualenv(t), "bin", "python3"), "-u", "python/receiver.py"}
	}},
}

// virtualenv has what python/requirements.txt says, in the folder for such things of
// the checkout.
func virtualenv(t *testing.T) string {
	t.Helper()
	wanted, err := os.ReadFile("python/requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("../../../.cache/webhook-python")
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(dir, "requirements.txt")
	if installed, err := os.ReadFile(mark); err == nil && bytes.Equal(installed, wanted) {
		return dir
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "-r", "python/requirements.txt"},
	} {
		if output, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s (apt-get install python3-venv): %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	if err := os.WriteFile(mark, wanted, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// receiver is a running one.
type receiver struct {
	url string
	mu  sync.Mutex
	out bytes.Buffer
}

// Write implements io.Writer for what it prints.
func (r *receiver) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *receiver) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// start starts a receiver with a key, until the test ends.
func (p program) start(t *testing.T, key string) *receiver {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + address}
	args := p.args(t)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "SIGNING_KEY="+key, "PORT="+port)
	cmd.Stdout, cmd.Stderr = r, r
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	eventually(t, "the receiver does not listen: "+strings.Join(args, " "), func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return r
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// call is what the server sent.
type call struct {
	header http.Header
	body   []byte
	status int // that the receiver answered
}

// desk stands between the server and a receiver, and keeps what passes.
type desk struct {
	*httptest.Server
	mu   sync.Mutex
	to   *receiver
	seen []call
}

func newDesk(t *testing.T) *desk {
	d := &desk{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		d.mu.Lock()
		to := d.to
		d.mu.Unlock()
		status, err := to.send(req.Header, body)
		if err != nil {
			status = http.StatusBadGateway
		}
		d.mu.Lock()
		d.seen = append(d.seen, call{req.Header, body, status})
		d.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *desk) leadTo(r *receiver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = r
}

// find returns the first call whose body has a text.
func (d *desk) find(text string) (call, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.seen {
		if bytes.Contains(one.body, []byte(text)) {
			return one, true
		}
	}
	return call{}, false
}

// send calls a receiver and returns its status.
func (r *receiver) send(header http.Header, body []byte) (int, error) {
	req, err := http.NewRequest(http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// api makes calls as the administrator.
type api struct {
	*testing.T
	server *harness.Server
}

func (a api) post(path, body string) (status int, answer map[string]any) {
	a.Helper()
	req, err := http.NewRequest(http.MethodPost, a.server.Issuer+"/resources/v3alpha/"+path, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.server.AdminToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.Fatal(err)
	}
	err = json.NewDecoder(res.Body).Decode(&answer)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		a.Fatalf("%s: %v", path, err)
	}
	return res.StatusCode, answer
}

func (a api) must(path, body string) map[string]any {
	a.Helper()
	status, answer := a.post(path, body)
	if status/100 != 2 {
		a.Fatalf("%s %s: got %d %v", path, body, status, answer)
	}
	return answer
}

func text(answer map[string]any, path ...string) string {
	var at any = answer
	for _, name := range path {
		at = at.(map[string]any)[name]
	}
	return fmt.Sprint(at)
}

// TestTheLibrariesOfStandardWebhooksVerifyUs: events and requests, with the key that the
// target was made with, with the old and the new one while a rotation lasts, and with
// nothing else.
func TestTheLibrariesOfStandardWebhooksVerifyUs(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			d, a := newDesk(t), api{t, harness.Own(t)}
			target := a.must("targets", `{"name":"t","restWebhook":{"url":"`+d.URL+`"},"timeout":"10s","interruptOnError":true}`)
			id, first := text(target, "details", "id"), text(target, "signingKey")
			r := program.start(t, first)
			d.leadTo(r)

			// An event.
			a.must("executions", `{"condition":{"event":{"event":"project.added"}},"targets":["`+id+`"]}`)
			a.must("projects", `{"name":"Müller & Söhne <1>"}`)
			eventually(t, "the event is not delivered", func() bool { _, ok := d.find("Söhne"); return ok })
			event, _ := d.find("Söhne")
			if event.status != http.StatusNoContent || !strings.Contains(r.printed(), "Müller & Söhne <1>") {
				t.Fatalf("%d for %s %s; the receiver printed %s", event.status, event.header, event.body, r.printed())
			}
			tamper(t, r, event)

			// A request: the call depends on the receiver.
			a.must("executions", `{"condition":{"request":{"method":"/writ.org.v3alpha.ServiceOrganizations/CreateOrganization"}},"targets":["`+id+`"]}`)
			organizations := 0
			try := func(to *receiver, want bool) {
				t.Helper()
				d.leadTo(to)
				organizations++
				status, answer := a.post("organizations", fmt.Sprintf(`{"name":"O%d"}`, organizations))
				if refused := status == http.StatusBadRequest && strings.Contains(fmt.Sprint(answer), "EXECUTION_FAILED"); want != (status == http.StatusCreated) || !want && !refused {
					t.Errorf("organization %d: got %d %v, want it verified: %t", organizations, status, answer, want)
				}
			}
			foreign := program.start(t, "whsec_"+strings.Repeat("QUJD", 8))
			try(r, true)
			try(foreign, false)

			// A rotation with an overlap, one that ends at once.
			second := text(a.must("targets/"+id+"/_rotate_signing_key", `{"overlap":"3600s"}`), "signingKey")
			r2 := program.start(t, second)
			try(r, true)
			try(r2, true)
			try(foreign, false)
			call, _ := d.find(fmt.Sprintf(`"O%d"`, organizations))
			if n := len(strings.Fields(call.header.Get("Webhook-Signature"))); n != 2 {
				t.Errorf("while keys overlap there are %d signatures: %s", n, call.header.Get("Webhook-Signature"))
			}
			third := text(a.must("targets/"+id+"/_rotate_signing_key", `{"overlap":"0s"}`), "signingKey")
			try(program.start(t, third), true)
			try(r2, false)
			try(foreign, false)
		})
	}
}

// tamper sends what came to a receiver once more as it was, and then changed.
func tamper(t *testing.T, r *receiver, c call) {
	t.Helper()
	sent, _ := strconv.ParseInt(c.header.Get("Webhook-Timestamp"), 10, 64)
	with := func(name, value string) http.Header {
		header := c.header.Clone()
		header.Set(name, value)
		return header
	}
	for _, test := range []struct {
		name   string
		header http.Header
		body   []byte
		want   int
	}{
		{"as it was", c.header, c.body, http.StatusNoContent},
		{"another body", c.header, bytes.Replace(c.body, []byte("Söhne"), []byte("Töchter"), 1), http.StatusUnauthorized},
		{"a longer body", c.header, append(bytes.Clone(c.body), ' '), http.StatusUnauthorized},
		{"another ID", with("Webhook-Id", c.header.Get("Webhook-Id")+"1"), c.body, http.StatusUnauthorized},
		{"another time", with("Webhook-Timestamp", fmt.Sprint(sent+1)), c.body, http.StatusUnauthorized},
		{"an old time", with("Webhook-Timestamp", fmt.Sprint(sent-3600)), c.body, http.StatusUnauthorized},
		{"no signature", with("Webhook-Signature", "v1,"), c.body, http.StatusUnauthorized},
	} {
		status, err := r.send(test.header, test.body)
		if err != nil || status != test.want {
			t.Errorf("%s: got %d, %v; want %d", test.name, status, err, test.want)
		}
	}
}

// TestTheReceiversAreThoseOfThePage keeps what people copy what is tested; docs/ has
// the one for node.
func TestTheReceiversAreThoseOfThePage(t *testing.T) {
	res, err := http.Get(harness.Shared(t).Issuer + "/docs/executions")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../docs/howto/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(page), ""))
	for name, program := range programs {
		code, err := os.ReadFile(program.file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(shown, strings.TrimSpace(string(code))) {
			t.Errorf("the page /docs/executions does not have the receiver in %s", name)
		}
		if _, example, _ := strings.Cut(string(code), "\n"); name == "node" && !strings.Contains(string(guide), example) {
			t.Error("docs/howto/webhooks.md does not have the receiver in node")
		}
		if lines := strings.Count(strings.TrimSpace(string(code)), "\n"); lines > 17 {
			t.Errorf("the receiver in %s has %d lines", name, lines)
		}
	}
}
