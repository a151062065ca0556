package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// Modules that the gRPC part of the Go module is made of, and those that these need.
var goModules = []string{
	"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf",
	"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
}

const goDirect = 3 // of goModules

// What go.sum lists besides, because tests of these need it.
var goSums = []string{"github.com/golang/protobuf", "github.com/google/go-cmp", "gonum.org/v1/gonum"}

// moduleFiles returns go.mod and go.sum, with the versions of the root module.
func moduleFiles(root string, m *model) (map[string][]byte, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return nil, err
	}
	t, sums := &text{}, &text{}
	t.line("module %s\n\ngo 1.26.0\n\nrequire (", goModule(m))
	for i, module := range goModules {
		version := ""
		for line := range strings.Lines(string(mod)) {
			if fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); len(fields) > 1 && fields[0] == module {
				version = fields[1]
			}
		}
		if version == "" {
			return nil, fmt.Errorf("go.mod does not require %s: add it by go get", module)
		}
		if i == goDirect {
			t.line(")\n\nrequire (")
		}
		t.line("\t%s %s%s", module, version, map[bool]string{true: " // indirect"}[i >= goDirect])
	}
	t.line(")")
	for line := range strings.Lines(string(sum)) {
		fields := strings.Fields(line)
		used := slices.Contains(goModules, fields[0]) && strings.Contains(t.String(), fields[0]+" "+strings.TrimSuffix(fields[1], "/go.mod"))
		whole := strings.Contains(string(sum), fields[0]+" "+strings.TrimSuffix(fields[1], "/go.mod")+" h1:")
		if used || whole && slices.Contains(goSums, fields[0]) {
			sums.WriteString(line)
		}
	}
	return map[string][]byte{"go.mod": []byte(t.String()), "go.sum": []byte(sums.String())}, nil
}

// stubs returns the messages and gRPC clients of the services as Go packages of the module.
// They are made of the descriptors without the options of ours, which concern the server.
func stubs(root, module string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, "gen/openapi/descriptors.binpb"))
	if err != nil {
		return nil, err
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(text, set); err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String("module=" + module)}
	files := stripped(set, module+"/writgrpc/")
	request.ProtoFile = files
	for _, file := range files {
		if strings.HasPrefix(file.GetPackage(), "writ.") {
			request.FileToGenerate = append(request.FileToGenerate, file.GetName())
		}
	}
	made := map[string][]byte{}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		input, err := proto.Marshal(request)
		if err != nil {
			return nil, err
		}
		command := exec.Command(filepath.Join(root, "bin", plugin))
		command.Stdin, command.Stderr = strings.NewReader(string(input)), os.Stderr
		output, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		response := &pluginpb.CodeGeneratorResponse{}
		if err := proto.Unmarshal(output, response); err != nil {
			return nil, err
		}
		if response.GetError() != "" {
			return nil, fmt.Errorf("%s: %s", plugin, response.GetError())
		}
		for _, file := range response.File {
			made[file.GetName()] = []byte(file.GetContent())
		}
	}
	return made, nil
}

// stripped returns the files of services and what these need, without options but those of
// protobuf itself and without the imports that only options need.
func stripped(set *descriptorpb.FileDescriptorSet, prefix string) []*descriptorpb.FileDescriptorProto {
	byName := map[string]*descriptorpb.FileDescriptorProto{}
	for _, file := range set.File {
		byName[file.GetName()] = file
	}
	needed := map[string]bool{}
	var need func(name string)
	need = func(name string) {
		if file := byName[name]; !needed[name] {
			needed[name] = true
			file.Dependency = slices.DeleteFunc(file.Dependency, onlyOptions)
			for _, each := range file.Dependency {
				need(each)
			}
		}
	}
	for _, file := range set.File {
		if len(file.Service) > 0 && strings.HasPrefix(file.GetPackage(), "writ.") {
			need(file.GetName())
		}
	}
	var kept []*descriptorpb.FileDescriptorProto
	for _, file := range set.File {
		if !needed[file.GetName()] {
			continue
		}
		if strings.HasPrefix(file.GetPackage(), "writ.") {
			strip(file)
			// writ.action.v3alpha is the package actionv3alpha in writgrpc/action/v3alpha.
			path := strings.ReplaceAll(strings.TrimPrefix(file.GetPackage(), "writ."), ".", "/")
			file.Options.GoPackage = proto.String(prefix + path + ";" + strings.ReplaceAll(path, "/", ""))
		}
		kept = append(kept, file)
	}
	return kept
}

func onlyOptions(name string) bool {
	return strings.HasPrefix(name, "buf/") || strings.HasPrefix(name, "google/api/") || strings.HasPrefix(name, "writ/policy/") || strings.HasPrefix(name, "writ/storage/")
}

func strip(file *descriptorpb.FileDescriptorProto) {
	file.PublicDependency, file.WeakDependency = nil, nil
	file.Options = &descriptorpb.FileOptions{}
	for _, service := range file.Service {
		service.Options = nil
		for _, method := range service.Method {
			method.Options = nil
		}
	}
	for _, enum := range file.EnumType {
		stripEnum(enum)
	}
	for _, message := range file.MessageType {
		stripMessage(message)
	}
}

func stripMessage(message *descriptorpb.DescriptorProto) {
	if message.Options != nil {
		message.Options = &descriptorpb.MessageOptions{MapEntry: message.Options.MapEntry}
	}
	for _, field := range message.Field {
		field.Options = nil
	}
	for _, group := range message.OneofDecl {
		group.Options = nil
	}
	for _, enum := range message.EnumType {
		stripEnum(enum)
	}
	for _, nested := range message.NestedType {
		stripMessage(nested)
	}
}

func stripEnum(enum *descriptorpb.EnumDescriptorProto) {
	enum.Options = nil
	for _, value := range enum.Value {
		value.Options = nil
	}
}
