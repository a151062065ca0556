package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/writ-id/writ/impl/core/compress"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/telemetry"
)

// exchange is an HTTP request under way and what its access line will say. It
// stands in front of the writer of the answer to see the status.
type exchange struct {
	http.ResponseWriter
	request policy.Request
	host    string // as it came, whatever a proxy says
	status  int
	http1   bool
	// encoding is what the answer may be compressed by. Then its head waits for the
	// body: see compressed.
	encoding compress.Encoding
	waiting  bool
}

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(status int) {
	if e.status == 0 && status >= http.StatusOK {
		e.status = status
		if status == http.StatusRequestEntityTooLarge && e.http1 { // nobody reads the rest
			e.Header().Set("Connection", "close")
		}
	}
	if e.waiting = e.encoding != ""; !e.waiting {
		e.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(p []byte) (int, error) {
	if e.status == 0 {
		e.WriteHeader(http.StatusOK)
	}
	written := len(p)
	if e.waiting {
		p = e.compressed(p)
		e.finish()
	}
	if n, err := e.ResponseWriter.Write(p); err != nil {
		return min(n, written), err
	}
	return written, nil
}

// finish writes a head that waits.
func (e *exchange) finish() {
	if e.waiting {
		e.waiting = false
		e.ResponseWriter.WriteHeader(e.status)
	}
}

// Flush implements http.Flusher, which gRPC asks for.
func (e *exchange) Flush() {
	e.finish()
	_ = http.NewResponseController(e.ResponseWriter).Flush() // what cannot be flushed arrives later
}

// Unwrap returns the writer behind it to http.ResponseController.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// refused notes why a request is refused, if the writer of its answer is an exchange.
func refused(w http.ResponseWriter, refusal *fault.Error) {
	if e, ok := w.(*exchange); ok && e.request.Reason == "" {
		e.request.Reason = refusal.Reason
	}
}

// isProbe reports whether a path is asked for every few seconds by whoever runs the
// node, who wants to hear of it when it fails.
func isProbe(path string) bool {
	switch path {
	case "/livez", "/readyz", "/healthz", "/debug/healthz", "/debug/ready":
		return true
	}
	return false
}

// logExchange writes the access line of an HTTP request. Nothing that the request
// brought is in it but its ID, which is plain: paths and queries hold what people
// put there.
func (s *Server) logExchange(ctx context.Context, e *exchange, method string, begun time.Time, served telemetry.Served) {
	level := s.AccessLevel
	if e.status == 0 {
		e.status = http.StatusOK
	}
	if isProbe(e.request.Route) && e.status == http.StatusOK {
		level = min(level, slog.LevelDebug)
	}
	e.finish()
	method = knownMethod(method)
	served.End(ctx, method, e.request.Route, e.status, e.request.Reason, e.request.Statements.Load())
	if s.Logger.Enabled(ctx, level) {
		s.writeAccess(ctx, level, &e.request, slog.String("http.request.method", method), slog.Int("http.response.status_code", e.status), begun)
	}
}

// logCall is the interceptor of native gRPC calls that writes their access lines. It
// gives the call its ID, so that the chain logs the same one.
func (s *Server) logCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	begun := time.Now()
	request, trusted := s.requestOf(ctx)
	request.Route = info.FullMethod
	ctx, served, traceparent := s.Telemetry.ServeCall(ctx, request.Traceparent, trusted)
	request.Traceparent = traceparent
	res, err := next(policy.WithRequest(ctx, request), req)
	served.EndCall(ctx, info.FullMethod, status.Code(err).String(), request.Reason, request.Statements.Load())
	level := s.AccessLevel
	if request.Route == "/grpc.health.v1.Health/Check" && err == nil {
		level = min(level, slog.LevelDebug)
	}
	if s.Logger.Enabled(ctx, level) {
		s.writeAccess(ctx, level, request, native, slog.String("rpc.response.status_code", status.Code(err).String()), begun)
	}
	return res, err
}

// requestOf is the request of a native gRPC call, and whether it came from whom its headers
// are believed.
func (s *Server) requestOf(ctx context.Context) (request *policy.Request, trusted bool) {
	request = policy.RequestFrom(ctx)
	request.Traceparent = telemetry.Valid(request.Traceparent)
	request.ID = plainID(request.ID, s.NewID)
	if from, ok := peer.FromContext(ctx); ok {
		at := s.came(ctx, from.Addr.String(), request.Host, func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) })
		request.ClientAddress, request.Host, trusted = at.from, at.host, at.trusted
	}
	return request, trusted || s.Dev != nil
}

// logStream is logCall for what streams, which only reflection and health do, and
// for methods that are not served.
func (s *Server) logStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	begun := time.Now()
	request, _ := s.requestOf(stream.Context())
	if info.FullMethod != "" && info.IsServerStream && strings.HasPrefix(info.FullMethod, "/grpc.") {
		request.Route = info.FullMethod
	}
	err := next(service, stream)
	if s.Logger.Enabled(stream.Context(), s.AccessLevel) {
		s.writeAccess(stream.Context(), s.AccessLevel, request, native, slog.String("rpc.response.status_code", status.Code(err).String()), begun)
	}
	return err
}

func (s *Server) writeAccess(ctx context.Context, level slog.Level, request *policy.Request, method, outcome slog.Attr, begun time.Time) {
	s.Logger.LogAttrs(ctx, level, "request",
		method, slog.String("http.route", request.Route), outcome,
		slog.Int64("duration_us", time.Since(begun).Microseconds()),
		request.LogID(), known("trace_id", traceID(request.Traceparent)), known("client.address", s.shown(request.ClientAddress)),
		known("writ.instance.id", request.Instance), known("writ.client.id", request.Client),
		known("user.id", request.User), known("error.type", request.Reason))
}

// native marks calls of native gRPC; the names are those of OpenTelemetry's semantic
// conventions, as everywhere in these lines.
var native = slog.String("rpc.system.name", "grpc")

// shown is as much of an address as the log has: its network, unless the operator wants
// whole ones.
func (s *Server) shown(address string) string {
	if address == "" || s.LogPersonalData {
		return address
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	bits := 24
	if addr.Is6() {
		bits = 48
	}
	network, _ := addr.Prefix(bits)
	return network.Addr().String()
}

// traceID is the trace that a request is a part of, "" when it is of none.
func traceID(traceparent string) string {
	if len(traceparent) < 35 { // one that is valid is longer
		return ""
	}
	return traceparent[3:35]
}

// known is an attribute that is left out when it has no value.
func known(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{}
	}
	return slog.String(key, value)
}

// knownMethod returns a method of HTTP; what is none is a text of the caller.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
