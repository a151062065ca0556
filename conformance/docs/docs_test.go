// Package docs runs what the pages of docs/ say. A block of
//
//	sh               is run, in a folder of the page, after those before it
//	sh skip: why     is not, for the reason it gives
//	LANGUAGE FILE    is written to that file
//	text             is what something prints, or a picture
//
// and nothing else may stand there. The pages speak of the `writ dev` of this machine; the
// commands get to one that was started for them.
package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/writ-id/writ/conformance/harness"
	"github.com/writ-id/writ/docs"
)

func TestMain(m *testing.M) { harness.Main(m) }

// block is a fenced block: what it is, and its text.
type block struct{ info, text string }

func blocks(page []byte) (all []block) {
	document := goldmark.DefaultParser().Parse(text.NewReader(page))
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if fenced, ok := n.(*ast.FencedCodeBlock); ok && entering {
			one := block{text: string(fenced.Lines().Value(page))}
			if fenced.Info != nil {
				one.info = string(fenced.Info.Segment.Value(page))
			}
			all = append(all, one)
		}
		return ast.WalkContinue, nil
	})
	return all
}

// session runs the blocks of a page.
type session struct {
	*testing.T
	dir    string
	env    []string
	server *harness.Server
	script strings.Builder
	n      int
}

const local = "127.0.0.1:8080"

// fixed is where the redirect URIs of the seed lead: one page at a time has it.
const fixed = "localhost:9999"

var one sync.Mutex

// here says what a page says of this machine as it is for the test.
func (s *session) here(text string) string { return strings.ReplaceAll(text, local, s.server.Addr) }

func (s *session) take(b block) {
	s.Helper()
	s.n++
	kind, rest, _ := strings.Cut(b.info, " ")
	rest = strings.TrimSpace(rest)
	switch why, skipped := strings.CutPrefix(rest, "skip:"); {
	case kind == "text" && rest == "":
	case kind == "sh" && skipped && strings.TrimSpace(why) != "":
	case kind == "sh" && rest == "":
		fmt.Fprintf(&s.script, "echo '::block %d'\n%s\n", s.n, s.here(b.text))
	case kind != "" && kind != "sh" && rest != "" && !skipped && filepath.IsLocal(rest) && !strings.Contains(rest, " "):
		// Where the page has it, as a file may be written again.
		name := fmt.Sprintf(".block%d", s.n)
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(s.here(b.text)), 0o600); err != nil {
			s.Fatal(err)
		}
		fmt.Fprintf(&s.script, "mkdir -p \"$(dirname '%s')\" && cp '%s' '%s'\n", rest, name, rest)
	default:
		s.Errorf("block %d begins with %q: sh, sh skip: a reason, a language and a file, or text", s.n, b.info)
	}
}

// run runs what was taken, until a command fails.
func (s *session) run() {
	s.Helper()
	if s.script.Len() == 0 {
		return
	}
	cmd := exec.CommandContext(s.Context(), "bash", "-euo", "pipefail", "-c", s.script.String())
	cmd.Dir, cmd.Env = s.dir, s.env
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		s.Errorf("%v\n%s", err, said.String())
	}
}

func TestEveryCommandOfThePagesRuns(t *testing.T) {
	t.Parallel()
	sections, err := docs.Contents()
	if err != nil {
		t.Fatal(err)
	}
	server := harness.Shared(t)
	database, err := server.DatabaseURL()
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	// The commands that ask the node of this machine ask the one of the test.
	wrapper := "#!/bin/sh\ncase \"$1\" in dev|exec|serve) ;; *) export WRIT_ADDR='" + server.Addr + "' ;; esac\nexec '" + harness.Program(t) + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(tools, "writ"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	env := append(harness.Environment(), "PATH="+tools+":"+os.Getenv("PATH"), "TOKEN="+server.AdminToken,
		"ISSUER="+server.Issuer, "CLIENT_ID="+server.Clients["web"].ClientID, "CLIENT_SECRET="+server.Clients["web"].ClientSecret,
		"SERVICE_ID="+server.ServiceUser.ClientID, "SERVICE_SECRET="+server.ServiceUser.ClientSecret, "ORG_ID="+server.OrgID,
		"WRIT_DATABASE_URL="+database, "WRIT_MASTER_KEY_FILE="+server.MasterKeyFile())
	// The pages of operators begin with nothing but what they say: a database of their own.
	alone := append(harness.Environment(), "PATH="+tools+":"+os.Getenv("PATH"), "WRIT_DATABASE_URL="+server.EmptyDatabase(t))
	for _, section := range sections {
		for _, page := range section.Pages {
			t.Run(page.Name, func(t *testing.T) {
				t.Parallel()
				s := &session{T: t, dir: t.TempDir(), env: env, server: server}
				switch page.Name {
				case "howto/production":
					s.env = alone
				case "howto/deploy":
					s.env = alone[:len(alone)-1]
				}
				for _, block := range blocks(page.Markdown) {
					s.take(block)
				}
				if strings.Contains(string(page.Markdown), fixed) {
					one.Lock()
					defer one.Unlock()
				}
				s.run()
			})
		}
	}
}
