package server

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// An HTTP/2 client may open streams and reset them at once, which costs it a few bytes
// and us a call each, and keeps it below any number of concurrent streams (SEC-294,
// CVE-2023-44487). So a connection has resets like tokens: some at first, some more
// each second, and ends without any.
const (
	resetsAtOnce    = 100
	resetsPerSecond = 10
)

var errResets = errors.New("server: the client resets too many streams")

// allowance counts down what a connection may do.
type allowance struct {
	mu    sync.Mutex
	spent float64
	last  time.Time
}

// spend takes one and reports whether there was none left.
func (a *allowance) spend(now time.Time) (over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent = max(0, a.spent-now.Sub(a.last).Seconds()*resetsPerSecond) + 1
	a.last = now
	return a.spent > resetsAtOnce
}

// resets finds the RST_STREAM frames in what a client sends, after "PRI ".
type resets struct {
	allowance
	begun  bool
	skip   int // bytes to the next frame
	header []byte
}

const (
	restOfPreface  = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") - 4
	frameHeader    = 9
	frameRSTStream = 3
)

func (r *resets) tooMany(p []byte, now time.Time) bool {
	if !r.begun {
		r.begun, r.skip = true, restOfPreface
	}
	for len(p) > 0 {
		if n := min(r.skip, len(p)); n > 0 {
			r.skip -= n
			p = p[n:]
			continue
		}
		n := min(frameHeader-len(r.header), len(p))
		r.header = append(r.header, p[:n]...)
		p = p[n:]
		if len(r.header) < frameHeader {
			return false
		}
		r.skip = int(binary.BigEndian.Uint32(r.header) >> 8)
		kind := r.header[3]
		r.header = r.header[:0]
		if kind == frameRSTStream && r.spend(now) {
			return true
		}
	}
	return false
}

type connKey struct{}

// served is a connection of net/http, whose HTTP/2 may be within TLS.
type served struct {
	net.Conn
	resets allowance
}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &served{Conn: conn})
}

// endResets closes the connection of a client that broke off too many requests.
func endResets(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*served); ok && r.ProtoMajor == 2 && r.Context().Err() != nil && conn.resets.spend(time.Now()) {
		_ = conn.Close()
	}
}
