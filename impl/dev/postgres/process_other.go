//go:build unix && !linux

package postgres

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent does nothing: only Linux can. A server whose writ was killed
// runs on until the next Start on its folder ends it.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// endOrphan asks the server for a fast shutdown, since no kernel has done so.
func endOrphan(pid int) { _ = syscall.Kill(pid, syscall.SIGINT) }

// serves reports whether the process is a PostgreSQL. That it serves this data
// is what postmaster.pid said.
func serves(pid int, _ string) bool {
	output, err := exec.Command("ps", "-o", "stat=,comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	state, program, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	return !strings.HasPrefix(state, "Z") && filepath.Base(strings.TrimSpace(program)) == "postgres"
}

// passThrough lets the child enter folders that are closed to its user: there is no
// way here.
func passThrough(*syscall.SysProcAttr) bool { return false }

// bootID names this run of the operating system; here it has no name.
func bootID() string { return "" }
