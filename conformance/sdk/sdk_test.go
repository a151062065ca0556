package sdk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/writ-id/writ/conformance/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// contract is what the server publishes.
type contract struct{ document, document31, descriptors []byte }

var fetched = sync.OnceValues(func() (*contract, error) {
	c := &contract{}
	for path, into := range map[string]*[]byte{
		"/openapi.json": &c.document, "/openapi.json?version=3.1": &c.document31, "/proto": &c.descriptors,
	} {
		response, err := http.Get(server.Issuer + path)
		if err != nil {
			return nil, err
		}
		*into, err = io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: HTTP %d, %w", path, response.StatusCode, err)
		}
	}
	return c, nil
})

var (
	server  *harness.Server
	started sync.Once
)

func published(t *testing.T) *contract {
	t.Helper()
	started.Do(func() { server = harness.Shared(t) })
	if server == nil {
		t.Fatal("there is no server")
	}
	c, err := fetched()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// protoFiles returns the files of the descriptors that no library brings along.
func (c *contract) protoFiles(t *testing.T, brought ...string) []string {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(c.descriptors, set); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range set.File {
		if !slices.ContainsFunc(brought, func(prefix string) bool { return strings.HasPrefix(file.GetName(), prefix) }) {
			names = append(names, file.GetName())
		}
	}
	return names
}

// write puts a file into a folder.
func write(dir, name string, text []byte) error {
	path := filepath.Join(dir, name)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644))
}

// converses runs a program of a client and compares what it says it did.
func converses(t *testing.T, name string, oauth bool, program command) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program.args[0], program.args[1:]...)
	cmd.Dir = program.dir
	target := "SDK " + name
	cmd.Env = append(append(os.Environ(), program.env...),
		"WRIT_URL="+server.Issuer, "WRIT_TOKEN="+server.AdminToken, "WRIT_NAME="+target,
		"WRIT_CLIENT_ID="+server.ServiceUser.ClientID, "WRIT_CLIENT_SECRET="+server.ServiceUser.ClientSecret)
	var said, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &failed
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, ending(said.Bytes()), ending(failed.Bytes()))
	}
	want := []string{
		`created [0-9a-f-]{36}`, `read None`, `found 1`, `patched https://hooks\.example/b`,
		`refused (409|ALREADY_EXISTS|AlreadyExists) TARGET_NAME_TAKEN`, `deleted (404|NOT_FOUND|NotFound)`,
	}
	if oauth {
		want = append(want, `token (Bearer|BEARER)`)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d steps, want %d:\n%s", len(lines), len(want), said.String())
	}
	for i, pattern := range want {
		if !regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(lines[i])) {
			t.Errorf("got %q, want %s", lines[i], pattern)
		}
	}
}

// generator makes a client with openapi-generator.
func (c *contract) generator(t *testing.T, language string, options ...string) func(dir string) error {
	t.Helper()
	tools := python(t)
	java := needs(t, "java", "openapi-generator is a Java program (apt-get install default-jdk-headless)")
	jar, err := filepath.Glob(filepath.Join(tools, "lib/python3*/site-packages/openapi_generator_cli/openapi-generator.jar"))
	if err != nil || len(jar) != 1 {
		t.Fatalf("openapi-generator.jar is not in %s", tools)
	}
	return func(dir string) error {
		if err := write(dir, "openapi.json", c.document); err != nil {
			return err
		}
		args := []string{java, "-jar", jar[0], "generate", "-g", language, "-i", "openapi.json", "-o", "openapi"}
		return run(command{dir: dir, args: append(args, options...)})
	}
}

// python returns a virtual environment with the tools and libraries of Python.
func python(t *testing.T) string {
	t.Helper()
	python3 := needs(t, "python3", "apt-get install python3-venv")
	wanted := read(t, "requirements.txt")
	version, err := exec.Command(python3, "--version").Output() // it is linked to
	if err != nil {
		t.Fatal(err)
	}
	return made(t, artifact{"python-tools", append(wanted, []byte(python3), version), func(dir string) error {
		if err := run(command{dir: dir, args: []string{python3, "-m", "venv", "."}}); err != nil {
			return err
		}
		if err := write(dir, "requirements.txt", wanted[0]); err != nil {
			return err
		}
		return run(command{dir: dir, args: []string{"bin/pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"}})
	}})
}

func TestOpenAPIGeneratorPython(t *testing.T) {
	t.Parallel()
	c, tools, program := published(t), python(t), read(t, "python/client.py")
	generate := c.generator(t, "python")
	dir := made(t, artifact{"python", append(read(t, "requirements.txt", "python/client.py"), c.document), func(dir string) error {
		return errors.Join(generate(dir), write(dir, "openapi/client.py", program[0]),
			run(command{dir: dir, args: []string{tools + "/bin/python", "-m", "compileall", "-q", "openapi/openapi_client"}}))
	}})
	converses(t, "python", true, command{dir: dir, args: []string{tools + "/bin/python", "openapi/client.py"}})
}

func TestOpenAPIPythonClient(t *testing.T) {
	t.Parallel()
	c, tools, program := published(t), python(t), read(t, "openapi-python-client/client.py")
	dir := made(t, artifact{"openapi-python-client", append(read(t, "requirements.txt", "openapi-python-client/client.py"), c.document), func(dir string) error {
		err := errors.Join(write(dir, "openapi.json", c.document), write(dir, "client.py", program[0]))
		return errors.Join(err,
			run(command{dir: dir, env: []string{"PATH=" + tools + "/bin:" + os.Getenv("PATH")}, args: []string{
				tools + "/bin/openapi-python-client", "generate", "--fail-on-warning", "--path", "openapi.json", "--output-path", "writ_client", "--meta", "none",
			}}),
			run(command{dir: dir, args: []string{tools + "/bin/python", "-m", "compileall", "-q", "writ_client"}}))
	}})
	converses(t, "openapi-python-client", true, command{dir: dir, args: []string{tools + "/bin/python", "client.py"}})
}

func TestGRPCIOTools(t *testing.T) {
	t.Parallel()
	c, tools, program := published(t), python(t), read(t, "grpcio/client.py")
	files := c.protoFiles(t, "google/") // of protobuf and googleapis-common-protos
	dir := made(t, artifact{"grpcio", append(read(t, "requirements.txt", "grpcio/client.py"), c.descriptors), func(dir string) error {
		err := errors.Join(write(dir, "descriptors.binpb", c.descriptors), write(dir, "client.py", program[0]))
		args := []string{tools + "/bin/python", "-m", "grpc_tools.protoc", "--descriptor_set_in=descriptors.binpb", "--python_out=.", "--grpc_python_out=."}
		return errors.Join(err, run(command{dir: dir, args: append(args, files...)}))
	}})
	converses(t, "grpcio", false, command{dir: dir, args: []string{tools + "/bin/python", "client.py"}})
}

func TestOpenAPIGeneratorJava(t *testing.T) {
	t.Parallel()
	c, program := published(t), read(t, "java/Client.java")
	generate := c.generator(t, "java")
	javac := needs(t, "javac", "apt-get install default-jdk-headless")
	mvn := needs(t, "mvn", "it fetches the libraries (apt-get install maven)")
	dir := made(t, artifact{"java", append(read(t, "requirements.txt", "java/Client.java"), c.document), func(dir string) error {
		if err := errors.Join(generate(dir), write(dir, "openapi/src/main/java/Client.java", program[0])); err != nil {
			return err
		}
		sources := ""
		err := filepath.WalkDir(filepath.Join(dir, "openapi/src/main/java"), func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".java") {
				sources += path + "\n"
			}
			return err
		})
		return errors.Join(err, write(dir, "sources", []byte(sources)),
			run(command{dir: dir, args: []string{mvn, "-q", "-B", "-f", "openapi/pom.xml", "dependency:copy-dependencies", "-DincludeScope=compile", "-DoutputDirectory=" + dir + "/lib"}}),
			run(command{dir: dir, args: []string{javac, "-nowarn", "-d", "classes", "-cp", "lib/*", "@sources"}}))
	}})
	converses(t, "java", true, command{dir: dir, args: []string{"java", "-cp", "classes:lib/*", "Client"}})
}

func TestOpenAPIGeneratorGo(t *testing.T) {
	t.Parallel()
	c, program := published(t), read(t, "go/client.go", "go/go.mod", "go/go.sum")
	generate := c.generator(t, "go", "--global-property=apiTests=false,modelTests=false")
	dir := made(t, artifact{"go", append(read(t, "requirements.txt"), append(program, c.document)...), func(dir string) error {
		return errors.Join(generate(dir), write(dir, "client.go", program[0]), write(dir, "go.mod", program[1]), write(dir, "go.sum", program[2]),
			run(command{dir: dir, args: []string{"go", "mod", "edit", "-module=example.com/sdk/openapi", "openapi/go.mod"}}),
			run(command{dir: dir, args: []string{"go", "build", "-o", "client", "."}}))
	}})
	converses(t, "go", true, command{dir: dir, args: []string{"./client"}})
}

// TestOAPICodegen generates with the default flags: a server and the document are in
// the package too.
func TestOAPICodegen(t *testing.T) {
	t.Parallel()
	c, program := published(t), read(t, "oapi-codegen/client.go", "oapi-codegen/go.mod", "oapi-codegen/go.sum", "../../go.mod")
	dir := made(t, artifact{"oapi-codegen", append(program, c.document), func(dir string) error {
		return errors.Join(write(dir, "openapi.json", c.document), write(dir, "client.go", program[0]), write(dir, "go.mod", program[1]),
			write(dir, "go.sum", program[2]), os.Mkdir(filepath.Join(dir, "api"), 0o755),
			run(command{args: []string{"go", "run", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen", "-package", "api", "-o", dir + "/api/api.go", dir + "/openapi.json"}}),
			run(command{dir: dir, args: []string{"go", "build", "-o", "client", "."}}))
	}})
	converses(t, "oapi-codegen", true, command{dir: dir, args: []string{"./client"}})
}

func TestOpenAPIGeneratorRust(t *testing.T) {
	t.Parallel()
	c := published(t)
	cargo := wants(t, "cargo", "no registry has a Rust that is new enough; install one by rustup")
	generate := c.generator(t, "rust")
	sources := read(t, "rust/Cargo.toml", "rust/src/main.rs")
	dir := made(t, artifact{"rust", append(read(t, "requirements.txt"), append(sources, c.document)...), func(dir string) error {
		return errors.Join(generate(dir), write(dir, "Cargo.toml", sources[0]), write(dir, "src/main.rs", sources[1]),
			// The libraries stay compiled when the contract changes.
			run(command{dir: dir, args: []string{cargo, "build", "-q", "--target-dir", filepath.Join(cacheDir(t), "rust-target")}}),
			os.Link(filepath.Join(cacheDir(t), "rust-target/debug/client"), filepath.Join(dir, "client")))
	}})
	converses(t, "rust", true, command{dir: dir, args: []string{"./client"}})
}

// TestOpenAPIGeneratorCSharp generates, and goes on where there is a .NET SDK with
// the libraries of the client: neither is in a registry that can be reached from here.
func TestOpenAPIGeneratorCSharp(t *testing.T) {
	t.Parallel()
	c := published(t)
	generate := c.generator(t, "csharp")
	dir := made(t, artifact{"csharp", append(read(t, "requirements.txt"), c.document), generate})
	if models, err := filepath.Glob(filepath.Join(dir, "openapi/src/Org.OpenAPITools/Model/*.cs")); err != nil || len(models) < 300 {
		t.Errorf("got %d models, %v", len(models), err)
	}
	dotnet := wants(t, "dotnet", "Debian, PyPI and npm have no .NET SDK, so the client was generated and not compiled")
	if err := run(command{dir: dir, args: []string{dotnet, "build", "openapi/src/Org.OpenAPITools"}}); err != nil {
		t.Fatal(err)
	}
}
