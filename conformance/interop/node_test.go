package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-id/writ/conformance/interop/npm"
)

// question is what the relying party asks for: see node/party.js.
type question struct {
	Open, Until, Done string
	Forget, Rotate    bool
}

// TestOpenIDClient runs a relying party that is openid-client. It is never
// skipped: what is missing fails with one line.
func TestOpenIDClient(t *testing.T) {
	dir, err := npm.Install("node", "interop")
	if err != nil {
		t.Fatal(err)
	}
	p := shared(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	party := exec.CommandContext(ctx, "node", filepath.Join(dir, "party.js"))
	party.Stderr = os.Stderr
	stdin, err := party.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := party.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := party.Start(); err != nil {
		t.Fatal(err)
	}
	answers := json.NewEncoder(stdin)
	if err := answers.Encode(p); err != nil {
		t.Fatal(err)
	}
	agent, last := p.browse(), "the start"
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatalf("the relying party said %q: %v", lines.Text(), err)
		}
		answer := map[string]any{}
		switch {
		case q.Done != "":
			last = q.Done
			t.Log(q.Done)
			continue
		case q.Forget:
			agent = p.browse()
		case q.Rotate:
			rotated, err := p.rotate(ctx, "ES256")
			if err != nil {
				t.Fatalf("rotate the signing key: %v", err)
			}
			answer["rotated"] = rotated
		case q.Open != "":
			agent.Trace = nil
			at, page, err := agent.Visit(ctx, q.Open, q.Until)
			if err == nil && page != "" {
				err = errors.New("the browser stopped at " + at.String() + ": " + page)
			}
			if err != nil {
				answer["error"] = err.Error()
			} else {
				answer["url"] = at.String()
			}
		}
		if err := answers.Encode(answer); err != nil {
			t.Fatalf("after %q: %v", last, err)
		}
	}
	stdin.Close()
	if err := party.Wait(); err != nil {
		t.Errorf("the relying party failed after %q: %v", last, err)
	}
}
