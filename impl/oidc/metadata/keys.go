package metadata

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/writ-id/writ/gen/oauth"
	"github.com/writ-id/writ/impl/core/signing"
	"github.com/writ-id/writ/impl/oidc/endpoint"
)

// GetKeys serves the public keys of the instance: prepared bytes, from memory.
func (e *Endpoint) GetKeys(w http.ResponseWriter, r *http.Request, params oauth.GetKeysParams) {
	instance, err := e.Instance(r.Context(), r.Host)
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	keys, err := e.Keys.Get(r.Context(), instance.ID)
	if err != nil {
		e.Refuse(w, r, err)
		return
	}
	servePublic(w, keys.Document, keys.ETag, params.IfNoneMatch)
}

// cacheControl is that of what anybody may keep.
var cacheControl = []string{fmt.Sprintf("public, max-age=%d", int(signing.CacheFor.Seconds()))}

// IsDocument reports whether a request is for a prepared document.
func IsDocument(r *http.Request) bool {
	return r.URL.Path == endpoint.PathKeys || r.URL.Path == endpoint.PathConfiguration
}

// servePublic serves a prepared document, for clients in browsers too.
func servePublic(w http.ResponseWriter, document []byte, etag string, known *string) {
	header := w.Header()
	header["Cache-Control"] = cacheControl
	header["Etag"] = []string{etag}
	header["Access-Control-Allow-Origin"] = AnyOrigin
	if known != nil && matches(*known, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header["Content-Type"] = endpoint.JSONType
	header["Content-Length"] = []string{strconv.Itoa(len(document))}
	_, _ = w.Write(document)
}

// AnyOrigin is a header that lets every page read an answer.
var AnyOrigin = []string{"*"}

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
