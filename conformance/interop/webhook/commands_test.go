package webhook

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/writ-id/writ/conformance/harness"
)

// command starts a command of the program against the writ dev of this machine, which it
// finds by its port alone.
func command(t *testing.T, s *harness.Server, args ...string) (*exec.Cmd, *receiver) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.Program(t), append(args, "--addr", s.Addr)...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "WRIT_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	said := &receiver{}
	cmd.Stdout, cmd.Stderr = said, said
	return cmd, said
}

// TestWhatListenSendsIsVerifiedAndGoesOnWhereItWas, also when the command is killed.
func TestWhatListenSendsIsVerifiedAndGoesOnWhereItWas(t *testing.T) {
	d, a, state := newDesk(t), api{t, harness.Own(t)}, filepath.Join(t.TempDir(), "state.json")
	listen := func() (key string, kill func()) {
		cmd, said := command(t, a.server, "listen", "--forward-to", d.URL, "--event", "project.*", "--state", state, "--interval", "50ms")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		signed := regexp.MustCompile(`whsec_\S+`)
		eventually(t, "listen does not start", func() bool { return signed.MatchString(said.printed()) })
		return signed.FindString(said.printed()), func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	}
	arrives := func(name string) {
		t.Helper()
		eventually(t, name+" is not sent", func() bool { _, ok := d.find(name); return ok })
		if got, _ := d.find(name); got.status != 204 {
			t.Errorf("%s: the library answers %d", name, got.status)
		}
	}
	key, kill := listen()
	d.leadTo(programs["node"].start(t, key))
	eventually(t, "its place is not kept", func() bool {
		text, err := os.ReadFile(state)
		return err == nil && strings.Contains(string(text), "sequence")
	})
	a.must("projects", `{"name":"first"}`)
	arrives("first")
	kill()
	a.must("projects", `{"name":"meanwhile"}`)
	again, kill := listen()
	defer kill()
	arrives("meanwhile")
	a.must("projects", `{"name":"last"}`)
	arrives("last")
	if again != key {
		t.Errorf("the key was %s and is %s", key, again)
	}
}

func TestTailPrintsTheTrailAsLinesOfJSON(t *testing.T) {
	a := api{t, harness.Own(t)}
	a.must("projects", `{"name":"one"}`)
	a.must("projects", `{"name":"two"}`)
	tail := func(since string) (names []string, last string) {
		t.Helper()
		cmd, said := command(t, a.server, "events", "tail", "--since", since, "--once", "--type", "project.added")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, said.printed())
		}
		for line := range strings.Lines(said.printed()) {
			var event struct {
				Sequence, Type string
				Payload        struct{ Name string }
			}
			if err := json.Unmarshal([]byte(line), &event); err != nil || event.Type != "project.added" {
				t.Fatalf("%q: %v", line, err)
			}
			names, last = append(names, event.Payload.Name), event.Sequence
		}
		return names, last
	}
	all, last := tail("0")
	if got := strings.Join(all, " "); got != "Example one two" { // the seed has the first one
		t.Errorf("got %s", got)
	}
	a.must("projects", `{"name":"three"}`)
	if more, _ := tail(last); strings.Join(more, " ") != "three" {
		t.Errorf("after %s: got %v", last, more)
	}
}
