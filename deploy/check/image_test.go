package check

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostImage is what the image may have in a registry, in bytes; users asked for 40 MB.
const mostImage = 40_000_000

// TestTheImageHoldsTheProgramAndRunsAsNobody builds the image of the Dockerfile without a
// container runtime. The base image of its first stage and what apt-get would add to it, which
// are not to be had here, are this machine's programs and libraries; the second stage, which is
// shipped, is as it is.
func TestTheImageHoldsTheProgramAndRunsAsNobody(t *testing.T) {
	t.Parallel()
	asRoot(t)
	program := installed(t, "buildah", "apt-get install buildah")
	header(t, "openssl/evp.h", "apt-get install libssl-dev")
	storage := t.TempDir()
	buildah := func(args ...string) string {
		return strings.TrimSpace(must(t, append([]string{program, "--root", storage + "/root", "--runroot", storage + "/run", "--storage-driver", "vfs"}, args...)...))
	}
	base := buildah("from", "scratch")
	buildah("copy", "-q", base, machine(t), "/")
	buildah("config", "--env", "PATH=/goroot/bin:/stands-in:/bin", "--env", "GOPATH=/go", "--env", "HOME=/root", base)
	buildah("commit", "-q", "--rm", base, "localhost/golang:1.26-bookworm")

	mounts := map[string]string{"GOROOT": "/goroot", "GOMODCACHE": "/go/pkg/mod", "GOCACHE": "/root/.cache/go-build"}
	args := []string{"bud", "-q", "--format", "docker", "--isolation", "chroot", "--pull-never", "--ignorefile", "deploy/Dockerfile.dockerignore", "--build-arg", "VERSION=v9.9.9", "-f", "deploy/Dockerfile", "-t", "writ", "--volume", "/usr:/usr:ro"}
	for name, at := range mounts {
		args = append(args, "--volume", strings.TrimSpace(must(t, "go", "env", name))+":"+at)
	}
	buildah(append(args, ".")...)

	var about struct {
		Docker struct {
			Config struct {
				User            string
				Entrypoint, Cmd []string
				Healthcheck     struct{ Test []string }
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", "writ")), &about); err != nil {
		t.Fatal(err)
	}
	config := about.Docker.Config
	if config.User != "65532:65532" || !slices.Equal(config.Entrypoint, []string{"/writ"}) || !slices.Equal(config.Cmd, []string{"serve"}) || !slices.Equal(config.Healthcheck.Test, []string{"CMD", "/writ", "ready"}) {
		t.Errorf("got %+v", config)
	}
	container := buildah("from", "writ")
	var files []string
	mounted := buildah("mount", container)
	err := filepath.WalkDir(mounted, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(path, mounted))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/etc/passwd", "/etc/ssl/certs/ca-certificates.crt", "/writ"}; !slices.Equal(files, want) {
		t.Errorf("it holds %v, want %v", files, want)
	}
	run := func(args ...string) string {
		return buildah(append([]string{"run", "--isolation", "chroot", container, "--"}, args...)...)
	}
	if got := run("/writ", "version"); !strings.HasPrefix(got, "v9.9.9\nRS256 signatures by OpenSSL 3.") {
		t.Errorf("it says it is %q", got)
	}
	run("/writ", "keys", "new-master", "/tmp/key") // what imports wait in
	if _, err := execute(t, program, "--root", storage+"/root", "--runroot", storage+"/run", "--storage-driver", "vfs", "run", "--isolation", "chroot", container, "--", "/writ", "ready"); err == nil {
		t.Error("its health check passes without a node")
	}

	layout := t.TempDir()
	buildah("push", "-q", "writ", "oci:"+layout)
	size := int64(0)
	err = filepath.WalkDir(layout, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		size += info.Size()
		return err
	})
	program64, statErr := os.Stat(filepath.Join(mounted, "writ"))
	if err != nil || statErr != nil {
		t.Fatal(err, statErr)
	}
	t.Logf("the image has %d bytes in a registry; the program in it has %d", size, program64.Size())
	if size > mostImage {
		t.Errorf("the image has %d bytes, more than %d", size, mostImage)
	}
}

// machine returns a folder for the first stage that leads to what this machine has in /usr, and
// has an apt-get that finds everything installed.
func machine(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"etc/ssl/certs/ca-certificates.crt": string(certificates), "stands-in/apt-get": "#!/bin/sh\n", "tmp/empty": "", "usr/empty": ""} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
