package oidc

import (
	"context"
	"net/http"
	"strings"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/metadata"
)

// What pages may read of an answer and send with a request: of REST, of the provider, and
// of gRPC-web and Connect.
const (
	exposed  = "WWW-Authenticate, X-Request-Id, Retry-After, Content-Range, Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin"
	sendable = "Authorization, Content-Type, X-Request-Id, Traceparent, Tracestate, Range, Writ-Context, Writ-Skip-Executions, " +
		"X-Grpc-Web, X-User-Agent, Grpc-Timeout, Connect-Protocol-Version, Connect-Timeout-Ms"
)

// maxOrigin bounds the origins that are looked up.
const maxOrigin = 300

// origin is an origin that a page has, of an instance.
type origin struct{ instanceID, address string }

// String is the origin as a text.
func (o origin) String() string { return o.instanceID + "\x00" + o.address }

// CORS lets browsers on the origins of clients read answers, never with cookies
// (SEC-150). It answers preflights and reports whether it did.
func (s *Server) CORS(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if origin == "" || r.URL.Path == endpoint.PathAuthorize || r.URL.Path == endpoint.PathEndSession { // these are gone to, not read (RFC 9700, section 2.6; SEC-015)
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin")
	if metadata.IsDocument(r) { // anybody's, see servePublic
		if preflight {
			header["Access-Control-Allow-Origin"] = metadata.AnyOrigin
			allow(header, "GET", "If-None-Match, Cache-Control")
			w.WriteHeader(http.StatusNoContent)
		}
		return preflight
	}
	if s.mayRead(r, origin) {
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", exposed)
	}
	if !preflight {
		return false
	}
	if header.Get("Access-Control-Allow-Origin") != "" {
		allow(header, "GET, POST, PUT, PATCH, DELETE", sendable)
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allow says in answer to a preflight what a browser may send.
func allow(header http.Header, methods, headers string) {
	header.Set("Access-Control-Allow-Methods", methods)
	header.Set("Access-Control-Allow-Headers", headers)
	header.Set("Access-Control-Max-Age", "600")
}

func (s *Server) mayRead(r *http.Request, asked string) bool {
	if len(asked) > maxOrigin || !strings.HasPrefix(asked, "http") {
		return false
	}
	instance, err := s.env.Instance(r.Context(), r.Host)
	if err != nil {
		return false
	}
	allowed, err := s.origins.Get(r.Context(), origin{instance.ID, asked}, func(ctx context.Context) (bool, error) {
		return db.New().OriginAllowed(ctx, s.env.DB.Pool, db.OriginAllowedParams{InstanceID: instance.ID, Origin: asked})
	})
	return err == nil && allowed
}
