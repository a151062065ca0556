package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/writ-id/writ/impl/core/fault"
)

// A body is read before anything is taken for its request, so that a client who
// sends slowly keeps nothing but its connection (SEC-290).
const (
	// bodyTime is how long a body may take, and a second more for each bodyRate bytes
	// that came.
	bodyTime = 5 * time.Second
	bodyRate = 32 << 10
	// bodyMemory bounds what bodies may take that are not complete.
	bodyMemory = 64 << 20
)

var errTooSlow = fault.New(fault.TooSlow, "BODY_TIMEOUT", "the body of the request did not arrive in time")

// bodies are those that are being read. When they are too long together, the one
// that takes longest is cut off: who sends at once is not refused for who does not.
type bodies struct {
	most int

	mu      sync.Mutex
	held    int
	reading []*upload // in the order in which they began
}

// upload is a body that is being read.
type upload struct {
	held  int
	begun time.Time
	until func(time.Time) // sets its deadline
	cut   bool
}

// receive reads the body of a request of at most limit bytes and puts it in the place
// of the one on the wire. Why it could not be read is what reading gives then: for a
// longer one an *http.MaxBytesError. Only that it came too slowly is an error.
func (b *bodies) receive(w http.ResponseWriter, r *http.Request, limit int) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	var text []byte
	var err error
	if r.ContentLength > int64(limit) {
		err = &http.MaxBytesError{Limit: int64(limit)}
	} else {
		text, err = b.read(w, r, limit)
	}
	if err != nil { // what is left of it is not waited for
		w.Header()["Connection"] = []string{"close"}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errTooSlow
	}
	r.Body = received{bytes.NewReader(text), err}
	return nil
}

func (b *bodies) read(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	wire := http.NewResponseController(w)
	one := &upload{begun: time.Now(), until: func(t time.Time) { _ = wire.SetReadDeadline(t) }}
	b.begin(one)
	defer b.end(one)
	size := 512
	if r.ContentLength > 0 { // one byte more, to find its end
		size = min(int(r.ContentLength)+1, 16<<10)
	}
	text := make([]byte, 0, size)
	for {
		if len(text) == cap(text) {
			text = slices.Grow(text, len(text))
		}
		if !b.grow(one, cap(text)) {
			return nil, os.ErrDeadlineExceeded
		}
		n, err := r.Body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case len(text) > limit:
			return nil, &http.MaxBytesError{Limit: int64(limit)}
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}

func (b *bodies) begin(one *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = append(b.reading, one)
}

// grow notes how much a body takes now, and gives it the time for that much; it
// reports whether the body was not cut off.
func (b *bodies) grow(one *upload, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if size == one.held || one.cut {
		return !one.cut
	}
	one.until(one.begun.Add(bodyTime + time.Duration(size)*time.Second/bodyRate))
	b.held += size - one.held
	one.held = size
	for i := 0; b.held > b.most && i < len(b.reading); i++ {
		if oldest := b.reading[i]; oldest != one && !oldest.cut {
			b.held -= oldest.held
			oldest.held, oldest.cut = 0, true
			oldest.until(oldest.begun)
		}
	}
	return true
}

func (b *bodies) end(one *upload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= one.held
	at := slices.Index(b.reading, one)
	b.reading = slices.Delete(b.reading, at, at+1)
	one.until(time.Time{})
}

// isEmpty reports whether there is nothing in a body that went through receive.
func isEmpty(body io.ReadCloser) bool {
	read, ok := body.(received)
	return body == nil || body == http.NoBody || ok && read.err == nil && read.text.Len() == 0
}

// received is a body that was read.
type received struct {
	text *bytes.Reader
	err  error // why it is not complete
}

// Read implements io.Reader.
func (b received) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	return b.text.Read(p)
}

// Close implements io.Closer.
func (received) Close() error { return nil }

// later is the answer to a request, to be sent when the request has given back what
// it took: a client who does not read keeps nothing but its connection (SEC-290).
type later struct {
	http.ResponseWriter
	status int
	text   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (l *later) WriteHeader(status int) {
	if l.status == 0 {
		l.status = status
	}
}

// Write implements io.Writer.
func (l *later) Write(p []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	return l.text.Write(p)
}

func (l *later) send() {
	if l.status != 0 {
		l.ResponseWriter.WriteHeader(l.status)
	}
	if l.text.Len() > 0 {
		_, _ = l.ResponseWriter.Write(l.text.Bytes())
	}
}
