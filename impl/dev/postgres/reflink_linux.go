package postgres

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// noReflink is set once a file system knew none, so that not each file is tried.
var noReflink atomic.Bool

// reflink makes target share the blocks of source, and reports whether it did.
func reflink(target, source *os.File) bool {
	if noReflink.Load() {
		return false
	}
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) != nil {
		noReflink.Store(true)
		return false
	}
	return true
}
