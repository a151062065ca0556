// Package npm installs the Node.js programs of the conformance suites, with the
// versions of their lock files, where git does not see them.
package npm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Install makes .cache/NAME in the folder of the module, a copy of the files of
// source with node_modules beside them, and returns its path. What is installed
// already is not fetched again.
func Install(source, name string) (string, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errors.New("npm is missing: install Node.js 20 or newer with npm")
	}
	version, err := exec.Command("node", "--version").Output() // v20.20.2
	if err != nil {
		return "", errors.New("node is missing: install Node.js 20 or newer with npm")
	}
	var major int
	if _, err := fmt.Sscanf(string(version), "v%d.", &major); err != nil || major < 20 {
		return "", fmt.Errorf("node is %s: install Node.js 20 or newer with npm", bytes.TrimSpace(version))
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return "", err
	}
	files, err := os.ReadDir(source)
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if file.IsDir() {
			continue // node_modules of somebody who tried something
		}
		text, err := os.ReadFile(filepath.Join(source, file.Name()))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), text, 0o644); err != nil {
			return "", err
		}
	}
	// npm ci begins by deleting node_modules, so the mark is gone when it fails.
	mark := filepath.Join(dir, "node_modules", ".writ-lock")
	if installed, err := os.ReadFile(mark); err == nil && bytes.Equal(installed, lock) {
		return dir, nil
	}
	ci := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	ci.Dir = dir
	if output, err := ci.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci in %s: %w\n%s", dir, err, output)
	}
	return dir, os.WriteFile(mark, lock, 0o644)
}

// moduleRoot returns the folder of go.mod: tests run in their own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod above the working directory")
		}
		dir = parent
	}
}
