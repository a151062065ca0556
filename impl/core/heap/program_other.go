//go:build !linux

package heap

// forgetProgram leaves the pages of the program to the operating system.
func forgetProgram() {}
