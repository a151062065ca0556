package server

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/wire"
)

// rest serves one operation in REST: what is generated for its route decodes the
// request and makes the call.
func (s *Server) rest(route *wire.Route, serve wire.Serve) http.Handler {
	operation := s.chain.Operations.Find(route.Method)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &wire.Input{Request: r, Root: route.Body, Body: func() ([]byte, error) { return bodyOf(route, r) }}
		answer, err := serve(r.Context(), in)
		if err != nil {
			refusal := faultOf(err)
			if at, ok := errors.AsType[*wire.Refusal](err); !ok || !at.InQuery {
				refusal = refusal.Below(route.Body, "body")
			}
			writeFault(w, refusal)
			return
		}
		writeAnswer(w, policy.RequestFrom(r.Context()).Status(operation), answer)
	})
}

// writeAnswer writes an answer as JSON. It is made in a buffer that has grown before:
// one of 100 items would otherwise grow, and be copied, seven times.
func writeAnswer(w http.ResponseWriter, status int, answer wire.Appender) {
	buffer := buffers.Get().(*[]byte)
	*buffer = answer.AppendJSON((*buffer)[:0])
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(*buffer))}
	w.WriteHeader(status)
	_, _ = w.Write(*buffer) // a client that went away is none to tell
	if cap(*buffer) <= maxBuffer {
		buffers.Put(buffer)
	}
}

var jsonType = []string{"application/json"}

// maxBuffer keeps one huge answer from being remembered for good.
const maxBuffer = 1 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// bodyOf returns the body of a request.
func bodyOf(route *wire.Route, r *http.Request) ([]byte, error) {
	nothing := route.Without != "" && isEmpty(r.Body)
	if refusal := checkBodyType(r.Header, nothing); refusal != nil {
		return nil, refusal
	}
	if nothing {
		return []byte(route.Without), nil
	}
	data, err := io.ReadAll(r.Body) // from memory, see receive
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, policy.TooLarge()
	}
	return data, err
}

// checkBodyType refuses bodies that are not JSON in UTF-8; of no body the type does not
// matter. A PATCH may be called a merge patch (RFC 7396), which it is.
func checkBodyType(header http.Header, nothing bool) *fault.Error {
	mediaType, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	isJSON := err == nil && (mediaType == "application/json" || mediaType == "application/merge-patch+json") && (charset == "" || charset == "utf-8")
	switch {
	case !isJSON && !nothing:
		return fault.New(fault.UnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "the body must be application/json in UTF-8")
	case header.Get("Content-Encoding") != "" && header.Get("Content-Encoding") != "identity":
		return fault.New(fault.UnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "the body must not be compressed")
	}
	return nil
}
