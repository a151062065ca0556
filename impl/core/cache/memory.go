package cache

import (
	"slices"
	"sync"
)

// Memory is all that a node remembers of the database. A change through this node drops it
// before it is answered; other nodes hear of that by notification, at the latest after MaxAge.
// A nil Memory is that of a program that remembers nothing, or of nothing that others change.
type Memory struct {
	mu    sync.RWMutex
	drops []func()
}

// Holds is told by each that remembers something, when it is made, what drops it.
func (m *Memory) Holds(drop func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drops = append(slices.Clip(m.drops), drop)
}

// Forget drops all of it.
func (m *Memory) Forget() {
	if m == nil {
		return
	}
	m.mu.RLock()
	drops := m.drops
	m.mu.RUnlock()
	for _, drop := range drops {
		drop()
	}
}
