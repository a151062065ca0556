// Package cache remembers what was read from the database, for a second at most.
package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// MaxAge bounds how long another node's change can go unseen (REL-063). It is
// the promise; dropping entries on notification only makes it faster.
const MaxAge = time.Second

// maxEntries bounds a cache whose keys requests choose (SEC-293).
const maxEntries = 10_000

// Cache keeps the answers of load for MaxAge. Concurrent loads of one key are
// one load. Errors are not kept: what could not be read is asked again. The zero value
// is a Cache whose keys are text.
type Cache[K comparable, V any] struct {
	key     func(K) string   // for single flight
	now     func() time.Time // nil: only the clock of the machine
	mu      sync.RWMutex
	entries map[K]entry[V]
	group   singleflight.Group
}

type entry[V any] struct {
	value V
	until time.Time // monotonic, so that a stepping wall clock cannot keep it alive
	at    time.Time // by the other clock
}

// New returns a Cache; key makes a text of a key, for single flight.
func New[K comparable, V any](key func(K) string) *Cache[K, V] {
	return &Cache[K, V]{key: key, entries: map[K]entry[V]{}}
}

// By has the cache go by another clock too, which may be moved: what was read a day ago by that is
// old, however short a time that took. It is called before the cache is used.
func (c *Cache[K, V]) By(now func() time.Time) *Cache[K, V] {
	c.now = now
	return c
}

// isFresh reports whether an entry is not too old, by any clock.
func (c *Cache[K, V]) isFresh(e entry[V]) bool {
	return time.Now().Before(e.until) && (c.now == nil || c.now().Sub(e.at).Abs() < MaxAge)
}

// Fresh returns what is known of k if it is not too old: for callers that would have to
// make what loads it.
func (c *Cache[K, V]) Fresh(k K) (V, bool) {
	e, _ := c.entry(k)
	return e.value, c.isFresh(e)
}

// loadLimit bounds one load. It is nobody's in particular: who asked first may go
// away while others wait.
const loadLimit = 10 * time.Second

// Get returns what is known of k, or loads it.
func (c *Cache[K, V]) Get(ctx context.Context, k K, load func(context.Context) (V, error)) (V, error) {
	e, _ := c.entry(k)
	if c.isFresh(e) {
		return e.value, nil
	}
	loaded := c.group.DoChan(c.text(k), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadLimit)
		defer cancel()
		made := entry[V]{until: time.Now().Add(MaxAge)} // the value may be as old as the question
		if c.now != nil {
			made.at = c.now()
		}
		value, err := load(ctx)
		if err != nil {
			return value, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.entries) >= maxEntries {
			clear(c.entries)
		}
		if c.entries == nil {
			c.entries = map[K]entry[V]{}
		}
		made.value = value
		c.entries[k] = made
		return value, nil
	})
	select {
	case done := <-loaded:
		value, _ := done.Val.(V)
		return value, done.Err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// patience is how long something newer is waited for where something is known.
const patience = 500 * time.Millisecond

// GetOrLast is Get, but what was known stays good while nothing newer can be read, and
// nobody waits for that long (REL-061). good, if not nil, says what may stay.
func (c *Cache[K, V]) GetOrLast(ctx context.Context, k K, good func(V) bool, load func(context.Context) (V, error)) (V, error) {
	e, known := c.entry(k)
	if !known || c.isFresh(e) || good != nil && !good(e.value) {
		return c.Get(ctx, k, load)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	value, err := c.Get(ctx, k, load)
	if err != nil {
		return e.value, nil //nolint:nilerr // what is known is the answer then
	}
	return value, nil
}

// Last returns what was known of a key when it was last asked for, however old.
func (c *Cache[K, V]) Last(k K) (V, bool) {
	e, known := c.entry(k)
	return e.value, known
}

func (c *Cache[K, V]) entry(k K) (e entry[V], known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, known = c.entries[k]
	return e, known
}

// text is a key for single flight.
func (c *Cache[K, V]) text(k K) string {
	if c.key == nil {
		return fmt.Sprint(k)
	}
	return c.key(k)
}

// Drop makes the next Get of everything load; Last still knows what was.
func (c *Cache[K, V]) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.entries {
		c.entries[k] = entry[V]{value: e.value}
	}
}
