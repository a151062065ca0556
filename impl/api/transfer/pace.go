package transfer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/writ-id/writ/impl/core/admission"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/spool"
)

// Bytes come and go at the speed of clients and of storages. So they go through files (package
// spool): a place of the node is taken, and a transaction open, only while all is there to be
// worked with. Whoever sends or takes them has to keep a rate, and an instance has one
// transfer on a node at a time (REL-108).
const (
	// step is how many bytes may take stepTime.
	step     = 1 << 20
	stepTime = 30 * time.Second
	// closeTime is what a storage may take to make an object of the parts that it has.
	closeTime = 5 * time.Minute
	// busyWait is what a client is told to wait that comes too early.
	busyWait = 10 * time.Second
)

var (
	errRunning = fault.New(fault.Busy, "TRANSFERS_RUNNING", "another transfer of this instance is running on this node; try again in %s", busyWait).After(busyWait)
	errBusy    = fault.New(fault.Unavailable, "TRANSFERS_RUNNING", "the node exports and imports as much as it can at once; try again in %s", busyWait).After(busyWait)
	errFull    = fault.New(fault.Unavailable, "TRANSFER_SPACE", "the room that the node has for what moves is in use (--transfer-space, or the disk of --transfer-dir); try again in %s", busyWait).After(busyWait)
	errShare   = fault.New(fault.TooLarge, "TRANSFER_SPACE", "this is more than one instance may have of the node's room for what moves: half of --transfer-space")
	errStalled = fault.New(fault.Unavailable, "STORAGE_UNAVAILABLE", "the storage is too slow, or does not answer: a MiB may take %s", stepTime)
)

// admit notes that an instance moves something here, if nothing else of it does.
func (s *Service) admit(instanceID string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moving[instanceID] {
		return nil, errRunning
	}
	s.moving[instanceID] = true
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.moving, instanceID)
	}), nil
}

// working does what takes the database's time, in one of the places of the node, which
// instances get by turns.
func (s *Service) working(ctx context.Context, instanceID string, do func() error) error {
	if err := s.places.Enter(ctx, instanceID); err != nil {
		if errors.Is(err, admission.ErrFull) {
			return errBusy
		}
		return err
	}
	defer s.places.Leave(instanceID)
	return do()
}

// room says what an error about room on the disk means to a client.
func room(err error) error {
	switch {
	case errors.Is(err, spool.ErrFull):
		return errFull
	case errors.Is(err, spool.ErrShare):
		return errShare
	}
	return err
}

// steps calls begun when the first byte is waited for, and whenever a further step of them went.
type steps struct {
	begun   func() error
	started bool
	left    int
}

func (s *steps) went(n int) error {
	if s.left -= n; s.started && s.left > 0 {
		return nil
	}
	s.started, s.left = true, step
	return s.begun()
}

// watched ends what moves bytes when they do not move: that of a context and its reader.
type watched struct {
	timer *time.Timer

	mu    sync.Mutex
	each  time.Duration // a step may take
	steps steps
}

// watch returns a context that ends with errStalled unless bytes move, within so long a step.
func watch(ctx context.Context, each time.Duration) (context.Context, *watched, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watched{timer: time.AfterFunc(each, func() { cancel(errStalled) }), each: each}
	w.steps.begun = func() error {
		w.timer.Reset(w.each)
		return nil
	}
	return ctx, w, func() { w.timer.Stop(); cancel(nil) }
}

// went notes that bytes moved.
func (w *watched) went(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.steps.went(n) // has no error
}

// within has a step take longer, from now on.
func (w *watched) within(each time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each = each
	w.timer.Reset(each)
}

func (w *watched) reader(of io.Reader) io.Reader { return moved{of, w} }

// moved tells of what moved.
type moved struct {
	from io.Reader
	w    *watched
}

// Read implements io.Reader.
func (m moved) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if n > 0 {
		m.w.went(n)
	}
	return n, err
}

// answering writes an answer that has to be read at the rate.
type answering struct {
	http.ResponseWriter
	steps steps
}

func paced(w http.ResponseWriter) *answering {
	wire := http.NewResponseController(w)
	return &answering{ResponseWriter: w, steps: steps{begun: func() error {
		_ = wire.SetWriteDeadline(time.Now().Add(stepTime)) // where there is none, the connection has its own
		return nil
	}}}
}

// Write implements io.Writer.
func (a *answering) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		some := min(len(p), step/4)
		_ = a.steps.went(some) // has no error
		some, err = a.ResponseWriter.Write(p[:some])
		n, p = n+some, p[some:]
	}
	return n, err
}

// Unwrap returns the writer behind it to http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }
