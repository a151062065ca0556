//go:build !linux

package main

import "syscall"

// endWithParent does nothing where no kernel does it.
func endWithParent(*syscall.SysProcAttr) {}
