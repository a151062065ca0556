package world

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// door listens for a world as long as it is there. Servers lease it one after the other, so
// that who calls in between waits.
type door struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	last   atomic.Int64 // when somebody last sent something
}

func open() (*door, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{Listener: listener, conns: make(chan net.Conn), closed: make(chan struct{})}
	d.touch()
	go d.accept()
	return d, nil
}

func (d *door) touch() { d.last.Store(time.Now().UnixNano()) }

// idle returns for how long nobody has sent anything.
func (d *door) idle() time.Duration { return time.Since(time.Unix(0, d.last.Load())) }

func (d *door) accept() {
	for {
		conn, err := d.Accept()
		if err != nil {
			d.close()
			return
		}
		d.touch()
		select {
		case d.conns <- &watched{conn, d}:
		case <-d.closed:
			_ = conn.Close()
		}
	}
}

func (d *door) close() {
	d.once.Do(func() {
		close(d.closed)
		_ = d.Close()
	})
}

// watched is a connection whose reads are signs of life.
type watched struct {
	net.Conn
	door *door
}

// Read implements net.Conn.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.door.touch()
	}
	return n, err
}

// lease is the listener of one server. Closing it leaves the door open.
type lease struct {
	*door
	ended chan struct{}
	once  sync.Once
}

func (d *door) lend() *lease { return &lease{door: d, ended: make(chan struct{})} }

// Accept implements net.Listener.
func (l *lease) Accept() (net.Conn, error) {
	select {
	case <-l.ended:
		return nil, net.ErrClosed
	default:
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
	case <-l.closed:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *lease) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}
