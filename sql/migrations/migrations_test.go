package migrations

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestREL074_WhatHasLandedStaysAsItIs compares the files with SHA256SUMS (package comment).
func TestREL074_WhatHasLandedStaysAsItIs(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile("SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	var landed []string
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		landed = append(landed, name)
		text, err := fs.ReadFile(Files, name)
		if err != nil {
			t.Errorf("%s has landed and is gone: %v", name, err)
		} else if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != sum {
			t.Errorf("%s has landed and changed: write a further migration (or see the package comment)", name)
		}
	}
	files, err := fs.Glob(Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if !slices.Contains(landed, name) {
			t.Errorf("%s is not in SHA256SUMS: sha256sum %[1]s >> SHA256SUMS, in sql/migrations", name)
		}
	}
	if !slices.IsSorted(landed) {
		t.Error("SHA256SUMS is not in the order of the numbers: a migration comes after all that landed before it")
	}
}
