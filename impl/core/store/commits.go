package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// commits tells of commits. Those who hear of them change rarely: each change makes another
// list, so that a commit reads it without a lock.
type commits struct {
	mu    sync.Mutex
	heard atomic.Pointer[[]*func()]
}

func (c *commits) subscribe(hear func()) (stop func()) {
	c.change(func(all []*func()) []*func() { return append(all, &hear) })
	return func() {
		c.change(func(all []*func()) []*func() {
			return slices.DeleteFunc(all, func(one *func()) bool { return one == &hear })
		})
	}
}

func (c *commits) change(do func([]*func()) []*func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*func()
	if now := c.heard.Load(); now != nil {
		all = slices.Clone(*now)
	}
	all = do(all)
	c.heard.Store(&all)
}

func (c *commits) publish() {
	if all := c.heard.Load(); all != nil {
		for _, hear := range *all {
			(*hear)()
		}
	}
}
