package main

import "syscall"

// endWithParent has the kernel end a child when this process dies.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
