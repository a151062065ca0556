package postgres

import (
	"os"
	"strconv"
	"syscall"
)

// endWithParent has the kernel send the signal to the child when its parent dies.
func endWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// endOrphan has nothing to do: the kernel has sent the signal.
func endOrphan(int) {}

// serves reports whether the process is a PostgreSQL on that data. Its working
// directory tells, which a zombie no longer has.
func serves(pid int, data string) bool {
	cwd, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return false
	}
	info, err := os.Stat(data)
	return err == nil && os.SameFile(cwd, info)
}
