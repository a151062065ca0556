package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
)

// Reference says who may read the contract on a node: /docs, /openapi.json, /proto, / as the
// way there, and gRPC reflection, which has no tokens and is there for everybody or nobody.
type Reference int

// The values of Reference.
const (
	ReferencePublic        Reference = iota // everybody
	ReferenceAuthenticated                  // callers of the instance, with a token
	ReferenceOff                            // nobody: these paths are nowhere
)

// References are the values of Reference by name.
var References = map[string]Reference{"public": ReferencePublic, "authenticated": ReferenceAuthenticated, "off": ReferenceOff}

// readers returns the group of the routes of the reference; nil when there are none.
func (s *Server) readers(public *group) *group {
	switch s.Reference {
	case ReferencePublic:
		return public
	case ReferenceAuthenticated:
		return &group{table: public.table, steps: []step{s.known, s.reader}}
	case ReferenceOff:
		return nil
	}
	panic(fmt.Sprintf("server: there is no Reference %d", s.Reference))
}

// reader lets callers of the instance through. A browser, which has no bearer token, asks for
// a name and a password: any name, and a personal access token.
func (s *Server) reader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, token, ok := r.BasicAuth(); ok {
			policy.RequestFrom(r.Context()).Authorization = []string{"Bearer " + token}
		}
		if err := s.chain.Authenticate(r.Context()); err != nil {
			if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Kind == fault.Unauthenticated {
				w.Header().Set("WWW-Authenticate", `Basic realm="any name, and a personal access token as the password", charset="UTF-8"`)
			}
			s.refuse(w, r, err)
			return
		}
		header := w.Header()
		header.Set("Cache-Control", "private, no-cache")
		header.Add("Vary", "Authorization")
		next.ServeHTTP(w, r)
	})
}
