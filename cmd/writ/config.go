package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/writ-id/writ/impl/server"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at what a node is told: flags, environment, files, defaults",
		Long: `Settings come from the command line, else from the environment, else from the
files of --config (of several, the last that has it), else they have their default.
The keys of a file are the names of the flags of writ serve:

  addr: ":8080"
  database-url-file: /run/secrets/database-url
  outgoing-allow: [10.0.0.0/8]

Each has a twin that ends in -file and names a file that holds the value. One file
serves all commands; a key that none knows is refused.`,
	}
	command := func(use, short, example string, run func(cmd *cobra.Command, s *serve) error) *cobra.Command {
		var s serve
		one := &cobra.Command{Use: use, Short: short, Example: example, Args: cobra.NoArgs}
		s.add(one)
		one.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd, &s) }
		cmd.AddCommand(one)
		return one
	}
	command("validate", "Exit with 0 if writ serve would take its settings, else say what is wrong with them", "  writ config validate --config /etc/writ/writ.yaml",
		func(cmd *cobra.Command, s *serve) error {
			if err := s.validate(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the settings are valid; writ doctor looks at what they name")
			return nil
		})
	var format string
	printing := command("print", "Print the settings of writ serve and where each comes from, secrets masked", "  writ config print --config /etc/writ/writ.yaml",
		func(cmd *cobra.Command, _ *serve) error { return printSettings(cmd, format) })
	printing.Flags().StringVar(&format, "format", "yaml", "yaml, which is a configuration file again, or json")
	cmd.AddCommand(&cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of configuration files, for editors", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeJSON(cmd.OutOrStdout(), settingsSchema(cmd.Root()))
		},
	})
	return cmd
}

// validate says all that is wrong with the settings of a node, as far as they say it
// themselves: files are read, nothing is opened.
func (s *serve) validate() error {
	var wrong []error
	p, err := s.prepare()
	_, further := s.configure(server.Config{})
	wrong = append(wrong, err, further)
	for name, given := range map[string]string{"--database-url": p.database, "--pooler-url": s.pooler} {
		if given == "" {
			continue
		}
		if _, err := pgx.ParseConfig(given); err != nil { // without its password
			wrong = append(wrong, usageError{fmt.Errorf("%s: %w", name, err)})
		}
	}
	return errors.Join(wrong...)
}

// secretSettings tells of settings that hold a secret how to print them.
var secretSettings = map[string]func(string) string{
	"database-url": maskURL, "pooler-url": maskURL, "master-key": mask, "token": mask,
}

const masked = "xxxxx"

func mask(value string) string {
	if value == "" {
		return ""
	}
	return masked
}

// maskURL hides the password of a database's URL, and all of what is none.
func maskURL(value string) string {
	at, err := url.Parse(value)
	if err != nil || at.Scheme == "" {
		return mask(value)
	}
	query := at.Query()
	for name := range query {
		if strings.Contains(name, "password") {
			query.Set(name, masked)
		}
	}
	at.RawQuery = query.Encode()
	return at.Redacted()
}

// printed is one setting as it is shown.
type printed struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

func printSettings(cmd *cobra.Command, format string) error {
	var all []printed
	of := newServe().Flags()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if of.Lookup(f.Name) == nil || f.Name == "help" {
			return
		}
		one := printed{f.Name, valueOf(f), "default"}
		if f.Changed {
			one.Origin = "flag"
		}
		if from := f.Annotations[origin]; len(from) > 0 {
			one.Origin = from[0]
		}
		all = append(all, one)
	})
	switch format {
	case "json":
		return writeJSON(cmd.OutOrStdout(), all)
	case "yaml":
		for _, one := range all {
			text, err := yaml.Marshal(map[string]any{one.Name: one.Value})
			if err != nil {
				return err
			}
			line := strings.TrimRight(string(text), "\n")
			if strings.Contains(line, "\n") { // a list
				line = strings.Replace(line, "\n", " # "+one.Origin+"\n", 1)
			} else {
				line += " # " + one.Origin
			}
			fmt.Fprintln(cmd.OutOrStdout(), line)
		}
		return nil
	}
	return usageError{fmt.Errorf("--format: %q is not yaml or json", format)}
}

// valueOf returns the value of a flag in the type that a configuration file has it in.
func valueOf(f *pflag.Flag) any {
	text := f.Value.String()
	if hide, secret := secretSettings[f.Name]; secret {
		return hide(text)
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return append([]string{}, list.GetSlice()...)
	}
	switch typeOf(f) {
	case "boolean":
		return text == "true"
	case "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "number":
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	}
	return text
}

// typeOf returns the JSON Schema type of a flag's value, a list's of its items.
func typeOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "boolean"
	case "int", "int32", "int64", "uint", "uint16", "uint32", "uint64":
		return "integer"
	case "float32", "float64":
		return "number"
	}
	return "string"
}

// settingsSchema describes configuration files.
func settingsSchema(root *cobra.Command) any {
	flags := map[string]*pflag.Flag{}
	for _, c := range allCommands(root) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, there := flags[f.Name]; f.Name != "help" && f.Name != configFlag && (!there || c.Name() == "serve") { // serve says it best
				flags[f.Name] = f
			}
		})
	}
	properties := map[string]any{}
	for name, f := range flags {
		one := map[string]any{"type": typeOf(f), "description": f.Usage}
		_, isList := f.Value.(pflag.SliceValue)
		switch {
		case isList:
			one = map[string]any{"description": f.Usage, "anyOf": []any{
				map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, map[string]any{"type": "string"},
			}}
		case f.Value.Type() == "duration":
			one["pattern"] = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`
		}
		if f.DefValue != "" && !isList {
			one["default"] = valueOf(&pflag.Flag{Name: name, Value: defaulted{f}})
		}
		properties[name] = one
		if twin := name + "-file"; flags[twin] == nil {
			properties[twin] = map[string]any{"type": "string", "description": "path of a file that holds the value of " + name}
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Settings of writ",
		"description": "A file for writ --config. Flags and the environment win over it.",
		"type":        "object", "properties": properties, "additionalProperties": false,
	}
}

// defaulted is the default of a flag, as a value.
type defaulted struct{ *pflag.Flag }

// String implements pflag.Value.
func (d defaulted) String() string { return d.DefValue }

// Set implements pflag.Value.
func (d defaulted) Set(string) error { return errors.ErrUnsupported }

// Type implements pflag.Value.
func (d defaulted) Type() string { return d.Value.Type() }

func writeJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
