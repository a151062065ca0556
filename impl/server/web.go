package server

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/wire"
)

// webOptions are the options of every handler of gRPC-web and Connect.
func webOptions() []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithCodec(protoCodec{}),
		connect.WithCodec(jsonCodec{}),
		connect.WithReadMaxBytes(maxMessageBytes),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				res, err := next(ctx, req)
				if err != nil {
					return nil, connectError(err)
				}
				return res, nil
			}
		})),
	}
}

// maxWebBytes is how long a body may be: a message with its prefix, in base64.
const maxWebBytes = (maxMessageBytes + 64) / 3 * 4

// connectError carries code, message and details over; connect would make every
// other error Unknown.
func connectError(err error) error {
	s := status.Convert(err)
	out := connect.NewError(connect.Code(s.Code()), errors.New(s.Message()))
	for _, packed := range s.Proto().GetDetails() {
		message, err := packed.UnmarshalNew()
		if err != nil {
			continue
		}
		if detail, err := connect.NewErrorDetail(message); err == nil {
			out.AddDetail(detail)
		}
	}
	return out
}

// protoCodec is the protobuf codec with the rule of strictCodec.
type protoCodec struct{}

// Name implements connect.Codec.
func (protoCodec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (protoCodec) Marshal(v any) ([]byte, error) { return proto.Marshal(v.(proto.Message)) }

// Unmarshal implements connect.Codec.
func (protoCodec) Unmarshal(data []byte, v any) error {
	message := v.(proto.Message)
	if len(data) > policy.MaxRequestBytes {
		policy.MarkRefused(message, policy.TooLarge())
		return nil
	}
	unmarshal(data, message)
	return nil
}

// jsonCodec reads and writes the JSON of REST, as strictly, for Connect.
type jsonCodec struct{}

// Name implements connect.Codec.
func (jsonCodec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (jsonCodec) Marshal(v any) ([]byte, error) {
	return wire.AppendMessage(nil, v.(proto.Message)), nil
}

// Unmarshal implements connect.Codec.
func (jsonCodec) Unmarshal(data []byte, v any) error {
	message := v.(proto.Message)
	if len(data) > policy.MaxRequestBytes {
		policy.MarkRefused(message, policy.TooLarge())
	} else if err := wire.NewReader(data, "").Read(v.(wire.Decoder)); err != nil {
		policy.MarkRefused(message, faultOf(err))
	}
	return nil
}

// serveRPC serves a procedure to gRPC-web in its binary and text forms, to Connect
// in protobuf and JSON, and to gRPC over an HTTP/2 connection that net/http speaks.
func serveRPC(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contentType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		contentType = strings.TrimSuffix(contentType, "+proto") // connect would take +json too
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			writeFault(w, fault.New(fault.MethodNotAllowed, "METHOD_NOT_ALLOWED", "a call of a method is a POST"))
		case contentType == "application/grpc-web-text":
			serveText(w, r, handler)
		case contentType == "application/grpc-web", contentType == "application/grpc",
			contentType == "application/proto", contentType == "application/json":
			handler.ServeHTTP(w, r)
		default:
			writeFault(w, fault.New(fault.UnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE",
				"this path speaks application/grpc, application/grpc-web+proto, application/grpc-web-text+proto, application/proto and application/json"))
		}
	})
}

// serveText serves the text form, the binary form in base64, by means of the
// handler of the binary form. A request body may be several base64 texts, each
// with its own padding.
func serveText(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	binary := r.Clone(r.Context())
	binary.Header.Set("Content-Type", textToBinary(r.Header.Get("Content-Type")))
	binary.Header.Del("Content-Length")
	binary.ContentLength = -1
	binary.Body = struct {
		io.Reader
		io.Closer
	}{&quartets{in: bufio.NewReader(r.Body)}, r.Body}
	out := &textWriter{ResponseWriter: w}
	handler.ServeHTTP(out, binary)
	out.finish()
}

func textToBinary(contentType string) string {
	return strings.Replace(contentType, "application/grpc-web-text", "application/grpc-web", 1)
}

// quartets decodes base64 four characters at a time, so that padding may end
// any of them.
type quartets struct {
	in   *bufio.Reader
	left []byte
}

// Read implements io.Reader.
func (q *quartets) Read(p []byte) (int, error) {
	for len(q.left) == 0 {
		var four [4]byte
		if _, err := io.ReadFull(q.in, four[:]); err != nil {
			return 0, err
		}
		decoded, err := base64.StdEncoding.DecodeString(string(four[:]))
		if err != nil {
			return 0, err
		}
		q.left = decoded
	}
	n := copy(p, q.left)
	q.left = q.left[n:]
	return n, nil
}

// textWriter encodes what the handler writes in base64.
type textWriter struct {
	http.ResponseWriter
	started bool
	encoder io.WriteCloser
}

// WriteHeader implements http.ResponseWriter.
func (w *textWriter) WriteHeader(code int) {
	if !w.started {
		w.started = true
		header := w.Header()
		if contentType := header.Get("Content-Type"); strings.HasPrefix(contentType, "application/grpc-web") {
			header.Set("Content-Type", strings.Replace(contentType, "application/grpc-web", "application/grpc-web-text", 1))
		}
		header.Del("Content-Length")
		w.encoder = base64.NewEncoder(base64.StdEncoding, w.ResponseWriter)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *textWriter) Write(p []byte) (int, error) {
	if !w.started {
		w.WriteHeader(http.StatusOK)
	}
	return w.encoder.Write(p)
}

func (w *textWriter) finish() {
	if !w.started {
		w.WriteHeader(http.StatusOK)
	}
	_ = w.encoder.Close() // writes the padding; a lost client cannot be told
}
