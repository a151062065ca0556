package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	oauthapi "github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/gen/openapi"
	"github.com/writ-id/writ/impl/compress"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/form"
	"github.com/writ-id/writ/impl/message"
	"github.com/writ-id/writ/impl/oauth"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/reference"
)

// handler returns the one mux of HTTP: pages and documents by exact path, gRPC
// procedures by theirs, REST by the prefixes of its rules.
func (s *Server) handler(rest *rest, procedures map[string]http.Handler, contract *reference.Handler) http.Handler {
	exact := contract.Routes()
	for path, handler := range map[string]http.HandlerFunc{
		"/livez": serveLive, "/debug/healthz": serveLive,
		"/readyz": s.serveReady, "/healthz": s.serveReady, "/debug/ready": s.serveReady,
		"/schemas/seed.json": serveSeedSchema,
		"/":                  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/docs", http.StatusFound) },
	} {
		exact[path] = handler
	}
	if s.Dev != nil {
		exact["/_dev/messages"] = s.Dev.only(message.Handler(s.DB))
		exact["/_dev/clock"] = s.Dev.only(s.Dev.Clock)
		exact["/_dev/database"] = s.Dev.only(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writePlain(w, http.StatusOK, s.Dev.Database+"\n")
		}))
	}
	public, pages := withLimit(s.oauth()), withLimit(s.pages.Handler())
	return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		w := &exchange{ResponseWriter: answer, http1: r.ProtoMajor == 1, request: policy.Request{
			ID: plainID(r.Header.Get("X-Request-Id"), s.NewID), Host: r.Host, Authorization: r.Header["Authorization"],
		}}
		request := &w.request
		defer s.logExchange(r.Context(), w, r.Method, time.Now())
		defer endResets(r)
		defer s.recover(w, r)
		header := w.Header()
		header["X-Request-Id"] = []string{request.ID}
		header["X-Content-Type-Options"] = nosniff
		if handler, ok := exact[r.URL.Path]; ok {
			request.Route = r.URL.Path
			handler.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(policy.WithRequest(r.Context(), request))
		if s.https() {
			header["Strict-Transport-Security"] = hsts
		}
		receive := func(limit int, handler http.Handler) {
			if err := s.bodies.receive(w, r, limit); err != nil {
				s.refuse(w, r, err)
				return
			}
			handler.ServeHTTP(w, r)
		}
		switch {
		case isPublic(r.URL.Path):
			// What holds tokens stays as it is, and so do the pages: a foreign page can have
			// them asked for, and their length would tell of their secrets (BREACH).
			if oauth.IsDocument(r) {
				w.encoding = compress.Accepted(r.Header)
			}
			receive(form.MaxBytes, public)
			return
		case r.URL.Path == "/login" || strings.HasPrefix(r.URL.Path, "/login/"):
			receive(form.MaxBytes, pages)
			return
		case s.public.CORS(w, r):
			return
		}
		header["Cache-Control"] = noStore
		if mux := rest.find(r.URL.Path); mux != nil {
			w.encoding = compress.Accepted(r.Header) // whoever calls shows a token: no foreign page can
			receive(policy.MaxRequestBytes, mux)
		} else if handler, ok := procedures[r.URL.Path]; ok && r.URL.RawPath == "" { // a procedure has one spelling
			request.Route = r.URL.Path
			receive(maxWebBytes, handler)
		} else if s.SharedHTTP2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			s.grpc.ServeHTTP(w, r) // reflection and health
		} else {
			writeFault(w, unknownPath(r.URL.Path))
		}
	})
}

// only serves a path of development to who names the node as this machine, or by one
// of the hosts that were told: a page from elsewhere whose name leads here (DNS
// rebinding), or that sends a form here, is not who develops.
func (d *Dev) only(handler http.Handler) http.Handler {
	handler = http.NewCrossOriginProtection().Handler(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		at, _ := netip.ParseAddr(host)
		if host != "localhost" && !strings.HasSuffix(host, ".localhost") && !at.IsLoopback() && !slices.Contains(d.Hosts, host) {
			writeFault(w, fault.New(fault.PermissionDenied, "HOST_NOT_LOCAL", "%q is not a name of this machine; allow it by --dev-host", host))
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// oauth returns the handler of the OpenID Connect and OAuth endpoints.
func (s *Server) oauth() http.Handler {
	mux := http.NewServeMux()
	oauthapi.HandlerWithOptions(s.public, oauthapi.StdHTTPServerOptions{
		BaseRouter: mux,
		ErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) {
			s.refuse(w, r, fault.Invalid("INVALID_PARAMETER", "", "%v", err))
		},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.public.CORS(w, r) {
			return
		}
		handler, pattern := mux.Handler(r)
		if pattern == "" {
			s.unserved(w, r, mux)
			return
		}
		_, policy.RequestFrom(r.Context()).Route, _ = strings.Cut(pattern, " ")
		if oauth.IsDocument(r) { // from memory: nobody can starve it
			handler.ServeHTTP(w, r)
			return
		}
		leave, err := s.chain.EnterPublic(r.Context(), r.Host)
		if err != nil {
			s.public.RefuseRequest(w, r, err)
			return
		}
		answer := &later{ResponseWriter: w}
		func() {
			defer leave()
			handler.ServeHTTP(answer, r)
		}()
		answer.send()
	})
}

// unserved refuses what is no endpoint, or another method of one.
func (s *Server) unserved(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if allowed == nil {
		s.refuse(w, r, unknownPath(r.URL.Path))
		return
	}
	s.public.RefuseMethod(w, r, strings.Join(allowed, ", "))
}

// withLimit serves requests whose work ends after a while, as that of a call does.
func withLimit(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), policy.CallTimeout)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refuse answers a request with a refusal as the resource API does.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	w.Header()["Cache-Control"] = noStore
	writeFault(w, s.chain.Refusal(r.Context(), r.URL.Path, err))
}

// isPublic reports whether a path is one of the OpenID provider.
func isPublic(path string) bool {
	return strings.HasPrefix(path, "/oauth/") || strings.HasPrefix(path, "/oidc/") || strings.HasPrefix(path, "/.well-known/")
}

var (
	nosniff = []string{"nosniff"}
	noStore = []string{"no-store"}
	hsts    = []string{"max-age=31536000"} // SEC-148
)

// recover answers a request whose handler panicked; calls recover in the chain,
// so only pages and transports come here.
func (s *Server) recover(w http.ResponseWriter, r *http.Request) {
	if panicked := recover(); panicked != nil {
		if err, ok := panicked.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(panicked)
		}
		s.Logger.ErrorContext(r.Context(), "panic", "path", r.URL.Path, "panic", panicked, "stack", string(debug.Stack()))
		writeFault(w, fault.New(fault.Internal, "INTERNAL", "internal error"))
	}
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

// Ready reports whether the server can do its work now: it is not draining and
// the database answers.
func (s *Server) Ready(ctx context.Context) error {
	if s.draining.Load() {
		return context.Canceled
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.DB.Pool.Ping(ctx)
}
