//go:build !linux

package postgres

import "os"

// reflink shares blocks where the file system can; here it is not asked.
func reflink(_, _ *os.File) bool { return false }
