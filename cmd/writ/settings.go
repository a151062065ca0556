package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// configFlag names the configuration files; every command has it.
const configFlag = "config"

// bind sets the flags of cmd that were not given: from the environment, then from the
// configuration files, which the environment may name.
func bind(root, cmd *cobra.Command, environ []string) error {
	if err := bindEnvironment(root, cmd, environ); err != nil {
		return err
	}
	paths, err := cmd.Flags().GetStringSlice(configFlag)
	if err != nil {
		return err
	}
	found := settings{}
	for _, path := range paths {
		if err := found.read(path, flagNames(root)); err != nil {
			return err
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		one, ok := found[f.Name]
		if !ok || !isBound(f) || err != nil {
			return
		}
		if one.file != "" {
			var value string
			if value, err = readValue(one.file); err != nil {
				err = fmt.Errorf("%s: %w", one.from, err)
				return
			}
			one.values = []string{value}
		}
		if wrong := setFlag(f, one.values, "file "+one.from); wrong != nil {
			err = fmt.Errorf("%s: %s: %w", one.from, f.Name, wrong)
		}
	})
	return err
}

// settings are those of configuration files, by the names of flags.
type settings map[string]fileSetting

// fileSetting is a value, or the path of a file that holds it.
type fileSetting struct {
	values []string
	file   string
	from   string // path:line
}

// read adds the settings of a file, which win over those that are there. A key that no
// command knows is refused: a misspelt setting must not be silently ignored.
func (s settings) read(path string, known []string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", configFlag, err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("--%s: %s: %w", configFlag, path, err)
	}
	if len(document.Content) == 0 { // nothing but comments
		return nil
	}
	content := document.Content[0]
	if content.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: it has to be a mapping of settings, such as addr: \":8080\"", path, content.Line)
	}
	here := map[string]string{}
	for i := 0; i+1 < len(content.Content); i += 2 {
		key, value := content.Content[i], content.Content[i+1]
		from := fmt.Sprintf("%s:%d", path, key.Line)
		name := key.Value
		byFile := !slices.Contains(known, name) && slices.Contains(known, strings.TrimSuffix(name, "-file"))
		if byFile {
			name = strings.TrimSuffix(name, "-file")
		}
		if !slices.Contains(known, name) || name == configFlag {
			return fmt.Errorf("%s: the setting %q is unknown%s", from, key.Value, suggestion(key.Value, known))
		}
		if before, twice := here[name]; twice {
			return fmt.Errorf("%s: %s is set already, in %s", from, key.Value, before)
		}
		values, err := scalars(value)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", from, key.Value, err)
		}
		here[name] = from
		one := fileSetting{values: values, from: from}
		if byFile {
			if len(values) != 1 {
				return fmt.Errorf("%s: %s: it is the path of one file", from, key.Value)
			}
			one = fileSetting{file: values[0], from: from}
		}
		s[name] = one
	}
	return nil
}

// scalars returns what a value or a list of values says, as it is written.
func scalars(node *yaml.Node) ([]string, error) {
	switch {
	case node.Kind == yaml.AliasNode:
		return scalars(node.Alias)
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return nil, errors.New("it has no value; leave the key out for the default")
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}, nil
	case node.Kind != yaml.SequenceNode:
		return nil, errors.New("it has to be a value or a list of values")
	}
	values := []string{}
	for _, child := range node.Content {
		if child.Kind != yaml.ScalarNode {
			return nil, errors.New("it has to be a list of values")
		}
		values = append(values, child.Value)
	}
	return values, nil
}
