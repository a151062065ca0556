package server

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/writ-id/writ/impl/core/compress"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/telemetry"
	"github.com/writ-id/writ/impl/oidc"
)

// The steps that requests take on their way to a handler; which and in which order
// stands in routes.

var (
	nosniff = []string{"nosniff"}
	noStore = []string{"no-store"}
	hsts    = []string{"max-age=31536000"} // SEC-148
)

// noted gives a request its ID and its access line.
func (s *Server) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		from := s.came(r.Context(), r.RemoteAddr, r.Host, r.Header.Values)
		asked := r.Host
		r.Host = from.host
		w := &exchange{ResponseWriter: answer, host: asked, http1: r.ProtoMajor == 1, request: policy.Request{
			ID: plainID(r.Header.Get("X-Request-Id"), s.NewID), Host: r.Host, ClientAddress: from.from, Authorization: r.Header["Authorization"],
			SkipExecutions: r.Header.Get(policy.SkipHeader) == "true", Context: r.Header.Get(policy.ContextHeader),
		}}
		w.request.Connection = w
		ctx, served, traceparent := s.Telemetry.Serve(r.Context(), telemetry.Valid(r.Header.Get("Traceparent")), from.trusted || s.Dev != nil)
		if ctx != r.Context() {
			r = r.WithContext(ctx)
		}
		w.request.Traceparent = traceparent
		defer s.logExchange(ctx, w, r.Method, time.Now(), served)
		defer endResets(r)
		header := w.Header()
		header["X-Request-Id"] = []string{w.request.ID}
		header["X-Content-Type-Options"] = nosniff
		next.ServeHTTP(w, r)
	})
}

// came is Proxies.of, with a host that a proxy tells of only if a tenant has it: what a client
// wrote into a header that its proxy passed on is no host of ours.
func (s *Server) came(ctx context.Context, peer, host string, header func(name string) []string) came {
	at := s.Proxies.of(peer, host, header)
	if at.host != host && s.Dev == nil && !s.chain.Instances.Serves(ctx, at.host) {
		at.host = host
	}
	return at
}

// recovered answers a request whose handler panicked; calls recover in the chain,
// so only pages and transports come here.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			panicked := recover()
			if panicked == nil {
				return
			}
			if err, ok := panicked.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(panicked)
			}
			s.Logger.ErrorContext(r.Context(), "panic", "path", r.URL.Path, policy.LogID(r.Context()), "panic", panicked, "stack", string(debug.Stack()))
			writeFault(w, fault.New(fault.Internal, "INTERNAL", "internal error"))
		}()
		next.ServeHTTP(w, r)
	})
}

// plain sends paths that are not plain nowhere. The mux would send the client on to
// the one it takes them for, which no call is made for.
func plain(nowhere http.Handler) step {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !isPlain(r.URL.EscapedPath()) {
				nowhere.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// known makes what is known of a request part of its context, where the tenant is
// found by it.
func (s *Server) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.https() && s.Dev == nil { // a browser would ask other servers of localhost for https too
			w.Header()["Strict-Transport-Security"] = hsts
		}
		next.ServeHTTP(w, r.WithContext(policy.WithRequest(r.Context(), &w.(*exchange).request)))
	})
}

// spelled refuses another spelling of a path: the name of an operation has no escapes.
// Rules by path, in a proxy for example, would not know it again.
func spelled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath != "" && !hasSpelling(r.Pattern, r.URL.RawPath) {
			serveUnknown(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hasSpelling reports whether the literals of a pattern are as they are in a path.
func hasSpelling(pattern, path string) bool {
	for segment := range strings.SplitSeq(pattern, "/") {
		var at string
		at, path, _ = strings.Cut(path, "/")
		switch {
		case strings.HasSuffix(segment, "...}"):
			return true
		case !strings.HasPrefix(segment, "{") && segment != at:
			return false
		}
	}
	return true
}

// crossOrigin lets browsers on the origins of clients read answers.
func (s *Server) crossOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.public.CORS(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// notStored keeps answers out of caches.
func notStored(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Cache-Control"] = noStore
		next.ServeHTTP(w, r)
	})
}

// compressed lets answers be compressed: whoever makes a call shows a token, which no
// foreign page can. What else holds secrets stays as it is: a foreign page could have
// it asked for, and its length would tell of them (BREACH).
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(*exchange).encoding = compress.Accepted(r.Header)
		next.ServeHTTP(w, r)
	})
}

// receive reads the body, of so many bytes at most.
func (s *Server) receive(limit int) step {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := s.bodies.receive(w, r, limit); err != nil {
				s.refuse(w, r, err)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Extend gives a request so much more time on its connection. A connection that has no
// such limits needs none.
func (e *exchange) Extend(by time.Duration) {
	until, connection := time.Now().Add(requestTimeout+by), http.NewResponseController(e.ResponseWriter)
	_ = connection.SetReadDeadline(until)
	_ = connection.SetWriteDeadline(until)
}

// inTime ends the work of a request after a while, as that of a call ends.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := policy.Begin(r.Context())
		defer end()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// admitted waits for a place among the requests to the provider. Its documents need none.
func (s *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if oidc.IsDocument(r) {
			next.ServeHTTP(w, r)
			return
		}
		leave, err := s.chain.EnterPublic(r.Context())
		if err != nil {
			s.public.RefuseRequest(w, r, err)
			return
		}
		answer := &later{ResponseWriter: w}
		func() {
			defer leave()
			next.ServeHTTP(answer, r)
		}()
		answer.send()
	})
}

// plainID returns the ID that the caller gave a request if it is short and plain,
// else a new one.
func plainID(id string, newID func() string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
	}
	if id != "" && len(id) <= 128 && strings.IndexFunc(id, func(r rune) bool { return !plain(r) }) < 0 {
		return id
	}
	return newID()
}
