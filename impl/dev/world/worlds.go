// Package world gives who tests software against Writ installations of their own, as many as
// there are tests: each is a whole server on a port of its own, over a copy of a database, with
// its own clock, keys, inbox and credentials. So every client works with it, and nothing of
// the product knows of worlds.
//
// Some are made ahead, so that who asks need not wait: with the first that is asked for, or
// from the start. What servers share is what they read of the contract. All end with Close; what a
// killed process left is removed before the first of the next.
package world

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/devapi"
	"github.com/writ-id/writ/impl/core/clock"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
	"github.com/writ-id/writ/impl/dev/seed"
	"github.com/writ-id/writ/impl/server"
)

const (
	// template is the database that has the schema and nothing else.
	template = "template1"
	prefix   = "writ_world_"

	// maxWorlds is how many there are at most, those made ahead included: each has up to
	// nine connections of the 300 of the private PostgreSQL.
	maxWorlds = 24
	// ahead is how many are made ahead, once somebody has asked.
	ahead = 2

	defaultTTL = 10 * time.Minute
	maxTTL     = 24 * time.Hour
)

// Config says what worlds are made of.
type Config struct {
	Base       server.Config                // of the server that makes them
	Database   func(database string) string // URLs of the private PostgreSQL
	Seed       *seed.File
	Dir        string // for their key files
	CAFile     string // the certificate they serve with; "" without TLS
	Ahead      int    // how many are ready from the start
	Disposable bool   // whether the databases go with their PostgreSQL anyway
}

// Worlds makes worlds. It implements server.Worlds and is safe for concurrent use.
type Worlds struct {
	Config
	swept      func() error // removes what earlier runs left, once and before any world is made
	prepared   func() error
	discarding atomic.Bool // whether databases need not be dropped any more

	mu     sync.Mutex
	ahead  int
	ready  []*world
	coming int               // of those that are being made ahead
	all    map[string]*world // those that were handed out
	count  int               // of all that exist or are being made
	graves []*grave          // of those that ended because nobody called them
	ended  chan struct{}
	making sync.WaitGroup // of what goes on by itself: worlds that are made ahead, or end
}

var _ server.Worlds = (*Worlds)(nil)

// New returns Worlds over c.
func New(c Config) *Worlds {
	w := &Worlds{Config: c, all: map[string]*world{}, ended: make(chan struct{})}
	w.swept = sync.OnceValue(func() error { return w.sweep(context.Background()) })
	w.prepared = sync.OnceValue(func() error { return w.prepare(context.Background()) })
	if c.Ahead > 0 {
		w.ahead = min(c.Ahead, maxWorlds-1)
		w.making.Go(w.fill)
	} else {
		w.making.Go(func() {
			if err := w.swept(); err != nil {
				c.Base.Logger.Warn("worlds of an earlier run are left", "err", err)
			}
		})
	}
	return w
}

// prepare removes what earlier runs left, and brings the template up to date.
func (w *Worlds) prepare(ctx context.Context) error {
	if err := w.swept(); err != nil {
		return err
	}
	_, err := store.Migrate(ctx, w.Database(template))
	return err
}

func (w *Worlds) sweep(ctx context.Context) error {
	if w.Disposable { // there is no earlier run
		return nil
	}
	rows, err := w.Base.DB.Pool.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		err = errors.Join(err, w.drop(ctx, name))
	}
	return err
}

func (w *Worlds) clone(ctx context.Context, from, to string) error {
	_, err := w.Base.DB.Pool.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", pgx.Identifier{to}.Sanitize(), pgx.Identifier{from}.Sanitize()))
	return err
}

func (w *Worlds) rename(ctx context.Context, from, to string) error {
	_, err := w.Base.DB.Pool.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", pgx.Identifier{from}.Sanitize(), pgx.Identifier{to}.Sanitize()))
	return err
}

func (w *Worlds) drop(ctx context.Context, database string) error {
	_, err := w.Base.DB.Pool.Exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", pgx.Identifier{database}.Sanitize()))
	return err
}

// fill makes worlds until enough are ready.
func (w *Worlds) fill() {
	for w.reserve(true) == nil {
		one, err := w.make(context.Background(), w.Seed)
		w.mu.Lock()
		w.coming--
		if err != nil {
			w.count--
			w.mu.Unlock()
			w.Base.Logger.Warn("a world could not be made ahead", "err", err)
			return
		}
		w.ready = append(w.ready, one)
		w.mu.Unlock()
		if w.isOver() { // End did not see it
			w.discard(one)
		}
	}
}

func (w *Worlds) isOver() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// discard ends a world that is still among those made ahead.
func (w *Worlds) discard(one *world) {
	_ = one.end(context.Background()) // what stays is removed at the next start
}

// reserve counts a world that is about to be made, if there may be one more.
func (w *Worlds) reserve(spare bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.isOver():
		return fault.New(fault.Unavailable, "ENDING", "the server is ending")
	case spare && len(w.ready)+w.coming >= w.ahead:
		return errEnough
	case w.count >= maxWorlds:
		return fault.New(fault.Unavailable, "TOO_MANY_WORLDS", "there are %d worlds, as many as there may be: DELETE those that are done, or give them a shorter ttl", w.count)
	}
	w.count++
	if spare {
		w.coming++
	}
	return nil
}

var errEnough = errors.New("world: enough are ready")

// Create implements server.Worlds.
func (w *Worlds) Create(ctx context.Context, asked *devapi.WorldRequest) (string, <-chan struct{}, error) {
	ttl := defaultTTL
	if asked.Hold != nil && *asked.Hold { // whoever holds it says when it goes
		ttl = maxTTL
	}
	if asked.Ttl != nil {
		var err error
		if ttl, err = time.ParseDuration(*asked.Ttl); err != nil || ttl <= 0 || ttl > maxTTL {
			return "", nil, fault.Invalid("INVALID_FIELD", "ttl", "%q is not a duration up to %s, such as 5m", *asked.Ttl, maxTTL)
		}
	}
	var change clock.Change
	if c := asked.Clock; c != nil {
		change = clock.Change{Set: c.Set, Frozen: c.Frozen}
		if c.Advance != nil {
			change.Advance = *c.Advance
		}
		if err := clock.New().Apply(change); err != nil {
			return "", nil, fault.Invalid("INVALID_FIELD", "clock", "%v", err)
		}
	}
	one, err := w.get(ctx, asked)
	if err != nil {
		return "", nil, err
	}
	if asked.Clock != nil {
		_ = one.clock.Apply(change) // it was fine a moment ago
	}
	w.mu.Lock()
	w.all[one.id] = one
	over := w.isOver()
	w.mu.Unlock()
	one.take(ttl)
	if over {
		_ = w.Delete(context.WithoutCancel(ctx), one.id)
		return "", nil, fault.New(fault.Unavailable, "ENDING", "the server is ending")
	}
	return one.id, one.gone, nil
}

// get returns a world that is ready, or makes one.
func (w *Worlds) get(ctx context.Context, asked *devapi.WorldRequest) (*world, error) {
	if asked.Seed == nil {
		if one := w.spare(); one != nil {
			return one, nil
		}
	}
	file := w.Seed
	if asked.Seed != nil {
		var err error
		if file, err = seed.Parse("seed", []byte(*asked.Seed), func(string) (string, bool) { return "", false }); err != nil {
			return nil, fault.Invalid("SEED_REFUSED", "seed", "%v", err)
		}
	}
	if err := w.reserve(false); err != nil {
		return nil, err
	}
	one, err := w.make(ctx, file)
	if err != nil {
		w.mu.Lock()
		w.count--
		w.mu.Unlock()
		return nil, err
	}
	w.more()
	return one, nil
}

// spare returns a world that was made ahead, nil when there is none.
func (w *Worlds) spare() *world {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.ready) == 0 {
		return nil
	}
	one := w.ready[0]
	w.ready = w.ready[1:]
	w.again()
	return one
}

// more has worlds made ahead from now on.
func (w *Worlds) more() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = max(w.ahead, ahead)
	w.again()
}

// again has those made that are missing. w.mu is held.
func (w *Worlds) again() {
	if !w.isOver() {
		w.making.Go(w.fill)
	}
}

func (w *Worlds) find(id string) (*world, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.all[id]; one != nil {
		return one, nil
	}
	return nil, errUnknown(id)
}

func errUnknown(id string) error {
	return fault.New(fault.NotFound, "WORLD_UNKNOWN", "there is no world %q; it may have been idle for too long (ttl)", id)
}

// List implements server.Worlds.
func (w *Worlds) List() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for id := range w.all {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(w.all[a].taken.Compare(w.all[b].taken), cmp.Compare(a, b)) })
	return ids
}

// Info implements server.Worlds.
func (w *Worlds) Info(id string) (any, error) {
	one, err := w.find(id)
	if err != nil {
		return nil, err
	}
	return one.info, nil
}

// Delete implements server.Worlds.
func (w *Worlds) Delete(ctx context.Context, id string) error { return w.remove(ctx, id, false) }

// remove ends a world: that nobody called it, its address says to whoever calls then.
func (w *Worlds) remove(ctx context.Context, id string, idle bool) error {
	w.mu.Lock()
	one := w.all[id]
	delete(w.all, id)
	if one != nil {
		w.making.Add(1) // Close, which does not see it any more, waits all the same
		defer w.making.Done()
	}
	w.mu.Unlock()
	if one == nil {
		return errUnknown(id)
	}
	one.idle = idle
	err := one.end(context.WithoutCancel(ctx))
	w.mu.Lock()
	w.count--
	w.mu.Unlock()
	if idle {
		w.Base.Logger.Info("a world went because nobody called it", "world", id, "issuer", one.info.Issuer, "ttl", one.ttl)
		w.bury(one)
	}
	return err
}

// Snapshot implements server.Worlds.
func (w *Worlds) Snapshot(ctx context.Context, id string) (string, error) {
	one, err := w.find(id)
	if err != nil {
		return "", err
	}
	return one.save(ctx)
}

// Restore implements server.Worlds.
func (w *Worlds) Restore(ctx context.Context, id, snapshot string) error {
	one, err := w.find(id)
	if err != nil {
		return err
	}
	return one.restore(ctx, snapshot)
}

// End ends all worlds; none is made any more.
func (w *Worlds) End() {
	w.mu.Lock()
	if !w.isOver() {
		close(w.ended)
	}
	all := slices.Clone(w.ready)
	for _, one := range w.all {
		all = append(all, one)
	}
	graves := w.graves
	w.ready, w.all, w.graves = nil, map[string]*world{}, nil
	w.mu.Unlock()
	for _, one := range graves {
		one.close()
	}
	w.discarding.Store(w.Disposable)
	var ending sync.WaitGroup
	for _, one := range all {
		ending.Go(func() { _ = one.end(context.Background()) }) // what stays is removed at the next start
	}
	ending.Wait()
}

// Close ends all worlds and waits for those that are being made, or deleted.
func (w *Worlds) Close() {
	w.End()
	w.making.Wait()
	_ = os.RemoveAll(w.Dir)
}

const idLength = 12

func newID() string {
	var bits [idLength / 2]byte
	_, _ = rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

func portOf(at net.Addr) string {
	_, port, _ := net.SplitHostPort(at.String())
	return port
}
