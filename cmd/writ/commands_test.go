package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/impl/dev/ready"
)

// terminal types commands as a person does, in a folder of its own, beside a writ dev.
type terminal struct {
	*testing.T
	folder, addr string
	info         ready.Info
	typed        map[string]bool // the commands that ran
}

// command prepares a run of a command line in the folder. Words of the form {addr} and the
// like stand for what only the machine knows.
func (x *terminal) command(line string, environment ...string) *exec.Cmd {
	x.Helper()
	words := strings.Fields(line)
	if found, _, err := newRoot().Find(words); err == nil {
		x.typed[found.CommandPath()] = true
	}
	cmd, _ := writ(x.T, words...)
	cmd.Dir = x.folder
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+filepath.Join(x.folder, "cache"))
	cmd.Env = append(cmd.Env, environment...)
	return cmd
}

// types runs a command that has to end with an exit code and to say some text.
func (x *terminal) types(code int, says, line string, environment ...string) string {
	x.Helper()
	var out, wrong bytes.Buffer
	cmd := x.command(line, environment...)
	cmd.Stdout, cmd.Stderr = &out, &wrong
	if got := codeOf(cmd.Run()); got != code || !strings.Contains(out.String()+wrong.String(), says) {
		x.Errorf("writ %s: exit code %d, want %d and %q\n%.2000s%s", line, got, code, says, out.String(), wrong.String())
	}
	return out.String()
}

// until runs a command that goes on until it is told to stop, which it has to be fine with.
func (x *terminal) until(done func(output string) bool, line string, environment ...string) {
	x.Helper()
	cmd := x.command(line, environment...)
	log, err := os.Create(filepath.Join(x.TempDir(), "log"))
	if err != nil {
		x.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		x.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	text := func() string { return string(must(os.ReadFile(log.Name()))) }
	for !done(text()) {
		select {
		case err := <-ended:
			x.Errorf("writ %s ended: %v\n%s", line, err, text())
			return
		case <-x.Context().Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		x.Errorf("writ %s, told to stop, ended with %v\n%s", line, err, text())
	}
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestREL109_EveryCommandRunsAsAPersonTypesIt runs each command of the binary, from an
// empty folder, beside a writ dev and a database of production. At the end no command may
// be left that nothing typed.
func TestREL109_EveryCommandRunsAsAPersonTypesIt(t *testing.T) {
	t.Parallel()
	x := &terminal{T: t, typed: map[string]bool{}, addr: free(t)}
	folder, err := os.MkdirTemp("", "wx") // not t.TempDir, whose names are longer than a socket's path may be
	if err != nil {
		t.Fatal(err)
	}
	x.folder = folder
	t.Cleanup(func() { _ = os.RemoveAll(folder) })

	dev := x.command("dev --addr " + x.addr + " --data-dir data --ready-file ready.json")
	var log bytes.Buffer
	dev.Stdout, dev.Stderr = &log, &log
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	defer func() {
		_ = dev.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("writ dev ended: %v\n%s", err, log.String())
		}
	}()
	x.await(ended, &log)

	x.clock()
	x.onDev()
	x.production()

	for _, cmd := range allCommands(newRoot()) {
		if cmd.Runnable() && cmd.Args != nil && !cmd.HasSubCommands() && !x.typed[cmd.CommandPath()] {
			t.Errorf("no test types: %s", cmd.CommandPath())
		}
	}
}

// await waits for the file that says that the server answers.
func (x *terminal) await(ended <-chan error, log *bytes.Buffer) {
	x.Helper()
	for {
		if text, err := os.ReadFile(filepath.Join(x.folder, "ready.json")); err == nil {
			if err := json.Unmarshal(text, &x.info); err != nil {
				x.Fatalf("the ready file is not whole: %v", err)
			}
			return
		}
		select {
		case err := <-ended:
			x.Fatalf("writ dev ended: %v\n%s", err, log.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (x *terminal) clock() {
	at := " --addr " + x.addr
	x.types(0, "running, 0s from the machine's", "clock"+at)
	x.types(0, "running, 1h30m0", "clock advance 1h30m"+at)
	x.types(0, "running, 1h25m0", "clock advance"+at+" -- -5m")
	x.types(0, "2030-01-31T12:00:0", "clock set 2030-01-31T12:00:00Z"+at)
	x.types(0, "frozen", "clock freeze"+at)
	x.types(0, "frozen", "clock"+at)
	x.types(0, "running", "clock run"+at)
	x.types(0, "running, 0s from the machine's", "clock reset"+at)
	x.types(2, "is not a duration such as", "clock advance 1x"+at)
	x.types(2, "is not a time such as", "clock set tomorrow"+at)
	x.types(1, "the clock goes from", "clock set 9999-12-31T00:00:00Z"+at)
	x.types(1, "no writ dev answers", "clock --addr "+free(x.T))
}

// onDev types what a developer does beside a writ dev.
func (x *terminal) onDev() {
	at := " --addr " + x.addr
	x.types(0, "ready", "ready"+at)
	x.types(1, "not ready", "ready --addr "+free(x.T))
	x.types(0, "RS256 signatures by", "version")
	x.types(0, "0 failed", "doctor --skip machine"+at)
	x.types(0, `"$schema"`, "seed schema")
	x.types(0, "active since", "keys rotate"+at) // with the key of its folder
	seed := x.types(0, "instances:", "seed print")
	if err := os.WriteFile(filepath.Join(x.folder, "seed.yaml"), []byte(seed), 0o600); err != nil {
		x.Fatal(err)
	}
	x.types(0, "nothing differs", "apply -f seed.yaml"+at)
	if err := os.WriteFile(filepath.Join(x.folder, "seed.yaml"), []byte(strings.Replace(seed, "name: Example", "name: Shop", 1)), 0o600); err != nil {
		x.Fatal(err)
	}
	x.types(0, "(--dry-run)", "apply -f seed.yaml --dry-run"+at)
	x.types(0, "changes", "apply -f seed.yaml"+at)
	x.types(0, "nothing differs", "apply -f seed.yaml"+at)
	x.types(1, "no such file", "apply -f none.yaml"+at)

	x.types(0, `"type":"domain.added"`, "events tail --since 0 --once"+at)
	received := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case received <- r.Header.Get("Webhook-Signature"):
		default:
		}
	}))
	defer receiver.Close()
	x.until(func(output string) bool { return len(received) > 0 && strings.Contains(output, "200") },
		"listen --since 0 --forward-to "+receiver.URL+at)
	if signature := <-received; !strings.HasPrefix(signature, "v1,") {
		x.Errorf("the delivery of writ listen has the signature %q", signature)
	}

	// Before there is a server nothing is said to be sent; the address and a way on are.
	nobody := free(x.T)
	for line, says := range map[string]string{
		"listen --forward-to " + receiver.URL + " --addr " + nobody:       "no writ dev answers at " + nobody + ": start one with `writ dev`",
		"listen --forward-to " + receiver.URL + " --url http://" + nobody: "the server at http://" + nobody + " does not answer; start it",
	} {
		if out := x.types(1, says, line, "WRIT_TOKEN=of-nobody"); strings.Contains(out, "Sending") {
			x.Errorf("writ %s says that it sends: %s", line, out)
		}
	}

	x.types(0, "", "export --output all.json"+at)
	x.types(0, "", "export --as-seed --output export.yaml"+at)
	x.types(1, "", "import all.json --dry-run"+at) // all of it is there
	x.types(0, "", "import all.json --on-conflict skip"+at)
	x.types(2, "--on-conflict", "import all.json --on-conflict perhaps"+at)
	x.types(7, "http://", "exec -- sh -c echo${IFS}$OIDC_ISSUER;exit${IFS}7")

	// What is exported for other commands is not where exec listens, but where the commands
	// below it find its server; the command line has its say.
	exported := []string{"WRIT_ADDR=" + x.addr, "WRIT_DEBUG_ADDR=" + x.addr, "WRIT_METRICS_ADDR=" + x.addr}
	if out := x.types(0, "http://", "exec -- sh -c echo${IFS}$OIDC_ISSUER${IFS}$WRIT_ADDR", exported...); strings.Contains(out, x.addr) {
		x.Errorf("exec uses the address of another server: %s", out)
	} else if words := strings.Fields(out); len(words) != 2 || words[0] != "http://"+words[1] {
		x.Errorf("exec tells a command the addresses %q, want those of its server", words)
	}
	x.types(0, "http://"+nobody, "exec --addr "+nobody+" -- sh -c echo${IFS}$OIDC_ISSUER", exported...)
	if err := os.WriteFile(filepath.Join(x.folder, "addr.yaml"), []byte("addr: "+x.addr+"\n"), 0o600); err != nil {
		x.Fatal(err)
	}
	x.types(0, "http://", "exec --config addr.yaml -- sh -c echo${IFS}$OIDC_ISSUER")
	x.types(0, "frozen", "exec -- "+os.Args[0]+" clock freeze", exported...)
	x.types(0, "running", "clock"+at)
}

// production types what an operator does, on databases beside that of writ dev.
func (x *terminal) production() {
	one, two := x.database("one"), x.database("two")
	key := []string{"WRIT_MASTER_KEY_FILE=master.json"}
	on := append(slices.Clone(key), "WRIT_DATABASE_URL="+one)
	x.types(0, "", "keys new-master master.json")
	x.types(2, "is there already", "keys new-master master.json")
	x.types(0, "00001", "migrate up", on...)
	x.types(0, "00001", "migrate status", on...)
	x.types(0, "the settings are valid", "config validate", on...)
	x.types(2, "--external-scheme", "config validate --external-scheme ftp", on...)
	// All mistakes are told at once.
	for _, one := range []string{"--external-scheme", "--reference", "--address-tries", "--log-level", "--search-limit"} {
		x.types(2, one, "config validate --external-scheme ftp --reference perhaps --address-tries -1 --log-level loud --search-limit 5000", on...)
	}
	x.types(0, "database-url:", "config print", on...)
	x.types(0, "additionalProperties", "config schema")

	// The first start, with an instance whose host is localhost.
	seed := "instances:\n  - name: first\n    domains: [localhost]\n"
	if err := os.WriteFile(filepath.Join(x.folder, "first.yaml"), []byte(seed), 0o600); err != nil {
		x.Fatal(err)
	}
	addr := free(x.T)
	x.until(func(string) bool {
		_, _, err := askDev(x.Context(), addr, "/readyz")
		return err == nil
	}, "serve --seed first.yaml --external-scheme http --addr "+addr, on...)

	// Secrets that a seed leaves out are never in what serve prints.
	admin := seed + "    organizations:\n      - name: Acme\n        default: true\n        users:\n          - {username: admin, service: {name: Admin}, instance_roles: [IAM_OWNER], tokens: [{name: first}]}\n"
	if err := os.WriteFile(filepath.Join(x.folder, "admin.yaml"), []byte(admin), 0o600); err != nil {
		x.Fatal(err)
	}
	x.types(2, "--secrets-file", "serve --seed admin.yaml --addr "+addr, on...)
	x.types(0, "secrets.json has them", "apply -f admin.yaml --secrets-file secrets.json", on...)
	if info, err := os.Stat(filepath.Join(x.folder, "secrets.json")); err != nil || info.Mode().Perm() != 0o600 {
		x.Errorf("the file of the secrets: %v %v", info, err)
	}

	// Whoever starts with another key is told, before anything is sealed by it.
	x.types(0, "", "keys new-master other.json")
	other := []string{"WRIT_MASTER_KEY_FILE=other.json", "WRIT_DATABASE_URL=" + one}
	for _, line := range []string{"serve --external-scheme http --addr " + addr, "serve --seed first.yaml --addr " + addr, "keys rotate", "keys rotate-master reseal", "doctor --skip machine"} {
		x.types(1, "the master key is not the one that seals this database", line, other...)
	}

	x.types(0, "there are none yet", "keys list", on...)
	x.types(0, "active since", "keys rotate", on...)
	x.types(2, "--master-key-file", "keys rotate", "WRIT_DATABASE_URL="+one)
	list := strings.Fields(x.types(0, "active since", "keys list", on...))
	x.types(0, "", "keys revoke "+list[0], on...)
	for _, step := range []string{"add", "switch", "reseal", "drop"} {
		x.types(0, "", "keys rotate-master "+step, on...)
	}
	x.types(2, "add one first", "keys rotate-master switch", on...)

	x.types(0, "00001", "migrate up --database-url "+two)
	var instance string
	x.query(one, "SELECT id FROM instances WHERE id <> ''", &instance)
	move := fmt.Sprintf("move-instance --from %s --to %s --instance %s", one, two, instance)
	x.types(0, "rehearsed", move+" --rehearse", key...)
	x.types(0, "moved", move, key...)
	x.types(0, "", fmt.Sprintf("move-instance --from %s --instance %s --delete-source", one, instance))
}

// database makes an empty database beside that of writ dev, and returns its URL.
func (x *terminal) database(name string) string {
	x.Helper()
	base, _, err := askDev(x.Context(), x.addr, "/_dev/database")
	if err != nil {
		x.Fatal(err)
	}
	x.query(base, "CREATE DATABASE "+name+" TEMPLATE template0", nil) // template1 of writ dev has the schema
	at, err := url.Parse(base)
	if err != nil {
		x.Fatal(err)
	}
	at.Path = "/" + name
	return at.String()
}

func (x *terminal) query(database, statement string, into *string) {
	x.Helper()
	conn, err := pgx.Connect(x.Context(), database)
	if err != nil {
		x.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(x.Context()))
	if into == nil {
		_, err = conn.Exec(x.Context(), statement)
	} else {
		err = conn.QueryRow(x.Context(), statement).Scan(into)
	}
	if err != nil {
		x.Fatalf("%s: %v", statement, err)
	}
}
