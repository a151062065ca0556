// Package cache remembers what was read from the database, for a second at most.
package cache

import (
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

// Get returns what is known of k, or loads it.
func (c *Cache[K, V]) Get(k K, load func() (V, error)) (V, error) {
	c.mu.RLock()
	e, ok := c.entries[k]
	c.mu.RUnlock()
	if ok && time.Now().Before(e.until) {
		return e.value, nil
	}
	loaded, err, _ := c.group.Do(c.key(k), func() (any, error) {
		asked := time.Now() // the value may be as old as the question
		value, err := load()
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
	value, _ := loaded.(V)
	return value, err
}

// Last returns what was known of a key when it was last asked for, however old.
func (c *Cache[K, V]) Last(k K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.entries[k]
	return e.value, ok
}

// Drop forgets everything.
func (c *Cache[K, V]) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}
