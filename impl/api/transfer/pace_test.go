package transfer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestREL108_WhatDoesNotMoveIsBrokenOff has a storage that never answers, and one whose bytes come:
// only the former ends.
func TestREL108_WhatDoesNotMoveIsBrokenOff(t *testing.T) {
	t.Parallel()
	ctx, _, done := watch(t.Context(), time.Millisecond)
	<-ctx.Done()
	done()
	if !errors.Is(context.Cause(ctx), errStalled) {
		t.Errorf("got %v", context.Cause(ctx))
	}
	begun := 0
	s := &steps{begun: func() error { begun++; return nil }}
	for range 10 * 4 {
		_ = s.went(step / 4)
	}
	if begun != 10 {
		t.Errorf("of 10 steps %d begun", begun)
	}
	ctx, w, done := watch(t.Context(), time.Hour)
	defer done()
	w.within(2 * time.Hour)
	n, err := io.Copy(io.Discard, w.reader(strings.NewReader(strings.Repeat("x", 3*step+5))))
	if err != nil || n != 3*step+5 || ctx.Err() != nil {
		t.Errorf("got %d, %v, %v", n, err, ctx.Err())
	}
}
