package postgres

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// templated is a Config over a cache of its own, with a template that has a table. It counts
// how often it is made.
func templated(t *testing.T, cache, dir string, made *atomic.Int32) Config {
	c := config(t, dir)
	c.cache, c.Disposable = cache, true
	c.Template = &Template{Key: "1", Prepare: func(ctx context.Context, url func(string) string) error {
		made.Add(1)
		conn, err := pgx.Connect(ctx, url("postgres"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "CREATE TABLE prepared AS SELECT 'yes' AS it")
		return err
	}}
	return c
}

const prepared = "SELECT it FROM prepared"

func TestFirstStartsAtOnceMakeOneTemplateAndCopyIt(t *testing.T) {
	t.Parallel()
	cache := newDir(t)
	var made atomic.Int32
	var all sync.WaitGroup
	servers := make([]*Server, 3)
	for i := range servers {
		c := templated(t, cache, newDir(t), &made)
		all.Go(func() {
			var err error
			if servers[i], err = Start(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range servers {
		if s == nil {
			continue
		}
		t.Cleanup(func() { stopServer(t, s) })
		if got := query(t, connect(t, s), prepared); got != "yes" {
			t.Errorf("got %q", got)
		}
	}
	if made.Load() != 1 {
		t.Errorf("the template was made %d times", made.Load())
	}
	// What one of them writes is in no other.
	execute(t, connect(t, servers[0]), "UPDATE prepared SET it = 'no'")
	if got := query(t, connect(t, startServer(t, templated(t, cache, newDir(t), &made))), prepared); got != "yes" {
		t.Errorf("a copy of the template says %q", got)
	}
}

func TestATemplateThatWasNeverFinishedIsMadeAnew(t *testing.T) {
	t.Parallel()
	cache := newDir(t)
	half := filepath.Join(cache, "templates", "making-1")
	writeFile(t, filepath.Join(half, "data", "PG_VERSION"), "15\n")
	var made atomic.Int32
	s := startServer(t, templated(t, cache, newDir(t), &made))
	if got := query(t, connect(t, s), prepared); got != "yes" || made.Load() != 1 {
		t.Errorf("got %q, made %d times", got, made.Load())
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what was left of it is still there")
	}
}

func TestWithoutACacheADatabaseIsMadeAsEver(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, cache string){
		"no folder": func(t *testing.T, cache string) { writeFile(t, filepath.Join(cache, "templates"), "a file") },
		"one that others write to": func(t *testing.T, cache string) {
			if err := os.Mkdir(filepath.Join(cache, "templates"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(cache, "templates"), 0o777); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := newDir(t)
			prepare(t, cache)
			var made atomic.Int32
			if got := query(t, connect(t, startServer(t, templated(t, cache, newDir(t), &made))), "SELECT 'made'"); got != "made" || made.Load() != 0 {
				t.Errorf("got %q, and a template %d times", got, made.Load())
			}
		})
	}
}

func TestACopyIsKeptUntilThePowerFailsAndFromTheDiskOn(t *testing.T) {
	t.Parallel()
	if bootID() == "" {
		t.Skip("runs of this system have no names")
	}
	cache, dir := newDir(t), newDir(t)
	var made atomic.Int32
	c := templated(t, cache, dir, &made)
	c.Disposable = false
	unfinished := filepath.Join(dir, "unfinished")

	s := startServer(t, c)
	if _, err := os.Stat(unfinished); err != nil {
		t.Errorf("it says that it is on the disk: %v", err)
	}
	execute(t, connect(t, s), "UPDATE prepared SET it = 'kept'")
	// writ is killed before it is: the server dies with it, and the mark stays.
	boot, err := os.ReadFile(unfinished)
	if err != nil {
		t.Fatal(err)
	}
	stopServer(t, s)
	if _, err := os.Stat(unfinished); err == nil {
		t.Error("it was stopped, and is not on the disk")
	}
	writeFile(t, unfinished, string(boot))
	s = startServer(t, c)
	if got := query(t, connect(t, s), prepared); got != "kept" {
		t.Errorf("in the same run of the system: got %q", got)
	}
	stopServer(t, s)

	writeFile(t, unfinished, strings.Repeat("0", len(boot)))
	s = startServer(t, c)
	if got := query(t, connect(t, s), prepared); got != "yes" {
		t.Errorf("after a power cut: got %q", got)
	}
	stopServer(t, s)
	if got := query(t, connect(t, startServer(t, c)), prepared); got != "yes" || made.Load() != 1 {
		t.Errorf("got %q, made %d times", got, made.Load())
	}
}
