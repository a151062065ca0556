package postgres

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent has the kernel send the signal to the child when its parent dies.
func endWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// passThrough lets the child enter folders that are closed to its user, and reports
// whether this process may let it.
func passThrough(attr *syscall.SysProcAttr) bool {
	const override, search = 1, 2 // CAP_DAC_OVERRIDE, which containers have too, and CAP_DAC_READ_SEARCH
	held := capabilities()
	for _, one := range []uintptr{search, override} {
		if held&(1<<one) != 0 {
			attr.AmbientCaps = []uintptr{one}
			return true
		}
	}
	return false
}

// capabilities returns those that this process may use.
func capabilities() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "\nCapPrm:")
	line, _, _ := strings.Cut(after, "\n")
	set, _ := strconv.ParseUint(strings.TrimSpace(line), 16, 64) // none when it is not there
	return set
}

// endOrphan has nothing to do: the kernel has sent the signal.
func endOrphan(int) {}

// serves reports whether a PostgreSQL still works on that data: the process, or
// any other, for the children of a server that was killed end a little later
// and keep a new one from starting. The working directory tells; a zombie has
// none any more.
func serves(_ int, data string) bool {
	info, err := os.Stat(data)
	if err != nil {
		return false
	}
	names, _ := filepath.Glob("/proc/[0-9]*/comm") // fails only on a malformed pattern
	for _, name := range names {
		if comm, err := os.ReadFile(name); err != nil || string(comm) != "postgres\n" {
			continue
		}
		cwd, err := os.Stat(filepath.Join(filepath.Dir(name), "cwd"))
		if err == nil && os.SameFile(cwd, info) {
			return true
		}
	}
	return false
}

// bootID names this run of the operating system; "" where it has no name.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
