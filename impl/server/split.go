package server

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// split serves two protocols on one port: connections that open with the HTTP/2
// preface ("PRI ") go to grpc, all others to web. net/http's HTTP/2 would cost
// every gRPC call twice the CPU.
func split(listener net.Listener) (grpc, web net.Listener) {
	s := &splitter{Listener: listener, done: make(chan struct{})}
	g := &branch{splitter: s, conns: make(chan net.Conn)}
	w := &branch{splitter: s, conns: make(chan net.Conn)}
	go s.accept(g, w)
	return g, w
}

type splitter struct {
	net.Listener
	done chan struct{}
	once sync.Once
	err  error
}

// branch is one of the two listeners; closing either closes the port.
type branch struct {
	*splitter
	conns chan net.Conn
}

const (
	peekTimeout  = 10 * time.Second // how long a connection may say nothing
	writeTimeout = 30 * time.Second // how long a gRPC client may take nothing of what is written
)

func (s *splitter) accept(grpc, web *branch) {
	for {
		conn, err := s.Accept()
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() { // out of file descriptors, for example
				time.Sleep(5 * time.Millisecond)
				continue
			}
			s.fail(err)
			return
		}
		go func() {
			to, peeked := web, &peekedConn{Conn: conn}
			_ = conn.SetReadDeadline(time.Now().Add(peekTimeout))
			if peeked.peek(); string(peeked.first) == "PRI " {
				to, peeked.patience = grpc, writeTimeout
			}
			_ = conn.SetReadDeadline(time.Time{})
			select {
			case to.conns <- peeked:
			case <-s.done:
				conn.Close()
			}
		}()
	}
}

func (s *splitter) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.done)
	})
}

// Accept implements net.Listener.
func (b *branch) Accept() (net.Conn, error) {
	select {
	case conn := <-b.conns:
		return conn, nil
	case <-b.done:
		return nil, b.err
	}
}

// Close implements net.Listener. Both servers close their branch when they
// drain; the second finds the port closed, which is what it wants.
func (b *branch) Close() error {
	b.fail(net.ErrClosed)
	if err := b.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// peekedConn is a connection whose first bytes have been read already.
type peekedConn struct {
	net.Conn
	first    []byte
	err      error         // what ended the peek, if not its length
	patience time.Duration // for each write; 0 where the server sets deadlines
}

func (c *peekedConn) peek() {
	buffer, n := make([]byte, 4), 0
	for n < len(buffer) && c.err == nil {
		var read int
		read, c.err = c.Conn.Read(buffer[n:])
		n += read
	}
	c.first = buffer[:n]
}

// Write implements net.Conn. grpc-go sets no deadline, so that it would wait for a
// client that does not read as long as the client likes.
func (c *peekedConn) Write(p []byte) (int, error) {
	if c.patience > 0 {
		_ = c.SetWriteDeadline(time.Now().Add(c.patience))
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.Conn.Read(p)
}

// limited keeps so many connections of a listener open. For one more, those that have
// sent nothing for longest are closed: idle clients cost memory and file descriptors,
// and cannot keep others out (SEC-290).
type limited struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[*clientConn]struct{}
}

func limit(listener net.Listener, most int) net.Listener {
	return &limited{Listener: listener, most: most, open: map[*clientConn]struct{}{}}
}

// clientConn is a connection that notes when something came last.
type clientConn struct {
	net.Conn
	of   *limited
	last atomic.Int64 // nanoseconds since the process started
}

var started = time.Now()

// Read implements net.Conn.
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.last.Store(int64(time.Since(started)))
	return n, err
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	made := &clientConn{Conn: conn, of: l}
	made.last.Store(int64(time.Since(started)))
	for _, idle := range l.add(made) {
		_ = idle.Close()
	}
	return made, nil
}

// add returns the connections that have to make room: some more than one, so that
// not each new connection has to look for them.
func (l *limited) add(made *clientConn) []*clientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	var idle []*clientConn
	if len(l.open) >= l.most {
		for conn := range l.open {
			idle = append(idle, conn)
		}
		slices.SortFunc(idle, func(a, b *clientConn) int { return int(a.last.Load() - b.last.Load()) })
		idle = idle[:1+len(idle)/64]
	}
	l.open[made] = struct{}{}
	return idle
}
