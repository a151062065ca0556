package memlimit

import (
	"os"
	"syscall"
	"testing"
)

// TestWhatWasWrittenIntoAMappingOfTheProgramStays maps the program once more and does with the
// mapping what the loader of shared libraries does with its tables: it writes, and then only reads.
func TestWhatWasWrittenIntoAMappingOfTheProgramStays(t *testing.T) {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, test := range []struct {
		name    string
		written byte
	}{{"written", 42}, {"only read", 0x7f}} {
		mapping, err := syscall.Mmap(int(program.Fd()), 0, 3*os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		if mapping[0] != test.written {
			mapping[0] = test.written
		}
		if err := syscall.Mprotect(mapping, syscall.PROT_READ); err != nil {
			t.Fatal(err)
		}
		forgetProgram()
		if mapping[0] != test.written {
			t.Errorf("%s: got %d, want %d", test.name, mapping[0], test.written)
		}
		if err := syscall.Munmap(mapping); err != nil {
			t.Fatal(err)
		}
	}
}
