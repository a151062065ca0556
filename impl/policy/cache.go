package policy

import (
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// maxAge bounds how long another node's change can go unseen (REL-063). It is
// the promise; dropping entries on notification only makes it faster.
const maxAge = time.Second

// maxEntries bounds a cache whose keys requests choose (SEC-293).
const maxEntries = 10_000

// cache keeps the answers of load for maxAge. Concurrent loads of one key are
// one load. Errors are not kept: what could not be read is asked again.
type cache[K comparable, V any] struct {
	key     func(K) string // for single flight
	mu      sync.RWMutex
	entries map[K]entry[V]
	group   singleflight.Group
}

type entry[V any] struct {
	value V
	until time.Time // monotonic, so that a stepping wall clock cannot keep it alive
}

func newCache[K comparable, V any](key func(K) string) *cache[K, V] {
	return &cache[K, V]{key: key, entries: map[K]entry[V]{}}
}

func (c *cache[K, V]) get(k K, load func() (V, error)) (V, error) {
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
		c.entries[k] = entry[V]{value, asked.Add(maxAge)}
		return value, nil
	})
	value, _ := loaded.(V)
	return value, err
}

// last returns what was known of a key when it was last asked for, however old.
func (c *cache[K, V]) last(k K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.entries[k]
	return e.value, ok
}

func (c *cache[K, V]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}
