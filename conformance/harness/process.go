package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// node is a process of writ.
type node struct {
	cmd   *exec.Cmd
	log   logBuffer
	ended chan struct{}
	err   error // of the process, once ended is closed
	once  sync.Once
	stops error
	bare  bool // it has nothing to drain
}

// logBuffer keeps what a process logs; the standard library's is not safe for
// concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	copy io.Writer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.copy != nil {
		_, _ = b.copy.Write(p)
	}
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// run starts program with args.
func run(program string, args ...string) (*node, error) {
	n := &node{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	if path := os.Getenv("WRIT_TEST_LOG"); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		n.log.copy = file // the end of this process closes it
	}
	n.cmd.Stderr = &n.log
	n.cmd.Env = Environment()
	n.cmd.SysProcAttr = endWithParent()
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		n.err = n.cmd.Wait()
		close(n.ended)
	}()
	made.Lock()
	defer made.Unlock()
	made.nodes = append(made.nodes, n)
	return n, nil
}

// await polls ready until it returns nil.
func (n *node) await(ready func() error) error {
	limit := time.After(startLimit)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-n.ended:
			return fmt.Errorf("%s ended: %w\n%s", n.cmd, n.err, n.log.String())
		case <-limit:
			return fmt.Errorf("%s is not ready after %s: %w\n%s", n.cmd, startLimit, err, n.log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// logged returns an attribute of the first log line with that message.
func (n *node) logged(message, attribute string) (string, error) {
	for line := range strings.Lines(n.log.String()) {
		entry := map[string]any{}
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
			return fmt.Sprint(entry[attribute]), nil
		}
	}
	return "", fmt.Errorf("no log line %q yet", message)
}

// stop drains the process as an operator would. It is an error when that fails,
// or when the process logged a panic or an internal error while it ran.
func (n *node) stop() error {
	if n.bare {
		return n.kill()
	}
	n.once.Do(func() { n.stops = errors.Join(n.end(), n.failures()) })
	return n.stops
}

// kill ends the process as kill -9 does.
func (n *node) kill() error {
	n.once.Do(func() {
		_ = n.cmd.Process.Kill() // it may have ended
		<-n.ended
		n.stops = n.failures()
	})
	return n.stops
}

func (n *node) end() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-n.ended:
		if n.err != nil {
			return fmt.Errorf("%s: %w\n%s", n.cmd, n.err, n.log.String())
		}
		return nil
	case <-time.After(stopLimit):
		_ = n.cmd.Process.Kill()
		<-n.ended
		return fmt.Errorf("%s did not drain within %s\n%s", n.cmd, stopLimit, n.log.String())
	}
}

// race is how a report of the race detector begins, in a program that was built with it.
const race = "WARNING: DATA RACE"

// failures returns the log lines that no request may cause (SEC-296), and reports of races.
func (n *node) failures() error {
	var err error
	text := n.log.String()
	if _, report, found := strings.Cut(text, race); found {
		err = fmt.Errorf("the server has a race: %s", report)
	}
	for line := range strings.Lines(text) {
		var entry struct{ Level, Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "ERROR" {
			err = errors.Join(err, fmt.Errorf("the server logged an error: %s", line))
		}
	}
	return err
}

// Environment is that of programs that tests run: settings of the person who runs the tests
// are not theirs.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "WRIT_") })
}
