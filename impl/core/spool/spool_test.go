package spool_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/writ-id/writ/impl/core/spool"
)

// TestREL108_FilesOfATenantLeaveRoomForOthers fills the share of one, and then all there is.
func TestREL108_FilesOfATenantLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := spool.Open(dir, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	mib := []byte(strings.Repeat("x", 1<<20))
	fill := func(tenant string) (*spool.File, int, error) {
		f, err := s.New(tenant)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			if _, err = f.Write(mib); err != nil {
				return f, n, err
			}
		}
	}
	a, n, err := fill("a")
	if n != 2 || !errors.Is(err, spool.ErrShare) {
		t.Errorf("a writes %d MiB until %v", n, err)
	}
	if _, n, err := fill("b"); n != 2 || !errors.Is(err, spool.ErrShare) {
		t.Errorf("b writes %d MiB until %v", n, err)
	}
	if _, n, err := fill("c"); n != 0 || !errors.Is(err, spool.ErrFull) {
		t.Errorf("c writes %d MiB until %v", n, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, n, _ := fill("c"); n != 2 {
		t.Errorf("when a has ended c writes %d MiB", n)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files have names: %v, %v", left, err)
	}
	for _, bytes := range []int64{0, 4 << 20} {
		if _, err := spool.Open(dir+"/nothing", bytes); err == nil {
			t.Error("a folder that is not there is taken")
		}
	}
}
