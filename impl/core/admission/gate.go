// Package admission shares what there is little of among tenants: while one floods a
// node, the others are served as if it were not there (SEC-221).
package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrFull is the answer to a tenant of whom enough are waiting.
var ErrFull = errors.New("fair: too many are waiting")

// Gate has places for what runs at once. Whoever waits gets the next place that is
// free by turns: a tenant's turn, however many of it wait. No tenant has all places,
// so that another one need not wait for something long to end.
//
// It is safe for concurrent use.
type Gate struct {
	mostRunning, mostWaiting int // of one tenant

	refused atomic.Int64

	mu      sync.Mutex
	free    int
	running map[string]int
	waiting map[string][]*visitor
	turns   []string // the tenants that wait, whose turn it is first
}

type visitor struct {
	admitted chan struct{}
	in       bool // under the mutex of the gate
}

// New returns a Gate. Of one tenant so many may wait. A quarter of the places, one at
// least, is kept from each tenant for the others; so a gate has two.
func New(places, waiting int) *Gate {
	places = max(places, 2)
	return NewShares(places, places-max(places/4, 1), waiting)
}

// NewShares returns a Gate of which one tenant has so many places at most.
func NewShares(places, most, waiting int) *Gate {
	return &Gate{mostRunning: most, mostWaiting: waiting, free: places, running: map[string]int{}, waiting: map[string][]*visitor{}}
}

// Try takes a place if the tenant has not to wait for one; Leave gives it back.
func (g *Gate) Try(tenant string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.try(tenant)
}

func (g *Gate) try(tenant string) bool {
	if g.free == 0 || g.running[tenant] >= g.mostRunning || len(g.waiting[tenant]) > 0 {
		return false
	}
	g.take(tenant)
	return true
}

// Enter returns when the tenant has a place; Leave gives it back. The error is
// ErrFull, or that of ctx.
func (g *Gate) Enter(ctx context.Context, tenant string) error {
	g.mu.Lock()
	if g.try(tenant) {
		g.mu.Unlock()
		return nil
	}
	if len(g.waiting[tenant]) >= g.mostWaiting {
		g.mu.Unlock()
		g.refused.Add(1)
		return ErrFull
	}
	v := &visitor{admitted: make(chan struct{})}
	if len(g.waiting[tenant]) == 0 {
		g.turns = append(g.turns, tenant)
	}
	g.waiting[tenant] = append(g.waiting[tenant], v)
	g.mu.Unlock()
	select {
	case <-v.admitted:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.in { // in the same moment
		return nil
	}
	g.remove(tenant, slices.Index(g.waiting[tenant], v))
	if !errors.Is(ctx.Err(), context.Canceled) { // who went away was not refused
		g.refused.Add(1)
	}
	return context.Cause(ctx)
}

// Refused is how many there was no place for.
func (g *Gate) Refused() int64 { return g.refused.Load() }

func (g *Gate) take(tenant string) {
	g.free--
	g.running[tenant]++
}

// Leave gives a place of a tenant to who is next.
func (g *Gate) Leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free++
	if g.running[tenant]--; g.running[tenant] == 0 {
		delete(g.running, tenant)
	}
	for g.free > 0 {
		next, ok := g.next()
		if !ok {
			return
		}
		g.take(next)
		v := g.waiting[next][0]
		v.in = true
		close(v.admitted)
		g.remove(next, 0)
		if at := slices.Index(g.turns, next); at >= 0 { // it waits for another turn
			g.turns = append(slices.Delete(g.turns, at, at+1), next)
		}
	}
}

// next returns the tenant who runs least of those who wait and may, by turns.
func (g *Gate) next() (next string, ok bool) {
	least := g.mostRunning
	for _, tenant := range g.turns {
		if running := g.running[tenant]; running < least {
			next, least, ok = tenant, running, true
		}
	}
	return next, ok
}

// remove takes a visitor out of the line of a tenant.
func (g *Gate) remove(tenant string, at int) {
	line := slices.Delete(g.waiting[tenant], at, at+1)
	g.waiting[tenant] = line
	if len(line) == 0 {
		delete(g.waiting, tenant)
		g.turns = slices.DeleteFunc(g.turns, func(one string) bool { return one == tenant })
	}
}
