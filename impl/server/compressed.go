package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/writ-id/writ/impl/core/compress"
)

// compressed returns the body to send for one that is written whole: compressed, when
// the client accepts it and it is a text that is long enough. What is served by parts
// stays as it is.
func (e *exchange) compressed(body []byte) []byte {
	header := e.Header()
	header.Add("Vary", "Accept-Encoding")
	length := header.Get("Content-Length")
	if len(body) < compress.Least || length != strconv.Itoa(len(body)) || e.status != http.StatusOK && e.status != http.StatusCreated ||
		header.Get("Content-Encoding") != "" || !isText(header.Get("Content-Type")) {
		return body
	}
	body = e.encoding.Body(body)
	header.Set("Content-Encoding", string(e.encoding))
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if etag := header.Get("ETag"); etag != "" && !strings.HasPrefix(etag, "W/") { // it names the plain bytes
		header.Set("ETag", "W/"+etag)
	}
	return body
}

func isText(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "yaml") || strings.HasSuffix(kind, "+xml")
}
