package memlimit

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// forgetProgram takes the pages of the program's file out of this process that are only
// read. Whichever is needed comes back by itself, as it is in the file: so a mapping that
// anything was written into stays, as the loader does before it makes a table read-only (RELRO).
func forgetProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var begin, end uint64 // of the mapping that the lines are about; 0 is one that stays
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) < 2:
		case !strings.HasSuffix(fields[0], ":"): // 00400000-03a5c000 r-xp 00000000 fe:00 131 /usr/bin/writ
			begin, end = 0, 0
			if len(fields) == 6 && fields[5] == program && (fields[1] == "r-xp" || fields[1] == "r--p") {
				from, to, _ := strings.Cut(fields[0], "-")
				begin, _ = strconv.ParseUint(from, 16, 64)
				end, _ = strconv.ParseUint(to, 16, 64)
			}
		case (fields[0] == "Anonymous:" || fields[0] == "Swap:") && fields[1] != "0": // kB that are its own
			begin = 0
		case fields[0] == "VmFlags:" && 0 < begin && begin < end: // the last line about it
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(begin), uintptr(end-begin), syscall.MADV_DONTNEED)
		}
	}
}
