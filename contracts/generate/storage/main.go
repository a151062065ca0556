// Command storage makes, of what the contract says about tables (writ.storage.v1),
// the statements and the Go code that store and show resources:
//
//   - sql/queries/generated: reading, locking, inserting, updating and deleting a row of
//     each table, for sqlc to check and compile (queries.go);
//   - sql/migrations/*_removals.sql: the triggers that append the events of rows that go
//     along with what they belong to (removals.go);
//   - gen/storage: for each table what package resource needs of it, and between rows and
//     messages Assign (assign.go), New (fill.go), Record (record.go) and Search
//     (search.go);
//   - gen/db/batches.go: rows for statements that take many as parallel arrays (batch.go).
//
// A field of a stored message that is no column and does not say so fails the run, as
// does a column that a request must not reach. Nothing is looked up by name later.
//
// It runs around sqlc: `storage sql` and `storage removals` read the models of a first run
// of sqlc, `storage go` those of the last.
//
// Usage: storage sql|removals|go IMAGE MODELS OUT
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: storage sql|removals|go IMAGE MODELS OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "storage:", err)
		os.Exit(1)
	}
}

func run(what, image, models, out string) error {
	plugin, err := load(image)
	if err != nil {
		return err
	}
	found, err := readModels(models, "sql")
	if err != nil {
		return err
	}
	var files map[string]string
	switch what {
	case "sql":
		files, err = queries(plugin, found)
	case "removals":
		text, err := removals(plugin, found)
		if err != nil {
			return err
		}
		return migrate(out, "removals.sql", text)
	case "go":
		if err := writeBatches(found, models); err != nil {
			return err
		}
		files, err = code(plugin, found)
	default:
		err = fmt.Errorf("%s is neither sql nor removals nor go", what)
	}
	if err != nil {
		return err
	}
	return replace(out, files)
}

func writeBatches(found *models, dir string) error {
	text, err := batches(found, found.queries)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "batches.go"), []byte(text), 0o644)
}

// load returns the contract in the form that protoc hands to plugins, so that names of Go
// are those of protoc-gen-go.
func load(image string) (*protogen.Plugin, error) {
	text, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	return pluginOf(&set)
}

func pluginOf(set *descriptorpb.FileDescriptorSet) (*protogen.Plugin, error) {
	request := &pluginpb.CodeGeneratorRequest{ProtoFile: set.GetFile()}
	for _, file := range set.GetFile() {
		if strings.HasPrefix(file.GetName(), "writ/") {
			request.FileToGenerate = append(request.FileToGenerate, file.GetName())
		}
	}
	return protogen.Options{}.New(request)
}

// replace writes files into a directory, which is for them alone.
func replace(dir string, files map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
