package main

import (
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

// bindEnvironment sets the flags of cmd that were not given from the
// environment, by value or by file. A variable with our prefix that no command
// knows is refused: a misspelt setting must not be silently ignored.
func bindEnvironment(root, cmd *cobra.Command, environ []string) error {
	known := slices.Clone(ours)
	for _, c := range allCommands(root) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { known = append(known, variableOf(f.Name)) })
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
		if err != nil || f.Changed {
			return
		}
		value, ok := values[variable]
		if path, fromFile := values[variable+fileSuffix]; fromFile {
			if ok {
				err = fmt.Errorf("%s and %s%s are both set", variable, variable, fileSuffix)
				return
			}
			var content []byte
			if content, err = os.ReadFile(path); err != nil {
				err = fmt.Errorf("%s%s: %w", variable, fileSuffix, err)
				return
			}
			value, ok = strings.TrimRight(string(content), "\r\n"), true
		}
		if ok {
			if err = cmd.Flags().Set(f.Name, value); err != nil {
				err = fmt.Errorf("%s: %w", variable, err)
			}
		}
	})
	return err
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
