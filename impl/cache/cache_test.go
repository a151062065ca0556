package cache

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestREL063_WhatIsRememberedIsAskedAgainAfterItsAge(t *testing.T) {
	t.Parallel()
	loads := 0
	c := New[string, int](func(k string) string { return k })
	load := func(context.Context) (int, error) { loads++; return loads, nil }
	for range 3 {
		if got, err := c.Get(t.Context(), "k", load); err != nil || got != 1 {
			t.Errorf("got %d, %v; want the remembered 1", got, err)
		}
	}
	e := c.entries["k"]
	e.until = time.Now().Add(-time.Nanosecond)
	c.entries["k"] = e
	if got, err := c.Get(t.Context(), "k", load); err != nil || got != 2 {
		t.Errorf("after the age: got %d, %v; want 2", got, err)
	}
	c.Drop()
	if got, err := c.Get(t.Context(), "k", load); err != nil || got != 3 {
		t.Errorf("after a drop: got %d, %v; want 3", got, err)
	}
}

func TestREL006_AnErrorIsNotRemembered(t *testing.T) {
	t.Parallel()
	c := New[string, int](func(k string) string { return k })
	broken := errors.New("broken")
	if _, err := c.Get(t.Context(), "k", func(context.Context) (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error", err)
	}
	if got, err := c.Get(t.Context(), "k", func(context.Context) (int, error) { return 7, nil }); err != nil || got != 7 {
		t.Errorf("got %d, %v; want 7", got, err)
	}
}

func TestSEC293_ACacheIsBounded(t *testing.T) {
	t.Parallel()
	c := New[int, int](func(k int) string { return string(rune(k)) })
	for k := range maxEntries + 10 {
		_, _ = c.Get(t.Context(), k, func(context.Context) (int, error) { return k, nil })
	}
	if len(c.entries) > maxEntries {
		t.Errorf("got %d entries, want at most %d", len(c.entries), maxEntries)
	}
}
