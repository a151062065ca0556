// Package cache remembers what was read from the database, for a second at most.
package cache

import (
	"context"
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
// one load. Errors are not kept: what could not be read is asked again.
type Cache[K comparable, V any] struct {
	key     func(K) string // for single flight
	mu      sync.RWMutex
	entries map[K]entry[V]
	group   singleflight.Group
}

type entry[V any] struct {
	value V
	until time.Time // monotonic, so that a stepping wall clock cannot keep it alive
}

// New returns a Cache; key makes a text of a key, for single flight.
func New[K comparable, V any](key func(K) string) *Cache[K, V] {
	return &Cache[K, V]{key: key, entries: map[K]entry[V]{}}
}

// loadLimit bounds one load. It is nobody's in particular: who asked first may go
// away while others wait.
const loadLimit = 10 * time.Second

// Get returns what is known of k, or loads it.
func (c *Cache[K, V]) Get(ctx context.Context, k K, load func(context.Context) (V, error)) (V, error) {
	c.mu.RLock()
	e, ok := c.entries[k]
	c.mu.RUnlock()
	if ok && time.Now().Before(e.until) {
		return e.value, nil
	}
	loaded := c.group.DoChan(c.key(k), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadLimit)
		defer cancel()
		asked := time.Now() // the value may be as old as the question
		value, err := load(ctx)
		if err != nil {
			return value, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.entries) >= maxEntries {
			clear(c.entries)
		}
		c.entries[k] = entry[V]{value, asked.Add(MaxAge)}
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

// Last returns what was known of a key when it was last asked for, however old.
func (c *Cache[K, V]) Last(k K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.entries[k]
	return e.value, ok
}

// Drop makes the next Get of everything load; Last still knows what was.
func (c *Cache[K, V]) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.entries {
		c.entries[k] = entry[V]{value: e.value}
	}
}
