//go:build !linux

package memlimit

// forgetProgram leaves the pages of the program to the operating system.
func forgetProgram() {}
