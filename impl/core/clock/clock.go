// Package clock is a clock that tests can freeze, set and advance. Only `writ
// dev` makes one; production reads the time of its machine and has no way to a
// Clock.
package clock

import (
	"fmt"
	"sync"
	"time"
)

// Clock is the time of the machine, moved. It is safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	offset  time.Duration
	frozen  *time.Time
	changed chan struct{} // closed at the next change
}

// New returns a clock that shows the time of the machine.
func New() *Clock { return &Clock{changed: make(chan struct{})} }

// Now returns the time: UTC, in the microseconds that PostgreSQL keeps.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if c.frozen != nil {
		return *c.frozen
	}
	return time.Now().Add(c.offset).UTC().Truncate(time.Microsecond)
}

// Changed returns a channel that is closed when the clock is next moved, so that
// what waits for a time can look again.
func (c *Clock) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Change is what to do with a clock; what is absent stays.
type Change struct {
	// Set makes it this time.
	Set *time.Time `json:"set,omitempty"`
	// Advance moves it, as a Go duration: 90s, 1h30m, -5m.
	Advance string `json:"advance,omitempty"`
	// Frozen stops it, or lets it run on from where it is.
	Frozen *bool `json:"frozen,omitempty"`
	// Reset makes it the time of the machine again, before the rest is done.
	Reset bool `json:"reset,omitempty"`
}

// limit is how far a clock goes: what is stored and signed holds years of four
// digits.
var earliest, latest = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// Apply moves the clock, or leaves it alone and says what is wrong.
func (c *Clock) Apply(change Change) error {
	var by time.Duration
	if change.Advance != "" {
		var err error
		if by, err = time.ParseDuration(change.Advance); err != nil {
			return fmt.Errorf("advance: %q is not a duration such as 90s or 1h30m", change.Advance)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	offset, frozen := c.offset, c.frozen
	if change.Reset {
		offset, frozen = 0, nil
	}
	machine := time.Now()
	at := machine.Add(offset)
	if frozen != nil {
		at = *frozen
	}
	if change.Set != nil {
		at = *change.Set
	}
	if at = at.Add(by).UTC().Truncate(time.Microsecond); at.Before(earliest) || at.After(latest) {
		return fmt.Errorf("the clock goes from %s to %s", earliest.Format(time.RFC3339), latest.Format(time.RFC3339))
	}
	stopped := frozen != nil
	if change.Frozen != nil {
		stopped = *change.Frozen
	}
	c.offset, c.frozen = at.Sub(machine), nil
	if stopped {
		c.frozen = &at
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// Setting is how a clock was moved.
type Setting struct {
	offset time.Duration
	frozen *time.Time
}

// Setting returns it.
func (c *Clock) Setting() Setting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Setting{c.offset, c.frozen}
}

// Put makes the clock as one was that had the setting.
func (c *Clock) Put(s Setting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.frozen = s.offset, s.frozen
	close(c.changed)
	c.changed = make(chan struct{})
}

// State is what a clock shows.
type State struct {
	Now    time.Time `json:"now"`
	Offset string    `json:"offset"` // from the time of the machine
	Frozen bool      `json:"frozen"`
}

// State returns it.
func (c *Clock) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	return State{now, (-time.Since(now)).Round(time.Second).String(), c.frozen != nil}
}
