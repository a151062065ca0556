package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/health"
)

// TestREL001_AnEndThatWasAskedForIsNoWarning watches servers that are not ready: only of the one
// that nobody ends something is told.
func TestREL001_AnEndThatWasAskedForIsNoWarning(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ready func(context.Context) error
		ended bool
		want  int
	}{
		"ended":    {ready: context.Cause, ended: true},
		"draining": {ready: func(context.Context) error { return ErrDraining }},
		"broken":   {ready: func(context.Context) error { return errors.New("no database") }, want: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			if test.ended {
				cancel()
			}
			go watchHealth(ctx, health.NewServer(), nil, test.ready, slog.New(slog.NewTextHandler(&log, nil)))
			time.Sleep(5 * time.Second)
			cancel()
			synctest.Wait()
			if got := strings.Count(log.String(), "WARN"); got != test.want {
				t.Errorf("%s: %d warnings, want %d: %s", name, got, test.want, log.String())
			}
		})
	}
}
