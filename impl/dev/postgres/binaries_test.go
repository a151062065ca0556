package postgres

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakePrograms makes a folder of programs that know their version only.
func fakePrograms(t *testing.T, bin string, major int) {
	t.Helper()
	for _, name := range []string{"initdb", "postgres", "pg_ctl"} {
		path := filepath.Join(bin, name)
		writeFile(t, path, script(name, major))
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func script(name string, major int) string {
	return fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %d.4 (Debian %d.4-1)'\n", name, major, major)
}

func TestTheBestInstallationIsChosen(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	lib := filepath.Join(root, "lib")
	for _, major := range []int{9, 14, 17} {
		fakePrograms(t, filepath.Join(lib, fmt.Sprint(major), "bin"), major)
	}
	fakePrograms(t, filepath.Join(root, "path"), 18)
	writeFile(t, filepath.Join(lib, "19", "bin", "psql"), "a client alone")

	bins := append(newest(filepath.Join(lib, "*", "bin")),
		searchPath("relative:"+root+":"+filepath.Join(root, "path"))...)
	for _, test := range []struct {
		name     string
		major    int
		wantBin  string
		wantNone bool
	}{
		{"a new folder gets the highest version, by number, of the first place", 0, "lib/17/bin", false},
		{"a folder of 14 gets 14", 14, "lib/14/bin", false},
		{"a folder of 18 gets the one in PATH", 18, "path", false},
		{"a folder of 19 gets none: there is only a client", 19, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := choose(context.Background(), bins, test.major)
			if ok == test.wantNone {
				t.Fatalf("found: %v (%+v)", ok, got)
			}
			if ok && got.bin != filepath.Join(root, test.wantBin) {
				t.Errorf("got %s, want %s", got.bin, test.wantBin)
			}
		})
	}
}

func TestADownloadEndsUpCompleteInTheCache(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the library leaves an empty log there
	jar := fakeJar(t)
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			fmt.Fprintf(w, "%x", sha256.Sum256(jar))
			return
		}
		_, _ = w.Write(jar)
	}))
	t.Cleanup(repository.Close)
	cache := t.TempDir()
	var told []string
	c := Config{Progress: func(step string) { told = append(told, step) }}

	got, err := download(t.Context(), c, repository.URL, cache, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(cache, "17.5.0", "bin"); got.bin != want || got.major != 17 {
		t.Errorf("got %+v, want version 17 in %s", got, want)
	}
	if entries := files(t, cache); len(entries) != 1 {
		t.Errorf("the cache holds %q, want the programs only", entries)
	}
	if len(told) != 1 || !strings.Contains(told[0], "downloading PostgreSQL 17") {
		t.Errorf("progress was told %q", told)
	}
	if found := newest(filepath.Join(cache, "*", "bin")); len(found) != 1 {
		t.Errorf("the next start finds %q", found)
	}
}

func TestADownloadThatFailsLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the library leaves an empty log there
	repository := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(repository.Close)
	cache := t.TempDir()
	if _, err := download(t.Context(), Config{}, repository.URL, cache, 0); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line", err)
	}
	if entries := files(t, cache); len(entries) != 0 {
		t.Errorf("the cache holds %q", entries)
	}
}

func TestADownloadCanBeGivenUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	asked, release := make(chan struct{}), make(chan struct{})
	repository := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	}))
	t.Cleanup(repository.Close)
	t.Cleanup(func() { close(release) })
	go func() {
		<-asked
		cancel()
	}()
	if _, err := download(ctx, Config{}, repository.URL, t.TempDir(), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// fakeJar packs fake programs as Maven Central has them: a txz within a zip.
func fakeJar(t *testing.T) []byte {
	t.Helper()
	xz, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("needs xz to make an archive")
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"initdb", "postgres", "pg_ctl"} {
		content := script(name, 17)
		if err := w.WriteHeader(&tar.Header{Name: "bin/" + name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	compress := exec.CommandContext(t.Context(), xz, "--check=crc32", "-c")
	compress.Stdin = &archive
	compressed, err := compress.Output()
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	entry, err := z.Create("postgres-linux.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write(compressed); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return jar.Bytes()
}
