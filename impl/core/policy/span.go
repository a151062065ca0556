package policy

import (
	"context"
	"time"
)

// span is the context of the work of a request: it ends CallTimeout after that began, or
// with whoever asked. While the request waits for somebody else (Request.Outside) its time
// stands still; the work that follows has its whole time again.
type span struct {
	context.Context // of whoever asked

	inner  context.Context // for who waits for the end
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

type spanKey struct{}

// Begin begins the work of a request; end has to be called.
func Begin(ctx context.Context) (_ context.Context, end func()) {
	s := &span{Context: ctx}
	s.inner, s.cancel = context.WithCancelCause(ctx)
	s.timer = time.AfterFunc(CallTimeout, func() { s.cancel(context.DeadlineExceeded) })
	return s, s.end
}

func (s *span) end() {
	s.timer.Stop()
	s.cancel(nil)
}

// standStill stops the time of the work that ctx is of, if that has one; goOn gives it its
// whole time again, unless it was over.
func standStill(ctx context.Context) (goOn func()) {
	s, ok := ctx.Value(spanKey{}).(*span)
	if !ok || !s.timer.Stop() {
		return func() {}
	}
	return func() { s.timer.Reset(CallTimeout) }
}

// Done implements context.Context.
func (s *span) Done() <-chan struct{} { return s.inner.Done() }

// Err implements context.Context.
func (s *span) Err() error {
	err := s.inner.Err()
	if err != nil && context.Cause(s.inner) == context.DeadlineExceeded { //nolint:errorlint // the very one
		return context.DeadlineExceeded
	}
	return err
}

// AfterFunc lets contexts made of this one end with it, without a goroutine each.
func (s *span) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(s.inner, f) }

// Value implements context.Context.
func (s *span) Value(key any) any {
	if key == (spanKey{}) {
		return s
	}
	return s.Context.Value(key)
}
