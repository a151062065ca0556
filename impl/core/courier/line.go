package courier

import (
	"sync"
	"time"
)

// lines are the connections that wait for another e-mail, by the key of their server.
type lines struct {
	mu     sync.Mutex
	all    map[string][]*line
	n      int
	closed bool
}

// take returns a connection to a server, if there is one.
func (p *lines) take(key string) (*line, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.all[key]
	if len(kept) == 0 {
		return nil, false
	}
	l := kept[len(kept)-1]
	p.remove(key, l)
	return l, true
}

// put keeps a connection for a while, unless there are enough or it has done enough.
func (p *lines) put(key string, l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || l.mails >= mailsOnLine || len(p.all[key]) >= idleLines || p.n >= linesInAll {
		go l.quit()
		return
	}
	p.all[key] = append(p.all[key], l)
	p.n++
	l.timer = time.AfterFunc(idleLimit, func() {
		p.mu.Lock()
		was := p.remove(key, l)
		p.mu.Unlock()
		if was {
			l.quit()
		}
	})
}

// remove takes a connection out, and reports whether it was in.
func (p *lines) remove(key string, l *line) bool {
	for i, one := range p.all[key] {
		if one != l {
			continue
		}
		l.timer.Stop()
		if p.all[key] = append(p.all[key][:i], p.all[key][i+1:]...); len(p.all[key]) == 0 {
			delete(p.all, key)
		}
		p.n--
		return true
	}
	return false
}

func (p *lines) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for key, kept := range p.all {
		for _, l := range kept {
			l.timer.Stop()
			_ = l.conn.Close()
		}
		delete(p.all, key)
	}
	p.n = 0
}

// quit takes leave and hangs up.
func (l *line) quit() {
	_ = l.conn.SetDeadline(time.Now().Add(time.Second))
	_ = l.client.CloseWithSMTPClient(l.smtp)
	_ = l.conn.Close()
}
