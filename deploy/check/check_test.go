// Package check holds what deploy/ says against the tools that would use it, and runs what
// can be run here. Nothing in it needs a container runtime; what only one could show is
// told at the end of deploy/README.md.
//
//	make deploy-check
package check

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the project.
var root = func() string {
	path, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return path
}()

// tool returns the path of a program that the Makefile makes.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(root, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("WRIT_TEST_DEPLOY") == "" {
			t.Skipf("%s is missing: make deploy-check", name)
		}
		t.Fatal(err)
	}
	return path
}

// installed returns the path of a program of the machine. Where CI installs it, it has to be there.
func installed(t *testing.T, name, hint string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing: %s", name, hint)
		}
		t.Skipf("%s is missing: %s", name, hint)
	}
	return path
}

// header wants a header of C, as installed wants a program.
func header(t *testing.T, name, hint string) {
	t.Helper()
	if _, err := os.Stat("/usr/include/" + name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing: %s", name, hint)
		}
		t.Skipf("%s is missing: %s", name, hint)
	}
}

// asRoot skips what only root may do.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may do this")
	}
}

// execute runs a command in the folder of the project and returns what it printed.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return executeWith(t, nil, args...)
}

func executeWith(t *testing.T, environment []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = root
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "WRIT_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, environment...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = errors.Join(err, errors.New(strings.Join(args, " ")), errors.New(stderr.String()))
	}
	return stdout.String(), err
}

// must is execute of what has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := execute(t, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
