package doctor

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/writ-id/writ/impl/core/rs256"
	"github.com/writ-id/writ/impl/core/spool"
)

const (
	mebibyte = 1 << 20
	fewFiles = 4096 // open files: three quarters of them are clients
)

// machine looks at what limits a process here.
func (d *doctor) machine() {
	var files syscall.Rlimit
	switch err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); {
	case d.failed("open files", err):
	case files.Cur < fewFiles:
		d.warn("open files", "raise the limit: LimitNOFILE=65536 (systemd), ulimit -n, ulimits (compose)", "%d may be open at once, so at most %d clients connect", files.Cur, d.MaxClients)
	default:
		d.ok("open files", "%d may be open at once, %d of them clients", files.Cur, d.MaxClients)
	}
	d.memory(ContainerMemory())
	d.space()
	d.ok("RS256 signatures", "by %s", rs256.Library())
}

// memory compares what a container may use with what Go was told (GOMEMLIMIT).
func (d *doctor) memory(container int64, err error) {
	told := debug.SetMemoryLimit(-1) // only asks
	isTold := told != math.MaxInt64
	switch {
	case d.failed("memory", err):
	case container == 0 && !isTold:
		d.ok("memory", "no limit; %d cores", runtime.GOMAXPROCS(0))
	case container == 0:
		d.ok("memory", "GOMEMLIMIT is %d MiB; the container has no limit", told/mebibyte)
	case !isTold: // a node takes nine tenths of it
		d.ok("memory", "the container ends at %d MiB, which nodes keep to", container/mebibyte)
	case told > container:
		d.warn("memory", "lower GOMEMLIMIT below the limit of the container", "GOMEMLIMIT is %d MiB, the container ends at %d MiB", told/mebibyte, container/mebibyte)
	default:
		d.ok("memory", "GOMEMLIMIT is %d MiB of the container's %d", told/mebibyte, container/mebibyte)
	}
	if 0 < container && container < 192*mebibyte {
		d.warn("memory", "give it 256 MiB: a password hash takes 19 MiB, and each core may run one", "%d MiB are little", container/mebibyte)
	}
}

// space looks at the folder that exports and imports go through.
func (d *doctor) space() {
	const little = 1 << 30
	folder := cmp.Or(d.TransferDir, os.TempDir())
	free, usual, err := spool.Free(folder)
	if d.failed("transfer folder", err) {
		return
	}
	probe, err := os.CreateTemp(folder, "writ-doctor-*")
	if err != nil {
		d.warn("transfer folder", "name a folder that it may write to: --transfer-dir", "nothing can be exported and imported: %v", err)
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	most := cmp.Or(d.TransferSpace, usual)
	switch {
	case free < most:
		d.warn("transfer folder", "make room, name a larger folder (--transfer-dir), or bound what moves (--transfer-space)",
			"%s has %d MiB, and what moves may be %d MiB", folder, free/mebibyte, most/mebibyte)
	case free < little:
		d.warn("transfer folder", "make room, or name a larger folder: --transfer-dir", "%s has %d MiB; exports and imports go through it", folder, free/mebibyte)
	default:
		d.ok("transfer folder", "%s has %d MiB, of which what moves gets %d", folder, free/mebibyte, most/mebibyte)
	}
}

// ContainerMemory returns the memory that the container of this process may use, 0 when
// there is no limit.
func ContainerMemory() (int64, error) { return containerMemory("/") }

// containerMemory is ContainerMemory with files below root: the least limit on the way from
// the process's group to the root of its hierarchy (cgroup v2), or that of v1.
func containerMemory(root string) (int64, error) {
	least := int64(0)
	take := func(path string) error {
		text, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n < math.MaxInt64/2 && (least == 0 || n < least) { // "max", or v1's nearly all of it: none
			least = n
		}
		return nil
	}
	group := ""
	if text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup")); err == nil {
		for line := range strings.Lines(string(text)) {
			if path, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::"); v2 {
				group = path
			}
		}
	}
	for at := filepath.Join("/", group); ; at = filepath.Dir(at) {
		if err := take(filepath.Join("sys/fs/cgroup", at, "memory.max")); err != nil {
			return 0, err
		}
		if at == "/" {
			break
		}
	}
	return least, take("sys/fs/cgroup/memory/memory.limit_in_bytes")
}
