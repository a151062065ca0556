package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/core/compress"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// serveNowhere refuses what no route is for, but what gRPC has besides calls where
// net/http speaks HTTP/2: reflection and health.
func (s *Server) serveNowhere(w http.ResponseWriter, r *http.Request) {
	if s.SharedHTTP2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		s.grpc.ServeHTTP(w, r)
		return
	}
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.pages.Nowhere(w, r, s.Reference != ReferenceOff)
		return
	}
	serveUnknown(w, r)
}

func serveUnknown(w http.ResponseWriter, r *http.Request) {
	writeFault(w, fault.New(fault.UnknownPath, "PATH_UNKNOWN", "there is nothing at %q; the API reference lists the operations", r.URL.Path))
}

// refuse answers a request with a refusal as the resource API does.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	w.Header()["Cache-Control"] = noStore
	writeFault(w, policy.Refusal(r.Context(), s.Logger, r.URL.Path, err))
}

// serveLive says that the process runs; it asks nobody (REL-071).
func serveLive(w http.ResponseWriter, _ *http.Request) { writePlain(w, http.StatusOK, "ok\n") }

// serveSeedSchema serves the JSON Schema of seed files to editors.
func serveSeedSchema(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "application/schema+json")
	header.Set("Access-Control-Allow-Origin", "*")
	seedSchema.Serve(w, r)
}

var seedSchema = &compress.Prepared{Plain: openapi.SeedSchema}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.Ready(r.Context()); err != nil {
		writePlain(w, http.StatusServiceUnavailable, "not ready\n")
		return
	}
	writePlain(w, http.StatusOK, "ok\n")
}

func writePlain(w http.ResponseWriter, status int, text string) {
	w.Header()["Cache-Control"] = noStore
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// readyTimeout bounds what a probe waits for the database.
const readyTimeout = 500 * time.Millisecond

// ErrDraining is why a server that was told to end is not ready.
var ErrDraining = errors.New("server: draining")

// Ready reports whether the server can do its work now: it is not draining, the database
// answers, and its master key is that of the database.
func (s *Server) Ready(ctx context.Context) error {
	if s.draining.Load() {
		return ErrDraining
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.holdsKeys(ctx)
}
