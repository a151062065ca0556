package user

import (
	"context"
	"sync"
)

// underWay is how many passwords of one user, given by one kind of browser, a node
// compares at once. The others wait: each counts as a failure until it was compared, and
// all of them together must not use up the tries that there are, on several nodes.
const underWay = 2

// lines lets those wait who try a password of the same user.
type lines struct {
	mu      sync.Mutex
	waiting map[string]*line
}

// line has a place for each password that is under way.
type line struct {
	places chan struct{}
	users  int
}

// enter waits for a place; leave gives it back.
func (l *lines) enter(ctx context.Context, key string) (leave func(), err error) {
	l.mu.Lock()
	one := l.waiting[key]
	if one == nil {
		one = &line{places: make(chan struct{}, underWay)}
		l.waiting[key] = one
	}
	one.users++
	l.mu.Unlock()
	gone := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.waiting, key)
		}
	}
	select {
	case one.places <- struct{}{}:
		return func() { <-one.places; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}
