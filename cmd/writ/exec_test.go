package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/dev/ready"
)

// writ prepares a run of this program, with a folder for temporary files of its own.
func writ(t *testing.T, args ...string) (cmd *exec.Cmd, temporary string) {
	t.Helper()
	// Not t.TempDir, whose names are longer than a socket's path may be.
	temporary, err := os.MkdirTemp("", "wx")
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(temporary, 0o755)
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "WRIT_TEST_MAIN=1", "TMPDIR="+temporary)
	cmd.WaitDelay = 30 * time.Second
	return cmd, temporary
}

// nothingLeft fails the test when a run left files behind, or a process that has its folder open.
func nothingLeft(t *testing.T, temporary string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
		t.Errorf("left behind are %v", left)
	}
	for _, link := range must(filepath.Glob("/proc/[0-9]*/cwd")) {
		if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, temporary) {
			t.Errorf("left behind is %s in %s", link, at)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func codeOf(err error) int {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return ended.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

func TestExecRunsACommandBesideAServer(t *testing.T) {
	t.Parallel()
	// The writ commands below it take the variables for what they are.
	cmd, temporary := writ(t, "exec", "--", "sh", "-c", `cat "$READY_FILE"; echo; echo "$OIDC_ISSUER $WRIT_BASE_URL $WRIT_ADMIN_TOKEN $CLIENT_ID $CLIENT_SECRET $REDIRECT_URI $USER_LOGIN_NAME $USER_PASSWORD $CLIENT_SPA_ID";
		curl -fsS "$OIDC_ISSUER/.well-known/openid-configuration" > /dev/null && "`+os.Args[0]+`" version && sleep 1000 & sleep 0.5; exit 7`)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if code := codeOf(cmd.Run()); code != 7 {
		t.Errorf("it ended with %d: %s", code, log.String())
	}
	var info ready.Info
	decoder := json.NewDecoder(&out)
	if err := decoder.Decode(&info); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	web := info.Clients["web"]
	rest := new(strings.Builder)
	_, _ = decoder.Buffered().(*bytes.Reader).WriteTo(rest)
	if want := strings.Join([]string{info.Issuer, info.Issuer, info.AdminToken, web.ClientID, web.ClientSecret, web.RedirectURI, info.User.LoginName, info.User.Password, info.Clients["spa"].ClientID}, " "); !strings.Contains(rest.String()+out.String(), want) {
		t.Errorf("got %s%s, want %s", rest, out.String(), want)
	}
	nothingLeft(t, temporary)
}

// TestDevSaysWhereItsCertificateIs: in the banner, and in the ready file that the commands and
// scripts read, so that a client can trust it.
func TestDevSaysWhereItsCertificateIs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ready.json")
	cmd, temporary := writ(t, "dev", "--tls", "--addr", "127.0.0.1:0", "--ready-file", file)
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	banner, lines := "", bufio.NewScanner(out)
	for lines.Scan() {
		if banner += lines.Text() + "\n"; strings.Contains(banner, "Stop ") {
			break
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	var info ready.Info
	if err := json.Unmarshal(must(os.ReadFile(file)), &info); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(info.CAFile, temporary) || !strings.Contains(banner, "Certificate     "+info.CAFile) || !strings.Contains(banner, "curl --cacert "+info.CAFile) {
		t.Errorf("the ready file has the certificate %q, the banner is %s", info.CAFile, banner)
	}
	if output, err := exec.Command("curl", "-fsS", "--cacert", info.CAFile, info.Issuer+"/livez").CombinedOutput(); err != nil {
		t.Errorf("with that certificate: %v: %s", err, output)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to stop, it ended with %v", err)
	}
}

func TestExecSaysWhatTheCommandEndedWith(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command []string
		want    int
	}{
		"success":         {[]string{"true"}, 0},
		"a signal":        {[]string{"sh", "-c", "kill -9 $$"}, 137},
		"no such command": {[]string{"no-such-command"}, 127},
		"no command":      {nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, temporary := writ(t, append([]string{"exec", "--"}, test.command...)...)
			if output, err := cmd.CombinedOutput(); codeOf(err) != test.want {
				t.Errorf("it ended with %d, want %d: %s", codeOf(err), test.want, output)
			}
			nothingLeft(t, temporary)
		})
	}
}

func TestExecPassesSignalsOnAndWaits(t *testing.T) {
	t.Parallel()
	cmd, temporary := writ(t, "exec", "--", "sh", "-c", `trap 'curl -fsS "$OIDC_ISSUER/livez"; exit 9' TERM; echo begun; while :; do sleep 0.05; done`)
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "begun\n" {
		t.Fatalf("got %q: %v", line, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	answer := make([]byte, 3)
	if _, err := out.Read(answer); err != nil || string(answer) != "ok\n" {
		t.Errorf("while the command cleans up the server says %q: %v", answer, err)
	}
	if code := codeOf(cmd.Wait()); code != 9 {
		t.Errorf("it ended with %d", code)
	}
	nothingLeft(t, temporary)
}

func TestExecKeepsTheDatabaseOfAFailureIfAsked(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{"false": true, "true": false} {
		cmd, temporary := writ(t, "exec", "--keep-on-failure", "--", command)
		output, _ := cmd.CombinedOutput()
		kept := must(filepath.Glob(filepath.Join(temporary, "writ-dev-*", "data", "PG_VERSION")))
		if (len(kept) == 1) != want || strings.Contains(string(output), "writ dev --data-dir "+temporary) != want {
			t.Errorf("%s: kept is %v: %s", command, kept, output)
		}
	}
}

// What was killed leaves a folder, which the next one removes; the command ended with it.
func TestExecMayBeKilled(t *testing.T) {
	t.Parallel()
	cmd, temporary := writ(t, "exec", "--", "sh", "-c", "echo begun; cd "+"$TMPDIR; exec sleep 1000")
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 10 { // its PostgreSQL may shut down while the next one starts
		next, _ := writ(t, "exec", "--", "true")
		next.Env = append(next.Env, "TMPDIR="+temporary) // the last one counts
		if output, err := next.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if left := must(filepath.Glob(filepath.Join(temporary, "*"))); len(left) == 0 {
			break
		}
	}
	nothingLeft(t, temporary)
}

func TestTheRecordOfARunHoldsNoneOfItsSecrets(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record.jsonl")
	cmd, _ := writ(t, "exec", "--record", record, "--", "sh", "-c", `cat "$READY_FILE"; json='Content-Type: application/json'
		curl -sS -X POST -H "$json" -d '{"user":"alice","client":"web","scopes":["openid","offline_access"]}' "$WRIT_BASE_URL/_dev/login"
		curl -sS -u "$SERVICE_CLIENT_ID:$SERVICE_CLIENT_SECRET" -d grant_type=client_credentials -d scope=openid "$WRIT_BASE_URL/oauth/v2/token"
		curl -sS -u "$CLIENT_ID:$CLIENT_SECRET" -d token="$WRIT_ADMIN_TOKEN" "$WRIT_BASE_URL/oauth/v2/introspect"
		curl -sS -H "Authorization: Bearer $WRIT_ADMIN_TOKEN" -H "$json" -d "{\"session\":{\"checks\":{\"user\":{\"loginName\":\"$USER_LOGIN_NAME\"},\"password\":{\"password\":\"$USER_PASSWORD\"}}}}" "$WRIT_BASE_URL/resources/v3alpha/sessions"
		curl -sS -X POST "$WRIT_BASE_URL/_dev/worlds"`)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	content := string(must(os.ReadFile(record)))
	secrets := regexp.MustCompile(`"(?:[a-z_]*(?:token|secret|password)|sessionToken)": ?"([^"]{6,})"`).FindAllStringSubmatch(out.String(), -1)
	if len(secrets) < 15 {
		t.Fatalf("the run has shown %d secrets only: %s", len(secrets), out.String())
	}
	for _, one := range secrets {
		if strings.Contains(content, one[1]) {
			t.Errorf("%s is recorded", one[0])
		}
	}
	for _, want := range []string{"/oauth/v2/token", "/oauth/v2/introspect", "/resources/v3alpha/sessions", "/_dev/worlds", `"access_token":"***"`} {
		if !strings.Contains(content, want) {
			t.Errorf("%s is not recorded", want)
		}
	}
}
