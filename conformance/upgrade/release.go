package upgrade

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// recorded is the commit of the release before: the one that was handed in last. Who hands
// in the next writes its commit here.
//
//go:embed previous
var recorded string

// previous returns the program of the release before, built from the history of the project
// once and kept in the user's cache, and which commit it is of. Where the history is cut off
// before the recorded commit it is the oldest one there; where there is no other commit at all,
// "" says that there is nothing to upgrade from.
func previous() (program, commit string, err error) {
	top, err := git("rev-parse", "--show-toplevel")
	if err != nil {
		return "", "", err
	}
	commit = strings.TrimSpace(recorded)
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		all, err := git("rev-list", "--first-parent", "HEAD")
		if err != nil {
			return "", "", err
		}
		commits := strings.Fields(all)
		if len(commits) < 2 {
			return "", "", nil
		}
		commit = commits[len(commits)-1]
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	folder := filepath.Join(cache, "writ", "releases", commit)
	program = filepath.Join(folder, "writ")
	if _, err := os.Stat(program); err == nil {
		return program, commit, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", "", err
	}
	source, err := os.MkdirTemp("", "writ-release-")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.RemoveAll(source) }()
	unpack := exec.Command("bash", "-euo", "pipefail", "-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, top, commit, source)
	if out, err := unpack.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("unpack %s: %w\n%s", commit, err, out)
	}
	// Moved into place, so that what is there is whole.
	build := exec.Command("go", "build", "-C", source, "-trimpath", "-buildvcs=false", "-o", program+".new", "./cmd/writ")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build %s: %w\n%s", commit, err, out)
	}
	return program, commit, os.Rename(program+".new", program)
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %s", strings.Join(args, " "), failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
