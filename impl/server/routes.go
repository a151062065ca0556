package server

import (
	"fmt"
	"net/http"

	adminapi "github.com/writ-id/writ/gen/admin"
	"github.com/writ-id/writ/gen/devapi"
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
func (s *Server) routes(services *Services, contract *reference.Handler) (handler http.Handler, err error) {
	t := &table{http.NewServeMux(), map[string]*path{}}
	defer func() {
		if conflict := recover(); conflict != nil { // of http.ServeMux, or of the table
			err = fmt.Errorf("server: two routes are for the same requests: %v", conflict)
		}
	}()

	// For who looks after the node, and the documents, which know no tenant.
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
	if s.Dev != nil { // the operations of contracts/openapi/dev.yaml
		dev := &group{table: t, refuse: refuseMethod, steps: []step{s.Dev.only, notStored, s.known, s.receive(maxDevBytes)}}
		devapi.HandlerWithOptions(&console{Server: s, handler: func() http.Handler { return handler }}, devapi.StdHTTPServerOptions{BaseRouter: dev, ErrorHandlerFunc: s.refuseParameter})
	}

	// The OpenID provider: the operations of contracts/openapi/oauth.yaml.
	// Its documents come from memory: nobody can starve them, and they need no time.
	provider := &group{table: t, refuse: s.public.RefuseMethod, steps: []step{s.known, s.receive(form.MaxBytes), inTime, s.crossOrigin}}
	published := &group{table: t, refuse: s.public.RefuseMethod, steps: []step{s.known, compressed, s.receive(form.MaxBytes), s.crossOrigin}}
	oauthapi.HandlerWithOptions(s.public, oauthapi.StdHTTPServerOptions{
		BaseRouter: either{oidc.Documents, published, provider}, Middlewares: []oauthapi.MiddlewareFunc{s.admitted}, ErrorHandlerFunc: s.refuseParameter,
	})

	// Export and import: the operations of contracts/openapi/admin.yaml. What is imported is
	// read by its operation, which puts it on the disk.
	moving := &group{table: t, refuse: refuseMethod, steps: []step{s.known, s.crossOrigin, notStored, s.receive(policy.MaxRequestBytes)}}
	uploads := &group{table: t, refuse: refuseMethod, steps: []step{s.known, s.crossOrigin, notStored}}
	adminapi.HandlerWithOptions(s.transfers, adminapi.StdHTTPServerOptions{BaseRouter: either{[]string{"POST /admin/v1/import"}, uploads, moving}, ErrorHandlerFunc: s.refuseParameter})

	// Its pages.
	pages := &group{table: t, steps: []step{s.known, s.receive(form.MaxBytes), inTime}}
	pages.any("/login", s.pages.Handler(s.public))
	pages.any("/login/", s.pages.Handler(s.public))

	// The pictures of tenants, on pages and in e-mails.
	assets := &group{table: t, steps: []step{s.known}}
	assets.any("/assets/", branding.Assets(s.DB, s.pages.Instance, s.refuse))

	// The resource API: REST by google.api.http of contracts/proto; gRPC-web, Connect
	// and, where net/http speaks HTTP/2, gRPC by the names of the methods.
	rest := &group{table: t, refuse: refuseMethod, steps: []step{
		s.known, s.crossOrigin, notStored, compressed, spelled, s.receive(policy.MaxRequestBytes),
	}}
	calls := &group{table: t, steps: []step{
		s.known, s.crossOrigin, notStored, spelled, s.receive(maxWebBytes),
	}}
	services.mount(&wire.Transports{
		GRPC:       s.grpc,
		REST:       func(route *wire.Route, serve wire.Serve) { rest.on(route.Verb, route.Pattern, s.rest(route, serve)) },
		Web:        func(procedure string, handler http.Handler) { calls.any(procedure, serveRPC(handler)) },
		WebOptions: webOptions(),
	}, s.chain.Intercept)

	t.share()

	// Everything else is nowhere.
	nowhere := through(http.HandlerFunc(s.serveNowhere), s.known, s.crossOrigin, notStored)
	t.mux.Handle("/", nowhere)
	handler = through(t.mux, s.noted, s.recovered, plain(nowhere), s.faulty)
	if s.Dev != nil && s.Dev.Recorded != nil {
		handler = s.Dev.Recorded(handler)
	}
	return handler, nil
}

// refuseMethod refuses a method that a path of the resource API does not have.
func refuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	writeFault(w, fault.New(fault.MethodNotAllowed, "METHOD_NOT_ALLOWED", "%s is not allowed here, only %s", r.Method, allowed))
}

func (s *Server) refuseParameter(w http.ResponseWriter, r *http.Request, err error) {
	s.refuse(w, r, fault.Invalid("INVALID_PARAMETER", "", "%v", err))
}
