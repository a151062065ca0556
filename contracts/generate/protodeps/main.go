// Command protodeps prints the .proto files that contracts/proto imports from
// elsewhere (google/api, google/rpc, google/protobuf, buf/validate) into a
// folder, so that buf works without a registry.
//
// The descriptors come from the Go packages linked below; their versions are
// therefore those of go.mod, and the printed files cannot differ from the code
// the server runs with. Usage: protodeps DIR
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"

	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/jhump/protoreflect/v2/protoprint"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// roots are the files that contracts/proto imports; what they import follows.
var roots = []string{
	"buf/validate/validate.proto",
	"google/api/annotations.proto",
	"google/rpc/error_details.proto",
	"google/rpc/status.proto",
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: protodeps DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protodeps:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files := map[string]protoreflect.FileDescriptor{}
	for _, root := range roots {
		file, err := protoregistry.GlobalFiles.FindFileByPath(root)
		if err != nil {
			return fmt.Errorf("%s is not linked: %w", root, err)
		}
		collect(file, files)
	}
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	printer := protoprint.Printer{Compact: true}
	for _, path := range paths {
		text, err := printer.PrintProtoToString(files[path])
		if err != nil {
			return fmt.Errorf("print %s: %w", path, err)
		}
		target := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// collect adds file and its imports, except google/protobuf/*, which buf knows.
func collect(file protoreflect.FileDescriptor, files map[string]protoreflect.FileDescriptor) {
	if _, seen := files[file.Path()]; seen || filepath.Dir(file.Path()) == "google/protobuf" {
		return
	}
	files[file.Path()] = file
	for i := range file.Imports().Len() {
		collect(file.Imports().Get(i).FileDescriptor, files)
	}
}
