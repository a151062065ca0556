package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// node returns a folder with the tools and libraries of Node.js.
func node(t *testing.T) string {
	t.Helper()
	needs(t, "node", "install Node.js 20 or newer")
	npm := needs(t, "npm", "install Node.js 20 or newer with npm")
	wanted := read(t, "node/package.json", "node/package-lock.json")
	return made(t, artifact{"node-tools", wanted, func(dir string) error {
		return errors.Join(write(dir, "package.json", wanted[0]), write(dir, "package-lock.json", wanted[1]),
			run(command{dir: dir, args: []string{npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}}))
	}})
}

// TestTypeScript compiles three clients at once, strictly, and runs each.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	c, tools, environment := published(t), node(t), python(t)
	names := []string{"package.json", "package-lock.json", "tsconfig.json", "openapi-ts.config.js", "check.ts", "hey-api.ts", "openapi-typescript.ts", "connect-es.ts"}
	inputs := [][]byte{c.document, c.descriptors}
	for _, name := range names {
		inputs = append(inputs, read(t, "node/"+name)...)
	}
	files := c.protoFiles(t, "google/protobuf/") // of @bufbuild/protobuf
	dir := made(t, artifact{"typescript", inputs, func(dir string) error {
		err := errors.Join(write(dir, "openapi.json", c.document), write(dir, "descriptors.binpb", c.descriptors),
			os.Symlink(filepath.Join(tools, "node_modules"), filepath.Join(dir, "node_modules")), os.Mkdir(filepath.Join(dir, "connect-es"), 0o755))
		for i, name := range names {
			err = errors.Join(err, write(dir, name, inputs[2+i]))
		}
		protoc := []string{environment + "/bin/python", "-m", "grpc_tools.protoc", "--descriptor_set_in=descriptors.binpb",
			"--plugin=protoc-gen-es=node_modules/.bin/protoc-gen-es", "--es_out=connect-es", "--es_opt=target=ts,import_extension=js"}
		for _, args := range [][]string{
			{"node_modules/.bin/openapi-ts"},
			{"node_modules/.bin/openapi-typescript", "openapi.json", "-o", "openapi-typescript/schema.d.ts"},
			append(protoc, files...),
			{"node_modules/.bin/tsc", "-p", "tsconfig.json"},
		} {
			if err == nil {
				err = run(command{dir: dir, args: args})
			}
		}
		return err
	}})
	for _, client := range []struct {
		name  string
		oauth bool
	}{{"hey-api", true}, {"openapi-typescript", true}, {"connect-es", false}} {
		t.Run(client.name, func(t *testing.T) {
			converses(t, client.name, client.oauth, command{dir: dir, args: []string{"node", "out/" + client.name + ".js"}})
		})
	}
}

// TestLinters holds the document, in both versions, to the recommended rules of
// redocly and spectral: not even a warning.
func TestLinters(t *testing.T) {
	t.Parallel()
	c, tools := published(t), node(t)
	rules := read(t, "node/spectral.json")
	made(t, artifact{"lint", append(read(t, "node/package-lock.json", "node/spectral.json"), c.document, c.document31), func(dir string) error {
		err := errors.Join(write(dir, "openapi.json", c.document), write(dir, "openapi-3.1.json", c.document31), write(dir, "spectral.json", rules[0]))
		for _, name := range []string{"openapi.json", "openapi-3.1.json"} {
			redocly := exec.Command(tools+"/node_modules/.bin/redocly", "lint", "--max-problems=20", "--format=json", name)
			redocly.Dir = dir
			report, failed := redocly.Output() // that fails for errors only
			var found struct {
				Totals struct{ Errors, Warnings int }
			}
			if failed := errors.Join(failed, json.Unmarshal(report, &found)); failed != nil || found.Totals.Errors+found.Totals.Warnings > 0 {
				err = errors.Join(err, fmt.Errorf("redocly of %s: %w\n%s", name, failed, report))
			}
			err = errors.Join(err, run(command{dir: dir, args: []string{
				tools + "/node_modules/.bin/spectral", "lint", "--fail-severity=hint", "-r", "spectral.json", name,
			}}))
		}
		return err
	}})
}
