package harness

import "syscall"

// endWithParent makes the kernel drain the process when this one is killed, for
// example by the time limit of the tests.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
