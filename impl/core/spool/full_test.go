package spool

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// TestREL108_ADiskThatIsFullIsTheSpaceThatIsInUse writes to the device that has no room.
func TestREL108_ADiskThatIsFullIsTheSpaceThatIsInUse(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	none, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &File{space: s, tenant: "a", file: none}
	if n, err := f.Write([]byte("text")); n != 0 || !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %d, %v", n, err)
	}
	if s.used != 0 || f.Size() != 0 {
		t.Errorf("what was not written takes %d bytes of the room", s.used)
	}
	if err := full(&fs.PathError{Err: syscall.EDQUOT}); !errors.Is(err, ErrFull) {
		t.Errorf("a quota that is used up is %v", err)
	}
	if err := full(fs.ErrPermission); errors.Is(err, ErrFull) {
		t.Error("a folder that nobody may write to counts as a full one")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestREL108_TheUsualRoomIsOnTheDisk asks for the room that nobody stated.
func TestREL108_TheUsualRoomIsOnTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	free, usual, err := Free(dir)
	if err != nil || free <= 0 || usual > Default || usual > max(free/2, least) {
		t.Fatalf("%d bytes are free, %d usual, %v", free, usual, err)
	}
	s, err := Open(dir, 0)
	if err != nil || s.most > Default || s.most < least || s.each != s.most/2 {
		t.Errorf("got %+v, %v", s, err)
	}
}
