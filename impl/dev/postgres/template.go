package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What a new cluster begins with. initdb is most of a first start, and what it makes is
// always the same: so it is made once for each PostgreSQL and what it is prepared with, kept
// in the cache folder, and copied from then on.
//
//	cache/templates/lock       held alone by who makes or removes one, shared by who copies
//	cache/templates/KEY/data   complete and on disk, since it has that name
//	cache/templates/making-*   of who is at it, or was when they died
//
// A template holds no data and no secret: nobody has to give credentials of it to anybody. Its
// copies have one system identifier, which only replication looks at; who may connect says
// the folder of the socket, as ever.
//
// Where there is no cache folder to write to, or anything is wrong with it, a cluster is
// made as if there were none.

// Template is what a new cluster is prepared with before it is first used.
type Template struct {
	Key     string                                                            // of its content: another one is another template
	Prepare func(ctx context.Context, url func(database string) string) error // of a server that runs on it
}

// templates is the folder of templates while it is locked.
type templates struct {
	path string
	lock *os.File
}

// maxTemplates is how many are kept, those that were made last.
const maxTemplates = 4

// openTemplates returns the folder, made if it is missing. Only who could change the cluster
// anyway may write to it.
func openTemplates(cache string, how int) (*templates, error) {
	path := filepath.Join(cache, "templates")
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // the server's user has to pass through
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if owner, ok := ownerOf(path); !ok || int(owner.Uid) != os.Geteuid() || !info.IsDir() || info.Mode()&0o022 != 0 {
		return nil, fmt.Errorf("%s is not a folder that only this user writes to", path)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), how); err != nil {
		lock.Close()
		return nil, err
	}
	return &templates{path, lock}, nil
}

func (t *templates) close() {
	_ = syscall.Flock(int(t.lock.Fd()), syscall.LOCK_UN) // by name, as in folder.close
	_ = t.lock.Close()
}

// fromTemplate makes the data of a new cluster as a copy of a template, which it makes first
// if there is none.
func (f *folder) fromTemplate(ctx context.Context, c Config, install installation) error {
	cache := c.cache
	if cache == "" {
		var err error
		if cache, err = cacheFolder(); err != nil {
			return err
		}
	}
	key, err := templateKey(ctx, c, install)
	if err != nil {
		return err
	}
	for {
		shared, err := openTemplates(cache, syscall.LOCK_SH)
		if err != nil {
			return err
		}
		data := filepath.Join(shared.path, key, "data")
		if _, err := os.Lstat(data); err == nil {
			err := copyTree(f, data, f.data())
			shared.close()
			return err
		}
		shared.close()
		if err := makeTemplate(ctx, c, install, cache, key); err != nil {
			return err
		}
	}
}

// templateKey names a template: what it was made by, of what and for whom.
func templateKey(ctx context.Context, c Config, install installation) (string, error) {
	version, err := exec.CommandContext(ctx, install.program("postgres"), "--version").Output()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "1 %s %s %v %s", install.bin, version, locales, c.Template.Key))
	return fmt.Sprintf("%d-%x", install.major, sum[:10]), nil
}

// makeTemplate makes a template, unless somebody else just did.
func makeTemplate(ctx context.Context, c Config, install installation, cache, key string) error {
	t, err := openTemplates(cache, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer t.close()
	if _, err := os.Lstat(filepath.Join(t.path, key)); err == nil {
		return nil
	}
	t.sweep()
	c.progress("making a template of databases, once, in %s", t.path)
	path, err := os.MkdirTemp(t.path, "making-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(path) }() // there is nothing once it was renamed
	server, err := Start(ctx, Config{Dir: path, Logger: c.Logger, Disposable: true, install: &install})
	if err != nil {
		return err
	}
	if c.Template.Prepare != nil {
		err = c.Template.Prepare(ctx, server.URL)
	}
	if err := errors.Join(err, server.Stop(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	// The server is gone, and so is its lock, but nobody else comes into this folder.
	if _, err := server.folder.run(ctx, "C", install.program("initdb"), "-D", server.folder.data(), "--sync-only"); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(t.path, key)); err != nil {
		return err
	}
	return syncFolder(t.path)
}

// sweep removes what those left who died while they made one, and the oldest.
func (t *templates) sweep() {
	entries, _ := os.ReadDir(t.path)
	type template struct {
		path string
		made time.Time
	}
	var all []template
	for _, entry := range entries {
		info, err := entry.Info()
		path := filepath.Join(t.path, entry.Name())
		switch {
		case err != nil || !entry.IsDir():
		case strings.HasPrefix(entry.Name(), "making-"):
			_ = os.RemoveAll(path)
		default:
			all = append(all, template{path, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b template) int { return b.made.Compare(a.made) })
	for _, old := range all[min(len(all), maxTemplates-1):] {
		_ = os.RemoveAll(old.path)
	}
}

// copyTree copies a folder of plain files and folders for the owner of the server. to may be
// there, empty.
func copyTree(f *folder, from, to string) error {
	type file struct {
		from, to string
		mode     fs.FileMode
	}
	files, failed := make(chan file, 64), make(chan error, copiers)
	var copying sync.WaitGroup
	for range copiers {
		copying.Go(func() {
			for one := range files {
				if err := copyFile(f, one.from, one.to, one.mode); err != nil {
					failed <- err
					for range files { // so that nobody waits to send
					}
					return
				}
			}
		})
	}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := to + path[len(from):]
		switch {
		case entry.IsDir():
			if err := os.Mkdir(target, info.Mode().Perm()); err != nil && (path != from || !errors.Is(err, fs.ErrExist)) {
				return err
			}
			return f.chown(target)
		case entry.Type().IsRegular():
			files <- file{path, target, info.Mode().Perm()}
			return nil
		default:
			return fmt.Errorf("%s is neither a file nor a folder", path)
		}
	})
	close(files)
	copying.Wait()
	close(failed)
	for one := range failed {
		err = errors.Join(err, one)
	}
	return err
}

// copiers is how many files are copied at once: it is the calls that take long, not the bytes.
const copiers = 4

func copyFile(f *folder, from, to string, mode fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if f.copies.Load() || !reflink(target, source) {
		f.copies.Store(true)
		_, err = io.Copy(target, source) // by the kernel, where it can
	}
	if err == nil && f.owner != nil {
		err = target.Chown(int(f.owner.Uid), int(f.owner.Gid))
	}
	return errors.Join(err, target.Close())
}
