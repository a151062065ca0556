package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/secret"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/ready"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
)

// world is one installation.
type world struct {
	worlds *Worlds
	id     string
	door   *door
	config server.Config // all but the database
	clock  *clock.Clock
	info   Info
	gone   chan struct{}
	idle   bool // whether it ends because nobody called it; then its address says so
	taken  time.Time
	ttl    time.Duration

	mu        sync.Mutex // of what changes it: one at a time
	ended     bool
	stop      func() // the server that runs
	snapshots []clock.Setting
	expiry    *time.Timer
}

// Info is how to reach a world.
type Info struct {
	ID string `json:"id"`
	ready.Info
	// TTL is how long nobody has to call it until it goes.
	TTL string `json:"ttl,omitempty"`
}

// make makes a world with the seed.
func (w *Worlds) make(ctx context.Context, file *seed.File) (made *world, err error) {
	if err := w.prepared(); err != nil {
		return nil, err
	}
	key, err := secret.NewMasterKey()
	if err != nil {
		return nil, err
	}
	one := &world{worlds: w, id: newID(), clock: clock.New(), gone: make(chan struct{})}
	if one.door, err = open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, one.end(context.WithoutCancel(ctx)))
		}
	}()
	if err := w.clone(ctx, template, one.database()); err != nil {
		return nil, err
	}
	db, err := one.open(ctx)
	if err != nil {
		return nil, err
	}
	c := w.Base
	c.DB, c.Now, c.Sealer, c.Telemetry, c.DrainDelay = db, one.clock.Now, key, nil, 0
	c.Logger = c.Logger.With("world", one.id)
	applied, err := server.ApplySeed(ctx, c, file, seed.Config{Reissue: true})
	if err != nil {
		db.Close()
		return nil, fault.Invalid("SEED_REFUSED", "seed", "%v", err)
	}
	if err := os.MkdirAll(one.dir(), 0o700); err != nil {
		db.Close()
		return nil, err
	}
	at := one.door.Addr()
	info, err := ready.New(w.Base.External.Scheme+"://"+at.String(), at, applied, one.dir())
	if err != nil {
		db.Close()
		return nil, err
	}
	info.CAFile = w.CAFile
	one.info = Info{ID: one.id, Info: info}
	file2 := filepath.Join(one.dir(), "ready.json")
	if err := ready.WriteFile(file2, one.info); err != nil {
		db.Close()
		return nil, err
	}
	c.External.Port = portOf(at)
	c.Dev = &server.Dev{Clock: one.clock, Hosts: w.Base.Dev.Hosts, Database: w.Database(one.database()), Credentials: file2, Clients: info.ClientIDs(), Recorded: w.Base.Dev.Recorded}
	one.config = c
	return one, one.serve(db)
}

func (o *world) database() string { return prefix + o.id }

func (o *world) snapshot(n int) string { return o.database() + "_" + strconv.Itoa(n) }

func (o *world) dir() string { return filepath.Join(o.worlds.Dir, o.id) }

// connections are those for calls of a world; it has as many for searches, and one to hear
// of changes.
const connections = 4

func (o *world) open(ctx context.Context) (*store.DB, error) {
	return store.Open(ctx, store.Config{URL: o.worlds.Database(o.database()), MaxConns: connections})
}

// serve starts a server on the database.
func (o *world) serve(db *store.DB) error {
	c := o.config
	c.DB = db
	node, err := server.New(c)
	if err != nil {
		db.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := node.Serve(ctx, o.door.lend()); err != nil {
			c.Logger.Warn("a world ended", "world", o.id, "err", err)
		}
	}()
	o.stop = func() {
		cancel()
		<-served
		db.Close()
	}
	return nil
}

// take hands a world out: from here on it goes when nobody calls it for so long.
func (o *world) take(ttl time.Duration) {
	o.taken, o.ttl = time.Now(), ttl
	o.info.TTL = ttl.String()
	o.door.touch()
	look := func() {
		if left := ttl - o.door.idle(); left > 0 {
			o.expiry.Reset(left)
			return
		}
		_ = o.worlds.remove(context.Background(), o.id, true) // it has gone already
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expiry = time.AfterFunc(ttl, look)
}

// end ends a world and removes what it had.
func (o *world) end(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil
	}
	o.ended = true
	close(o.gone)
	if o.expiry != nil {
		o.expiry.Stop()
	}
	if !o.idle {
		o.door.close()
	}
	if o.stop != nil {
		o.stop()
	}
	var err error
	if !o.worlds.discarding.Load() {
		for n := range o.snapshots {
			err = errors.Join(err, o.worlds.drop(ctx, o.snapshot(n+1)))
		}
		err = errors.Join(err, o.worlds.drop(ctx, o.database()))
	}
	return errors.Join(err, os.RemoveAll(o.dir()))
}

// maxSnapshots is how many a world has.
const maxSnapshots = 16

// save makes a snapshot: the database without a server is copied.
func (o *world) save(ctx context.Context) (name string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return "", errUnknown(o.id)
	}
	if len(o.snapshots) == maxSnapshots {
		return "", fault.New(fault.FailedPrecondition, "TOO_MANY_SNAPSHOTS", "a world has %d snapshots at most", maxSnapshots)
	}
	n := len(o.snapshots) + 1
	err = o.without(ctx, func() error { return o.worlds.clone(ctx, o.database(), o.snapshot(n)) })
	if err != nil {
		return "", err
	}
	o.snapshots = append(o.snapshots, o.clock.Setting())
	return strconv.Itoa(n), nil
}

// restore makes it what it was.
func (o *world) restore(ctx context.Context, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return errUnknown(o.id)
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > len(o.snapshots) {
		return fault.New(fault.NotFound, "SNAPSHOT_UNKNOWN", "the world has no snapshot %q", name)
	}
	ctx = context.WithoutCancel(ctx) // half of it would be a world without a database
	fresh := o.database() + "_new"
	if err := o.worlds.clone(ctx, o.snapshot(n), fresh); err != nil {
		return err
	}
	return o.without(ctx, func() error {
		if err := o.worlds.drop(ctx, o.database()); err != nil {
			return errors.Join(err, o.worlds.drop(ctx, fresh))
		}
		if err := o.worlds.rename(ctx, fresh, o.database()); err != nil {
			return err
		}
		o.clock.Put(o.snapshots[n-1])
		return nil
	})
}

// without does something while no server runs, and starts another one after it. Who calls
// meanwhile waits at the door.
func (o *world) without(ctx context.Context, do func() error) error {
	if o.stop != nil { // an earlier one could not start
		o.stop()
	}
	o.stop = nil
	failed := do()
	db, err := o.open(context.WithoutCancel(ctx))
	if err != nil {
		return errors.Join(failed, fmt.Errorf("the world %s cannot go on: %w", o.id, err))
	}
	return errors.Join(failed, o.serve(db))
}
