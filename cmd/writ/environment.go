package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	prefix     = "WRIT_"
	fileSuffix = "_FILE"
)

// variableOf returns the environment variable of a flag.
func variableOf(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// origin is the annotation of a flag that says where its value comes from.
const origin = "origin"

// typedOnly is the annotation of a flag that only the command line sets: what the environment or
// a configuration file says there is about another server.
const typedOnly = "typed-only"

// onlyTyped marks flags of a command with it.
func onlyTyped(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[typedOnly] = []string{"true"}
		f.Usage += "; not from the environment or a configuration file, which are about other servers here"
	}
}

// isBound reports whether a flag was not given and may be set by something else.
func isBound(f *pflag.Flag) bool { return !f.Changed && f.Annotations[typedOnly] == nil }

// setFlag gives a flag a value, a list if it takes one, and notes where it is from.
func setFlag(f *pflag.Flag, values []string, from string) error {
	list, isList := f.Value.(pflag.SliceValue)
	var err error
	switch {
	case isList && len(values) != 1:
		err = list.Replace(values)
	case len(values) != 1:
		err = errors.New("it is one value, not a list")
	default:
		err = f.Value.Set(values[0])
	}
	if err != nil {
		return err
	}
	f.Changed = true
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[origin] = []string{from}
	return nil
}

// flagNames are the names of the flags of all commands: what a variable or a key of a
// configuration file may be about. One file, one environment serves all commands.
func flagNames(root *cobra.Command) []string {
	var names []string
	for _, c := range allCommands(root) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		})
	}
	return names
}

// bindEnvironment sets the flags of cmd that were not given from the
// environment, by value or by file. A variable with our prefix that no command
// knows is refused: a misspelt setting must not be silently ignored.
func bindEnvironment(root, cmd *cobra.Command, environ []string) error {
	known := slices.Clone(ours)
	for _, name := range flagNames(root) {
		known = append(known, variableOf(name))
	}
	values := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, prefix+"TEST_") {
			continue
		}
		if !slices.Contains(known, name) && !slices.Contains(known, strings.TrimSuffix(name, fileSuffix)) {
			return fmt.Errorf("the environment variable %s is unknown%s", name, suggestion(name, known))
		}
		values[name] = value
	}
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		variable := variableOf(f.Name)
		if err != nil || !isBound(f) {
			return
		}
		value, ok := values[variable]
		from := "environment " + variable
		if path, fromFile := values[variable+fileSuffix]; fromFile {
			if ok {
				err = fmt.Errorf("%s and %s%s are both set", variable, variable, fileSuffix)
				return
			}
			if slices.Contains(known, variable+fileSuffix) {
				return // a flag of its own, which takes the path
			}
			if value, err = readValue(path); err != nil {
				err = fmt.Errorf("%s%s: %w", variable, fileSuffix, err)
				return
			}
			ok, from = true, from+fileSuffix
		}
		if ok {
			if err = setFlag(f, []string{value}, from); err != nil {
				err = fmt.Errorf("%s: %w", variable, err)
			}
		}
	})
	return err
}

// readValue reads a value that a file holds; the end of its last line is none of it.
func readValue(path string) (string, error) {
	content, err := os.ReadFile(path)
	return strings.TrimRight(string(content), "\r\n"), err
}

func allCommands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, child := range root.Commands() {
		all = append(all, allCommands(child)...)
	}
	return all
}

// suggestion names the known variable that is nearest, if one is near.
func suggestion(name string, known []string) string {
	best, distance := "", 4
	for _, candidate := range known {
		if d := editDistance(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// editDistance is the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
