// Package oauth serves the OpenID Connect and OAuth 2.0 endpoints of document 2:
// contracts/openapi/oauth.yaml says which. So far it publishes the keys.
package oauth

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/signing"
)

// Server implements the endpoints. It is safe for concurrent use.
type Server struct {
	// Instance finds the tenant of a Host header (policy.Chain).
	Instance func(ctx context.Context, host string) (*policy.Instance, error)
	Keys     *signing.Set
	// Refuse answers a request that failed, as the resource API does.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
}

var _ oauth.ServerInterface = (*Server)(nil)

// GetKeys serves the public keys of the instance: prepared bytes, from memory.
func (s *Server) GetKeys(w http.ResponseWriter, r *http.Request, params oauth.GetKeysParams) {
	instance, err := s.Instance(r.Context(), r.Host)
	if err != nil {
		s.Refuse(w, r, err)
		return
	}
	keys, err := s.Keys.Get(r.Context(), instance.ID)
	if err != nil {
		s.Refuse(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(signing.CacheFor.Seconds())))
	header.Set("ETag", keys.ETag)
	header.Set("Access-Control-Allow-Origin", "*") // clients in browsers verify too
	if params.IfNoneMatch != nil && matches(*params.IfNoneMatch, keys.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/json")
	_, _ = w.Write(keys.Document)
}

// matches reports whether an If-None-Match names the ETag (RFC 9110, section
// 13.1.2).
func matches(header, etag string) bool {
	for _, one := range strings.Split(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == etag || one == "*" {
			return true
		}
	}
	return false
}
