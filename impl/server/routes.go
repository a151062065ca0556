package server

import (
	"fmt"
	"net/http"

	adminapi "github.com/writ-id/writ/gen/admin"
	oauthapi "github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/api/branding"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/wire"
	"github.com/writ-id/writ/impl/oidc"
	"github.com/writ-id/writ/impl/oidc/form"
	"github.com/writ-id/writ/impl/server/reference"
)

// routes returns what serves HTTP: all that the process serves is on this page. Each
// group says, in order, which steps its requests take. Two routes for the same requests
// are an error.
func (s *Server) routes(contract *reference.Handler) (handler http.Handler, err error) {
	defer func() {
		if conflict := recover(); conflict != nil { // of http.ServeMux, or of the table
			err = fmt.Errorf("server: two routes are for the same requests: %v", conflict)
		}
	}()
	t := emptyTable()
	nowhere := through(http.HandlerFunc(s.serveNowhere), s.known, s.crossOrigin, notStored)
	steps := []step{s.noted, s.recovered, plain(nowhere)}
	if s.Dev == nil {
		handler = through(t, steps...)
	} else {
		handler = s.develop(t, steps)
	}
	s.serveDocuments(t, contract)
	s.serveProvider(t, s.public)
	s.serveTransfers(t)
	s.serveServices(t)
	t.share()
	t.mux.Handle("/", nowhere) // everything else is nowhere
	return handler, nil
}

// serveDocuments serves those who look after the node, and the documents, which know no
// tenant.
func (s *Server) serveDocuments(t *table, contract *reference.Handler) {
	documents := &group{table: t}
	documents.any("/livez", http.HandlerFunc(serveLive))
	documents.any("/debug/healthz", http.HandlerFunc(serveLive))
	documents.any("/readyz", http.HandlerFunc(s.serveReady))
	documents.any("/healthz", http.HandlerFunc(s.serveReady))
	documents.any("/debug/ready", http.HandlerFunc(s.serveReady))
	documents.any("/schemas/seed.json", http.HandlerFunc(serveSeedSchema))
	for pattern, handler := range contract.Icons() {
		documents.any(pattern, handler)
	}
	if readers := s.readers(documents); readers != nil {
		readers.any("/{$}", http.RedirectHandler("/docs", http.StatusFound))
		for pattern, handler := range contract.Routes() { // /docs, /openapi.json, /proto, …
			readers.any(pattern, handler)
		}
	} else {
		documents.any("/{$}", http.RedirectHandler("/login", http.StatusFound))
	}
}

// serveProvider serves the OpenID provider, by the operations of contracts/openapi/oauth.yaml,
// and its pages. Its documents come from memory: nobody can starve them, and they need no time.
func (s *Server) serveProvider(t *table, public *oidc.Server) {
	provider := &group{table: t, refuse: public.RefuseMethod, steps: []step{s.known, s.receive(form.MaxBytes), inTime, s.crossOrigin}}
	published := &group{table: t, refuse: public.RefuseMethod, steps: []step{s.known, compressed, s.receive(form.MaxBytes), s.crossOrigin}}
	oauthapi.HandlerWithOptions(public, oauthapi.StdHTTPServerOptions{
		BaseRouter: either{oidc.Documents, published, provider}, Middlewares: []oauthapi.MiddlewareFunc{s.admitted}, ErrorHandlerFunc: s.refuseParameter,
	})
	pages := &group{table: t, steps: []step{s.known, s.receive(form.MaxBytes), inTime}}
	pages.any("/login", s.pages.Handler(public))
	pages.any("/login/", s.pages.Handler(public))
}

// serveTransfers serves export and import, the operations of contracts/openapi/admin.yaml.
// What is imported is read by its operation, which puts it on the disk.
func (s *Server) serveTransfers(t *table) {
	moving := &group{table: t, refuse: refuseMethod, steps: []step{s.known, s.crossOrigin, notStored, s.receive(policy.MaxRequestBytes)}}
	uploads := &group{table: t, refuse: refuseMethod, steps: []step{s.known, s.crossOrigin, notStored}}
	adminapi.HandlerWithOptions(s.transfers, adminapi.StdHTTPServerOptions{BaseRouter: either{[]string{"POST /admin/v1/import"}, uploads, moving}, ErrorHandlerFunc: s.refuseParameter})
}

// serveServices serves the resource API: REST by google.api.http of contracts/proto; gRPC-web,
// Connect and, where net/http speaks HTTP/2, gRPC by the names of the methods. The pictures of
// tenants, on pages and in e-mails, are theirs too.
func (s *Server) serveServices(t *table) {
	assets := &group{table: t, steps: []step{s.known}}
	assets.any("/assets/", branding.Assets(s.DB, s.pages.Instance, s.refuse))
	rest := &group{table: t, refuse: refuseMethod, steps: []step{
		s.known, s.crossOrigin, notStored, compressed, spelled, s.receive(policy.MaxRequestBytes),
	}}
	calls := &group{table: t, steps: []step{
		s.known, s.crossOrigin, notStored, spelled, s.receive(maxWebBytes),
	}}
	s.services.mount(&wire.Transports{
		GRPC:       s.grpc,
		REST:       func(route *wire.Route, serve wire.Serve) { rest.on(route.Verb, route.Pattern, s.rest(route, serve)) },
		Web:        func(procedure string, handler http.Handler) { calls.any(procedure, serveRPC(handler)) },
		WebOptions: webOptions(),
	}, s.chain.Intercept)
}

// refuseMethod refuses a method that a path of the resource API does not have.
func refuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	writeFault(w, fault.New(fault.MethodNotAllowed, "METHOD_NOT_ALLOWED", "%s is not allowed here, only %s", r.Method, allowed))
}

func (s *Server) refuseParameter(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, fault.Invalid("INVALID_PARAMETER", "", "%v", err))
}
