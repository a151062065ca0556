package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-id/writ/impl/client"
	"github.com/writ-id/writ/impl/core/webhook"
	"github.com/writ-id/writ/impl/dev/ready"
)

func newListen() *cobra.Command {
	var on serverFlags
	var which eventFlags
	var l listen
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Send events to an address of this machine, as a target would get them",
		Long: `Helps to write the receiver of a webhook: sends the events of an instance, as they
happen, to a local address. No public address and no target are needed. Body and
headers are those of a target of an event condition, signed with the secret that is
printed at the start, so any library for Standard Webhooks verifies them.

Each delivery is a line: the status of the answer, the event, its object, how long
it took. What fails is told and not sent again, unless --retries says so. Events
come in the order of their commits.

The server may be restarted, and so may the receiver and the command: it remembers,
for each pair of server and address, the secret and which event it sent last, and
goes on behind it. --since now leaves out what happened in the meantime.

It needs the permission events.read. Without --url the server is the ` + "`writ dev`" + `
that runs here, as its administrator.`,
		Example: `  writ listen --forward-to http://localhost:3000/webhooks
  writ listen --forward-to http://localhost:3000 --event 'user.*' --event session.added
  WRIT_TOKEN_FILE=token writ listen --url https://id.example --forward-to http://localhost:3000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			skip := which.since == "now"
			if skip {
				which.since = ""
			}
			follower, err := which.follower(cmd, &on)
			if err != nil {
				return err
			}
			listener, err := l.listener(cmd.OutOrStdout(), follower, cmp.Or(on.url, on.addr), skip)
			if err != nil {
				return err
			}
			return ended(listener.Listen(cmd.Context()))
		},
	}
	on.add(cmd.Flags())
	which.add(cmd.Flags(), "event")
	cmd.Flags().Lookup("since").Usage = "begin after the event of this sequence; 0: with the first one there is; now: with what happens from now on"
	cmd.Flags().StringVar(&l.to, "forward-to", "", "where to send events, for example http://localhost:3000")
	cmd.Flags().StringVar(&l.secret, "secret", "", "sign with this key (whsec_…) instead of one of its own; give it as WRIT_SECRET, a command line can be read by others")
	cmd.Flags().StringVar(&l.state, "state", "", "file to remember secret and place in; one in the cache of the user when empty")
	cmd.Flags().DurationVar(&l.timeout, "timeout", 10*time.Second, "how long the receiver may take to answer")
	cmd.Flags().IntVar(&l.retries, "retries", 0, "how often to send an event again that failed, with growing pauses")
	return cmd
}

type listen struct {
	to, secret, state string
	timeout           time.Duration
	retries           int
}

// remembered is what is kept between two runs.
type remembered struct {
	Secret   string `json:"secret"`
	Instance string `json:"instance,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
}

// listener prepares the deliveries of a server's events, and says what a person has to
// know of them.
func (l *listen) listener(out io.Writer, follower *client.Follower, server string, skip bool) (*client.Listener, error) {
	to, err := url.Parse(l.to)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, usageError{fmt.Errorf("--forward-to: %q is no address to send to, such as http://localhost:3000", l.to)}
	}
	path, err := l.statePath(server)
	if err != nil {
		return nil, err
	}
	known, err := readState(path)
	if err != nil {
		return nil, err
	}
	if known.Secret == "" {
		_, known.Secret = webhook.NewKey()
	}
	secret := cmp.Or(l.secret, known.Secret)
	key, err := webhook.ParseKey(secret)
	if err != nil {
		return nil, usageError{fmt.Errorf("--secret: %w", err)}
	}
	from := "what happens from now on"
	switch {
	case follower.From != nil:
		from = fmt.Sprintf("what happened after event %d", follower.From.Sequence)
	case !skip && known.Instance != "":
		follower.From = &client.Position{Instance: known.Instance, Sequence: known.Sequence}
		from = fmt.Sprintf("what happened after event %d, where the last run ended (--since now skips that)", known.Sequence)
	}
	keep := func(at client.Position) error {
		known.Instance, known.Sequence = at.Instance, at.Sequence
		return ready.WriteFile(path, known)
	}
	if err := ready.WriteFile(path, known); err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	follower.Connected = func(at *client.Server) { // not before: nothing is sent until then
		fmt.Fprintf(out, "\n  Sending         %s\n  of              %s\n  to              %s\n  signed with     %s\n  Stop            Ctrl-C\n\n", from, at.URL, l.to, secret)
	}
	return &client.Listener{Follower: *follower, To: l.to, Key: key, Timeout: l.timeout, Retries: l.retries, Out: out, Keep: keep}, nil
}

// statePath returns the file of a pair of server and receiver.
func (l *listen) statePath(server string) (string, error) {
	if l.state != "" {
		return l.state, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", usageError{fmt.Errorf("--state: say where, for there is no cache of the user: %w", err)}
	}
	folder := filepath.Join(cache, "writ")
	return filepath.Join(folder, fmt.Sprintf("listen-%.12x.json", sha256.Sum256([]byte(server+" "+l.to)))), os.MkdirAll(folder, 0o700)
}

func readState(path string) (known remembered, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil {
		return known, fmt.Errorf("--state: %s: %w", path, err)
	}
	return known, nil
}
