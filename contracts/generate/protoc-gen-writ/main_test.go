package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// TestTheGoldenFilesAreGen runs the plugin over the published descriptors; what
// it writes is what is committed in gen/.
func TestTheGoldenFilesAreGen(t *testing.T) {
	t.Parallel()
	const root = "../../../gen/"
	image, err := os.ReadFile(root + "openapi/descriptors.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var files descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(image, &files); err != nil {
		t.Fatal(err)
	}
	request := &pluginpb.CodeGeneratorRequest{
		Parameter: proto.String("module=github.com/writ-id/writ/gen/proto"), ProtoFile: files.GetFile(),
	}
	for _, file := range files.GetFile() {
		if strings.HasPrefix(file.GetName(), "writ/") {
			request.FileToGenerate = append(request.FileToGenerate, file.GetName())
		}
	}
	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := generateAll(plugin); err != nil {
		t.Fatal(err)
	}
	response := plugin.Response()
	if response.GetError() != "" || len(response.GetFile()) < 5 {
		t.Fatalf("got %d files and %q", len(response.GetFile()), response.GetError())
	}
	for _, file := range response.GetFile() {
		want, err := os.ReadFile(filepath.Join(root, "proto", file.GetName()))
		if err != nil {
			t.Error(err)
		} else if file.GetContent() != string(want) {
			t.Errorf("%s differs from what the plugin writes; run make generate", file.GetName())
		}
	}
}
