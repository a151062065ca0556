package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"

	"github.com/spf13/pflag"

	"github.com/writ-id/writ/impl/dev/ready"
	"github.com/writ-id/writ/impl/dev/seed"
)

// secretsFlag says where the secrets go that a seed leaves out, and that are generated.
type secretsFlag struct{ file string }

func (f *secretsFlag) add(flags *pflag.FlagSet, otherwise string) {
	flags.StringVar(&f.file, "secrets-file", "", "file for the secrets that the seed leaves out and that are generated: JSON that only its owner reads (0600), added to what is there; "+otherwise)
}

// keep writes what was generated into the file, beside what it holds.
func (f *secretsFlag) keep(generated map[string]string) error {
	known := map[string]string{}
	text, err := os.ReadFile(f.file)
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--secrets-file: %s: %w", f.file, err)
	}
	maps.Copy(known, generated)
	if err := ready.WriteFile(f.file, known); err != nil {
		return fmt.Errorf("--secrets-file: %w", err)
	}
	return nil
}

// orRefuse is keep, for what runs where no person reads what it prints: without a file
// nothing is applied.
func (f *secretsFlag) orRefuse(generated map[string]string) error {
	if f.file == "" {
		return usageError{fmt.Errorf("the seed leaves out %d secrets, which are generated: say where to write them with --secrets-file FILE, or give them in the seed", len(generated))}
	}
	return f.keep(generated)
}

// printGenerated prints the secrets that were generated, or where they are.
func (f *secretsFlag) printGenerated(out io.Writer, applied *seed.Applied) {
	if f.file != "" && len(applied.Generated) > 0 {
		fmt.Fprintf(out, "%d secrets were generated; %s has them\n", len(applied.Generated), f.file)
		return
	}
	for _, path := range applied.Generated {
		fmt.Fprintf(out, "generated, shown once: %s = %s\n", path, applied.Secrets[path])
	}
}
