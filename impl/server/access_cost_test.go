//go:build !race

// The race detector drops what sync.Pool keeps, so that nothing can be counted.

package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/telemetry"
)

// answerOnce writes an answer and the access line of its request.
func answerOnce(s *Server, to http.ResponseWriter, r *http.Request) {
	e := &exchange{ResponseWriter: to, http1: true, request: policy.Request{
		ID: "0198a1b2-c3d4-7000-8000-0123456789ab", Route: "/resources/v3alpha/targets/{id}",
		Instance: "0198a1b2-c3d4-7000-8000-0123456789ab", User: "0198a1b2-c3d4-7000-8000-0123456789ab",
	}}
	e.WriteHeader(http.StatusOK)
	s.logExchange(r.Context(), e, r.Method, time.Time{}, telemetry.Served{})
}

func logging(level slog.Level) *Server {
	return &Server{Config: Config{Logger: slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: level}))}}
}

// The exchange takes the place of what a request had to remember anyway; the line
// costs one allocation, for attributes that find no room in a record of slog.
func TestTheAccessLineCostsOneAllocation(t *testing.T) {
	r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
	silent, speaking := logging(slog.LevelError), logging(slog.LevelInfo)
	without := testing.AllocsPerRun(200, func() { answerOnce(silent, w, r) })
	with := testing.AllocsPerRun(200, func() { answerOnce(speaking, w, r) })
	if without > 1 || with > without+1 {
		t.Errorf("got %v allocations without the line and %v with it, want at most one more", without, with)
	}
}

func BenchmarkAccessLine(b *testing.B) {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	for name, level := range map[string]slog.Level{"off": slog.LevelError, "on": slog.LevelInfo} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s, w := logging(level), httptest.NewRecorder()
			for b.Loop() {
				answerOnce(s, w, r)
			}
		})
	}
}
