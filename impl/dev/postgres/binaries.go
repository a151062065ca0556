package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled is what Start returns when there is no PostgreSQL to run.
var ErrNotInstalled = errors.New("PostgreSQL is not installed: apt-get install postgresql (Debian/Ubuntu) or brew install postgresql@17 (macOS)")

// installation is a folder of PostgreSQL's programs.
type installation struct {
	bin   string
	major int
}

func (i installation) program(name string) string { return filepath.Join(i.bin, name) }

// findOrDownload returns the programs to use: of version major, which made the
// data at hand, or the best there are if major is 0.
func findOrDownload(ctx context.Context, c Config, major int) (installation, error) {
	cache, cacheErr := cacheFolder()
	// Each line is a place; within it the highest version comes first.
	found := slices.Concat(
		newest("/usr/lib/postgresql/*/bin"), // Debian, Ubuntu
		searchPath(os.Getenv("PATH")),
		newest("/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"), // macOS
		newest("/Applications/Postgres.app/Contents/Versions/*/bin"),
		newest("/usr/pgsql-*/bin", "/usr/libexec/postgresql*"), // PostgreSQL's RPMs, Alpine
	)
	if cacheErr == nil {
		found = append(found, newest(filepath.Join(cache, "*", "bin"))...)
	}
	if install, ok := choose(ctx, found, major); ok {
		return install, nil
	}
	err := cacheErr
	if err == nil {
		var install installation
		if install, err = download(ctx, c, "", cache, major); err == nil {
			return install, nil
		}
	}
	if ctx.Err() != nil {
		return installation{}, context.Cause(ctx)
	}
	if major == 0 {
		return installation{}, fmt.Errorf("%w (a download failed: %w)", ErrNotInstalled, err)
	}
	return installation{}, fmt.Errorf("the data in %s is of PostgreSQL %d, which is not installed (found: %s)",
		c.Dir, major, cmp.Or(strings.Join(found, ", "), "none"))
}

// choose returns the first of the folders whose PostgreSQL has that major
// version, or any version if it is 0.
func choose(ctx context.Context, bins []string, major int) (installation, bool) {
	for _, bin := range bins {
		version, err := versionOf(ctx, bin)
		if err == nil && (major == 0 || version == major) {
			return installation{bin, version}, true
		}
	}
	return installation{}, false
}

var (
	numbers       = regexp.MustCompile(`\d+`)
	versionOutput = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)
)

func versionOf(ctx context.Context, bin string) (int, error) {
	output, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return 0, err
	}
	match := versionOutput.FindSubmatch(output)
	if match == nil {
		return 0, fmt.Errorf("%s is not PostgreSQL: it says %q", bin, output)
	}
	return strconv.Atoi(string(match[1]))
}

// newest returns the folders that match and hold a server, those with the
// highest number in their path first.
func newest(patterns ...string) []string {
	var bins []string
	for _, pattern := range patterns {
		matches, _ := filepath.Glob(pattern) // fails only on a malformed pattern
		bins = append(bins, slices.DeleteFunc(matches, func(bin string) bool { return !holdsServer(bin) })...)
	}
	slices.SortStableFunc(bins, func(a, b string) int {
		return -slices.Compare(pathNumbers(a), pathNumbers(b))
	})
	return bins
}

func pathNumbers(path string) []int {
	var list []int
	for _, digits := range numbers.FindAllString(path, -1) {
		n, _ := strconv.Atoi(digits)
		list = append(list, n)
	}
	return list
}

// searchPath returns the folders of PATH that hold a server. Relative ones are
// left out, as package exec does.
func searchPath(path string) []string {
	return slices.DeleteFunc(filepath.SplitList(path), func(bin string) bool {
		return !filepath.IsAbs(bin) || !holdsServer(bin)
	})
}

func holdsServer(bin string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(bin, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}
