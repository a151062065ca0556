// Package throttle limits what strangers at one address get wrong, and what they have sent,
// in a stretch of time: passwords of many users are not tried from one place, nor many
// people mailed (SEC-180, SEC-185). Who gets it right spends nothing.
//
// Each node counts for itself, in memory: what counts for a user counts in the database.
package throttle

import (
	"net/netip"
	"sync"
	"time"
)

// Limit is how often, in how long. The zero Limit is none.
type Limit struct {
	Times int
	Per   time.Duration
}

// maxSources bounds the memory. When there are more, those who spent least are forgotten.
const maxSources = 100_000

// Throttle is safe for concurrent use; nil limits nothing.
type Throttle struct {
	limit Limit
	now   func() time.Time

	mu      sync.Mutex
	sources map[source]time.Time // when each will have spent nothing (GCRA)
}

type source struct {
	tenant string
	from   netip.Prefix
}

// New returns a Throttle; nil when there is no limit.
func New(limit Limit, now func() time.Time) *Throttle {
	if limit.Times <= 0 || limit.Per <= 0 {
		return nil
	}
	return &Throttle{limit: limit, now: now, sources: map[source]time.Time{}}
}

// Take spends one try of an address at a tenant, and returns what gives it back. When none
// is left it returns how long until there is one. Who has an IPv6 address has a network of
// them, so that counts. Without an address it is that of the proxies, or of a test: all of
// them count together.
func (t *Throttle) Take(tenant, address string) (giveBack func(), wait time.Duration) {
	if t == nil {
		return func() {}, 0
	}
	at, now, each := source{tenant, network(address)}, t.now(), t.limit.Per/time.Duration(t.limit.Times)
	t.mu.Lock()
	defer t.mu.Unlock()
	free := t.sources[at]
	if free.Before(now) {
		free = now
	}
	if free = free.Add(each); free.After(now.Add(t.limit.Per)) {
		return func() {}, free.Sub(now.Add(t.limit.Per))
	}
	if len(t.sources) >= maxSources {
		t.forget(now)
	}
	t.sources[at] = free
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if free, ok := t.sources[at]; ok {
			if free = free.Add(-each); free.After(t.now()) {
				t.sources[at] = free
			} else {
				delete(t.sources, at)
			}
		}
	}), 0
}

// forget makes room: who has spent nothing any more goes, and if that is not enough those
// who have spent less than half.
func (t *Throttle) forget(now time.Time) {
	for _, until := range []time.Time{now, now.Add(t.limit.Per / 2), now.Add(t.limit.Per)} {
		for at, free := range t.sources {
			if !free.After(until) {
				delete(t.sources, at)
			}
		}
		if len(t.sources) < maxSources*3/4 {
			return
		}
	}
}

// network is what counts as one source: an address of IPv4, a /64 of IPv6.
func network(address string) netip.Prefix {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
