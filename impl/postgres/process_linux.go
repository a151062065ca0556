package postgres

import (
	"os"
	"path/filepath"
	"syscall"
)

// endWithParent has the kernel send the signal to the child when its parent dies.
func endWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

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
