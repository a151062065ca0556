package heap

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// forgetProgram takes the pages of the program's file out of this process that are only
// read. Whichever is needed comes back by itself.
func forgetProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // 00400000-03a5c000 r-xp 00000000 fe:00 131 /usr/bin/writ
		if len(fields) < 6 || fields[5] != program || fields[1] != "r-xp" && fields[1] != "r--p" {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		begin, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && begin < end {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(begin), uintptr(end-begin), syscall.MADV_DONTNEED)
		}
	}
}
