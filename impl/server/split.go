package server

import (
	"errors"
	"net"
	"sync"
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

// peekTimeout bounds how long a connection may say nothing.
const peekTimeout = 10 * time.Second

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
				to = grpc
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
	first []byte
	err   error // what ended the peek, if not its length
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
