package sdk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// artifact is a folder in the cache: name-HASH.
type artifact struct {
	name   string
	inputs [][]byte // all it is made of
	build  func(dir string) error
}

// cacheDir returns the folder that outlives the checkout: WRIT_SDK_CACHE, or one in
// the user's cache.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WRIT_SDK_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(base, "writ-sdk")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

var locks sync.Map // of artifacts, within the process

// made returns the folder of an artifact, and builds it unless it is there.
func made(t *testing.T, a artifact) string {
	t.Helper()
	sum := sha256.New()
	fmt.Fprintln(sum, a.name, runtime.GOOS, runtime.GOARCH)
	for _, input := range a.inputs {
		fmt.Fprintln(sum, len(input))
		sum.Write(input)
	}
	cache := cacheDir(t)
	dir := filepath.Join(cache, a.name+"-"+hex.EncodeToString(sum.Sum(nil))[:16])
	stamp := filepath.Join(dir, ".complete")

	within, _ := locks.LoadOrStore(a.name, &sync.Mutex{})
	within.(*sync.Mutex).Lock()
	defer within.(*sync.Mutex).Unlock()
	lock, err := os.OpenFile(filepath.Join(cache, a.name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) // other checkouts use the same cache
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := os.Stat(stamp); err == nil {
		return dir
	}
	began := time.Now()
	if err := errors.Join(prune(filepath.Join(cache, a.name)), os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := a.build(dir); err != nil {
		t.Fatalf("%s: %v", a.name, err)
	}
	if err := os.WriteFile(stamp, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s was made in %s", a.name, time.Since(began).Round(time.Second))
	return dir
}

// prune deletes all but the two newest artifacts of a name: other checkouts may be at
// another state of the contract.
func prune(name string) error {
	dirs, err := filepath.Glob(name + "-????????????????")
	slices.SortFunc(dirs, func(a, b string) int { return age(a).Compare(age(b)) })
	for len(dirs) > 2 {
		err = errors.Join(err, os.RemoveAll(dirs[0]))
		dirs = dirs[1:]
	}
	return err
}

func age(dir string) time.Time {
	if info, err := os.Stat(dir); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

// command is a program that is run in a folder.
type command struct {
	dir  string
	env  []string
	args []string
}

// run runs commands one after the other, until one fails; the error holds what it said.
func run(commands ...command) error {
	for _, c := range commands {
		cmd := exec.Command(c.args[0], c.args[1:]...)
		cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(c.args, " "), err, ending(output))
		}
	}
	return nil
}

// ending returns the last lines of an output.
func ending(output []byte) []byte {
	const most = 4 << 10
	if len(output) > most {
		output = output[len(output)-most:]
	}
	return bytes.TrimSpace(output)
}

// needs returns a program that .ci/run installs: in CI it has to be there, elsewhere
// the test is skipped without it.
func needs(t *testing.T, program, hint string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not on this machine: %s", program, hint)
	}
	return wants(t, program, hint)
}

// wants returns a program that cannot be had everywhere: without it the test is skipped.
func wants(t *testing.T, program, why string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not on this machine: %s", program, why)
	}
	return path
}

// read returns files of this folder.
func read(t *testing.T, names ...string) (texts [][]byte) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return texts
}
