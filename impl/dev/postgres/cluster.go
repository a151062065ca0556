package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// How a first start is both quick and safe. initdb runs with --no-sync, and its
// files are written out (initdb --sync-only) while the server already comes up.
// Until both are done the file "unfinished" lies beside data/:
//
//	write "unfinished", sync the folder
//	initdb --no-sync
//	start the server  ║  initdb --sync-only
//	remove "unfinished", sync the folder
//	Start returns
//
// Whoever finds "unfinished" knows that no Start has ever returned on this
// data, so nobody was promised anything about it, and makes it anew. Without
// the file data/ is complete and on disk, and is never deleted.
//
// To write a copy of a template out takes longer than all the rest, so Start does not wait for
// that: it happens seconds later, at the latest in Stop. Until then "unfinished" holds the
// name of this run of the operating system, which says that all files are there. Whoever
// finds it in the same run goes on with the data, whatever became of writ; in another one, after a power
// cut within these seconds, they are made anew. Where runs have no names Start waits.

// clusterVersion returns the major version of PostgreSQL that made the data,
// and 0 if there is no data yet.
func (f *folder) clusterVersion() (int, error) {
	if boot, err := os.ReadFile(f.unfinished()); err == nil {
		if len(boot) == 0 || string(boot) != bootID() {
			return 0, f.discard()
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	content, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if entries, err := os.ReadDir(f.data()); err == nil && len(entries) > 0 {
			return 0, fmt.Errorf("%s is not a data folder of PostgreSQL; move it away", f.data())
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s is not a data folder of PostgreSQL: %w", f.data(), err)
	}
	return major, nil
}

// discard gets half-made data out of the way. It is renamed before it is
// removed: a child of the killed initdb may write a moment longer.
func (f *folder) discard() error {
	old, err := filepath.Glob(filepath.Join(f.path, "discarded-*"))
	if err != nil {
		return err
	}
	if _, err := os.Lstat(f.data()); err == nil {
		aside, err := os.MkdirTemp(f.path, "discarded-")
		if err != nil {
			return err
		}
		if err := os.Rename(f.data(), filepath.Join(aside, "data")); err != nil {
			return err
		}
		old = append(old, aside)
	}
	for _, path := range old {
		_ = os.RemoveAll(path) // what resists is tried again at a next first start
	}
	return nil
}

// locales are tried in turn. C.UTF-8 sorts by code point and knows upper and
// lower case of all letters; macOS may not have it.
var locales = []struct{ name, since17 string }{
	{"C.UTF-8", ""},
	{"C", "--locale-provider=builtin --builtin-locale=C.UTF-8"},
}

// initialise makes the cluster, without waiting for the disk; see finish.
func (f *folder) initialise(ctx context.Context, c Config, install installation) error {
	c.progress("making a database in %s", f.path)
	if err := os.WriteFile(f.unfinished(), nil, 0o600); err != nil {
		return err
	}
	if !c.Disposable {
		if err := syncFolder(f.path); err != nil {
			return err
		}
	}
	if c.Template != nil {
		err := f.fromTemplate(ctx, c, install)
		if err == nil {
			return os.WriteFile(f.unfinished(), []byte(bootID()), 0o600)
		}
		if ctx.Err() != nil {
			return err
		}
		c.Logger.WarnContext(ctx, "no template of databases can be used; making the database takes longer", "err", err)
		if err := os.RemoveAll(f.data()); err != nil {
			return err
		}
	}
	var err error
	for _, locale := range locales {
		if err := os.Mkdir(f.data(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := f.chown(f.data()); err != nil {
			return err
		}
		args := []string{"-D", f.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=" + locale.name, "--no-sync", "--wal-segsize=4"}
		if install.major >= 17 {
			args = append(args, strings.Fields(locale.since17)...)
		}
		var output []byte
		output, err = f.run(ctx, locale.name, install.program("initdb"), args...)
		if err == nil || !bytes.Contains(output, []byte("invalid locale")) {
			break
		}
	}
	return err
}

// isCopied reports whether the data is a whole copy of a template that is not on the disk yet.
func (f *folder) isCopied() bool {
	boot, err := os.ReadFile(f.unfinished())
	return err == nil && len(boot) > 0
}

// finish makes a new cluster durable and declares it complete. On an old one it
// has nothing to do.
func (f *folder) finish(ctx context.Context, c Config, install installation) error {
	if c.Disposable {
		return nil
	}
	if _, err := os.Lstat(f.unfinished()); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := f.run(ctx, "C", install.program("initdb"), "-D", f.data(), "--sync-only"); err != nil {
		return err
	}
	// data/ itself has a new name in this folder. The removal must reach the
	// disk too: after a power cut the file would condemn data in use.
	if err := os.Remove(f.unfinished()); err != nil {
		return err
	}
	return syncFolder(f.path)
}

// run runs a program to its end and returns its output, which an error quotes.
func (f *folder) run(ctx context.Context, locale, program string, args ...string) ([]byte, error) {
	var output bytes.Buffer
	cmd := command(ctx, f, syscall.SIGKILL, program, args...)
	cmd.Env = append(cmd.Env, "LC_ALL="+locale) // the last one counts
	cmd.Stdout, cmd.Stderr = &output, &output
	ended, err := start(f, cmd)
	if err == nil {
		err = <-ended
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(program), context.Cause(ctx))
	}
	if err != nil {
		return output.Bytes(), fmt.Errorf("%s: %w: %s", filepath.Base(program), err, tail(output.Bytes()))
	}
	return output.Bytes(), nil
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
