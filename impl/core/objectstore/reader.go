package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/writ-id/writ/impl/core/fault"
)

// part is an object from an offset on.
type part struct {
	body io.ReadCloser
	pin  string // generation or ETag
	size int64  // of the whole object
}

// maxBreaks is how often a connection may break without a byte in between.
const maxBreaks = 5

// reader reads an object over connections that break.
type reader struct {
	ctx    context.Context // of the whole download, which is what a reader is
	cancel context.CancelFunc
	at     *Place
	from   storage
	road   *road
	part   *part
	offset int64
	breaks int
	err    error // the last one
}

// open asks for the object from where the reader is.
func (r *reader) open() error {
	pin := ""
	if r.part != nil {
		pin = r.part.pin
	}
	part, err := r.from.read(r.ctx, r.offset, pin)
	switch {
	case err != nil:
		return r.from.refusal(err)
	case part.pin == "" || part.size < r.offset:
		_ = part.body.Close()
		return unavailable(errors.New("the answer says no generation or no length"))
	case pin != "" && (part.pin != pin || part.size != r.part.size):
		_ = part.body.Close()
		return r.at.changed()
	}
	r.part = part
	return nil
}

// Read implements io.Reader. An end before the size that was said is no end.
func (r *reader) Read(p []byte) (int, error) {
	for r.err == nil {
		if len(p) == 0 {
			return 0, nil
		}
		if r.offset == r.part.size {
			r.err = io.EOF
			break
		}
		left := r.part.size - r.offset
		n, err := r.part.body.Read(p[:min(int64(len(p)), left)])
		if n > 0 {
			r.offset += int64(n)
			r.breaks = 0
			return n, nil // what err is, the next Read finds out
		}
		if err != nil {
			r.err = r.resume(err)
		}
	}
	return 0, r.err
}

// resume goes on after a break.
func (r *reader) resume(broken error) error {
	for {
		_ = r.part.body.Close()
		if r.breaks++; r.breaks > maxBreaks {
			return unavailable(fmt.Errorf("the connection broke %d times: %w", maxBreaks, innermost(broken)))
		}
		if err := r.pause(); err != nil {
			return err
		}
		err := r.open()
		if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Kind != fault.Unavailable {
			return err // nil too
		}
		broken = err
	}
}

// pause waits, after the first break not at all and then longer each time.
func (r *reader) pause() error {
	pause := time.NewTimer(time.Duration(r.breaks-1) * 500 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-pause.C:
		return nil
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.part != nil {
		_ = r.part.body.Close()
	}
	r.cancel()
	r.road.answers.CloseIdleConnections()
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
	return nil
}

// newPart reads how long an object is off an answer to a request from an offset on.
func newPart(body io.ReadCloser, header http.Header, length, offset int64, pin string) (*part, error) {
	size := length
	if offset > 0 {
		var first, last int64
		if _, err := fmt.Sscanf(header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err != nil || first != offset {
			_ = body.Close()
			return nil, errors.New("the storage does not answer the range that was asked for")
		}
	}
	return &part{body, pin, size}, nil
}
