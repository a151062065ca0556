// Command sdk writes the client packages of the contract: one each for TypeScript, Python
// and Go. It reads what is published (gen/openapi), so a package knows what any client of
// others could know.
//
// What is the same whatever the contract says (calls, retries, tokens, errors, README files)
// is in _package as it will be in the packages; what the contract says (types, operations,
// examples) is written by a file of code for each language, over the model they share.
//
// Usage: sdk ROOT DIR, where ROOT is that of this module.
package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sdk ROOT DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		os.Exit(1)
	}
}

func run(root, dir string) error {
	document, err := os.ReadFile(filepath.Join(root, "gen/openapi/openapi.json"))
	if err != nil {
		return err
	}
	m, err := read(document)
	if err != nil {
		return err
	}
	if m.Reasons, err = reasons(filepath.Join(root, "contracts/reasons.txt")); err != nil {
		return err
	}
	files, err := packages(m)
	if err != nil {
		return err
	}
	grpc, err := stubs(root, goModule(m))
	if err != nil {
		return err
	}
	module, err := moduleFiles(root, m)
	if err != nil {
		return err
	}
	for name, content := range grpc {
		files["go/"+name] = content
	}
	for name, content := range module {
		files["go/"+name] = content
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return err
	}
	for _, language := range []string{"go", "python", "typescript"} {
		files[language+"/LICENSE"] = license
	}
	return write(dir, files)
}

// packages returns the files of all packages by their paths.
func packages(m *model) (map[string][]byte, error) {
	files := map[string][]byte{}
	for language, generate := range map[string]func(*model) (map[string][]byte, error){
		"go": goFiles, "python": pythonFiles, "typescript": typescriptFiles,
	} {
		made, err := generate(m)
		if err != nil {
			return nil, err
		}
		for name, content := range made {
			files[language+"/"+name] = content
		}
	}
	constant, err := constantFiles(m)
	maps.Copy(files, constant)
	return files, err
}

// sources are the parts of the packages that are written by hand. The folder's name hides
// the Go among them from the go command.
//
//go:embed all:_package
var sources embed.FS

// constantFiles fills the version into what is written by hand.
func constantFiles(m *model) (map[string][]byte, error) {
	files := map[string][]byte{}
	return files, fs.WalkDir(sources, "_package", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		source, err := sources.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := template.New(path).Delims("«", "»").Option("missingkey=error").Parse(string(source))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		err = parsed.Execute(&out, map[string]string{"Version": m.Version, "PythonVersion": pythonVersion(m.Version), "GoModule": goModule(m), "GoVersion": "v" + m.Version})
		files[strings.TrimPrefix(path, "_package/")] = out.Bytes()
		return err
	})
}

// write makes the folders hold these files and nothing else.
func write(dir string, files map[string][]byte) error {
	err := os.RemoveAll(dir)
	for name, content := range files {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644))
	}
	return err
}

// reasons are the values of ErrorInfo.reason that the contract names.
func reasons(name string) ([]string, error) {
	content, err := os.ReadFile(name)
	var all []string
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all, err
}
