//go:build !linux

package harness

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
