// Package spool keeps on the disk what is too long for memory while somebody sends or reads it
// at their own speed: no transaction is open and no place is taken meanwhile. What all
// files of a node have together is bounded, and of that what those of one tenant have.
package spool

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// ErrFull says that the files of the node have all the room there is, by the bound or on the disk;
// ErrShare that those of the tenant have all that one tenant gets.
var (
	ErrFull  = errors.New("spool: the room for files is in use")
	ErrShare = errors.New("spool: a tenant gets no more room")
)

// Default is how many bytes all files have at most where the operator does not say; in a folder
// that has less than twice of that free, half of what is free.
const Default = 32 << 30

// least is below which nothing useful moves.
const least = 1 << 20

// Space is the room for files of a node. It is safe for concurrent use.
type Space struct {
	dir        string
	most, each int64

	mu   sync.Mutex
	used int64
	of   map[string]int64
}

// Free is how many bytes a folder has room for, and what of that files have where the operator
// does not say. "" is the folder for temporary files of the system.
func Free(dir string) (free, usual int64, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	var about syscall.Statfs_t
	if err := syscall.Statfs(dir, &about); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free = int64(about.Bavail) * int64(about.Bsize) //nolint:gosec,unconvert // the types differ between systems; both are small
	return free, max(min(Default, free/2), least), nil
}

// Open returns the room in a folder, of so many bytes, of which a tenant gets half; of 0 bytes,
// what is usual there. "" is the folder for temporary files of the system.
func Open(dir string, bytes int64) (*Space, error) {
	if bytes == 0 {
		_, usual, err := Free(dir)
		if err != nil {
			return nil, err
		}
		bytes = usual
	}
	if bytes < least {
		return nil, fmt.Errorf("%d bytes are too few: at least %d", bytes, least)
	}
	s := &Space{dir: dir, most: bytes, each: bytes / 2, of: map[string]int64{}}
	file, err := s.scratch()
	if err != nil {
		return nil, fmt.Errorf("files cannot be made there: %w", err)
	}
	return s, file.Close()
}

// Share is how many bytes the files of a tenant may have.
func (s *Space) Share() int64 { return s.each }

// scratch returns a file that is gone when it is closed, or when the process ends.
func (s *Space) scratch() (*os.File, error) {
	file, err := os.CreateTemp(s.dir, "writ-transfer-")
	if err == nil {
		err = os.Remove(file.Name())
	}
	return file, full(err)
}

// full has a disk without room be ErrFull, and keeps what the system says of it.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// New returns an empty file of a tenant.
func (s *Space) New(tenant string) (*File, error) {
	file, err := s.scratch()
	if err != nil {
		return nil, err
	}
	return &File{space: s, tenant: tenant, file: file}, nil
}

func (s *Space) take(tenant string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[tenant]+n > s.each:
		return ErrShare
	case s.used+n > s.most:
		return ErrFull
	}
	s.used += n
	s.of[tenant] += n
	return nil
}

func (s *Space) give(tenant string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.of[tenant] -= n; s.of[tenant] == 0 {
		delete(s.of, tenant)
	}
}

// File is written at its end and read anywhere.
type File struct {
	space  *Space
	tenant string
	file   *os.File
	size   int64
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if err := f.space.take(f.tenant, int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.file.WriteAt(p, f.size)
	f.size += int64(n)
	f.space.give(f.tenant, int64(len(p)-n))
	return n, full(err)
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, at int64) (int, error) { return f.file.ReadAt(p, at) }

// Size is how many bytes it has.
func (f *File) Size() int64 { return f.size }

// Close gives the room back; more than once does nothing.
func (f *File) Close() error {
	f.space.give(f.tenant, f.size)
	f.size = 0
	return f.file.Close()
}
