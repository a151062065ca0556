package contract

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/restclient"

	"github.com/writ-id/writ/conformance/harness"
)

// transport is one way to reach the server. The type of a request says which
// operation is called; the token may be empty.
type transport interface {
	name() string
	call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome
}

// The transports of a server, with a generated client each: REST first.
var transportsOf = struct {
	sync.Mutex
	known map[string][]transport
}{known: map[string][]transport{}}

// newTransports returns them; all tests share their connections.
func newTransports(t *testing.T, server *harness.Server) []transport {
	t.Helper()
	return transportsTo(t, server, "")
}

// transportsTo returns them with another Host than the server's address, if not
// "": that of another instance.
func transportsTo(t *testing.T, server *harness.Server, host string) []transport {
	t.Helper()
	transportsOf.Lock()
	defer transportsOf.Unlock()
	if known := transportsOf.known[server.Issuer+" "+host]; known != nil {
		return known
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if host != "" {
		options = append(options, grpc.WithAuthority(host))
	}
	conn, err := grpc.NewClient(server.Addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	pool := http.DefaultTransport.(*http.Transport).Clone()
	pool.MaxIdleConnsPerHost = 64
	base := atHost{pool, host}
	checked := &http.Client{Transport: server.Document(t).Transport(harness.Guard(base)), CheckRedirect: noRedirect}
	for _, token := range []string{server.AdminToken, server.ViewerToken, server.OrgOwnerToken, server.NobodyToken, server.SystemToken} {
		if err := harness.RememberSecret(token); err != nil {
			t.Fatal(err)
		}
	}
	client, err := restclient.NewClient(server.Issuer, restclient.WithHTTPClient(checked))
	if err != nil {
		t.Fatal(err)
	}
	known := []transport{
		rest{client},
		rpc{conn},
		web{"gRPC-web", &http.Client{Transport: harness.Guard(base)}, server.Issuer, connect.WithGRPCWeb()},
		web{"gRPC-web text", &http.Client{Transport: harness.Guard(textForm{base})}, server.Issuer, connect.WithGRPCWeb()},
		web{"Connect", &http.Client{Transport: harness.Guard(base)}, server.Issuer, connect.WithClientOptions()},
		connectJSON{&http.Client{Transport: harness.Guard(base)}, server.Issuer},
		plain{checked, server.Issuer},
	}
	known[0], known[1] = noted{known[0]}, noted{known[1]}
	transportsOf.known[server.Issuer+" "+host] = known
	return known
}

// atHost sends requests with another Host header, if not "".
type atHost struct {
	base http.RoundTripper
	host string
}

// RoundTrip implements http.RoundTripper.
func (a atHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.host != "" {
		r = r.Clone(r.Context())
		r.Host = a.host
	}
	return a.base.RoundTrip(r)
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// lost is the outcome of a call that broke below the contract.
func lost(t testing.TB, transport transport, err error) outcome {
	t.Helper()
	t.Errorf("%s: %v", transport.name(), err)
	return outcome{refusal: &spb.Status{Code: int32(codes.Unknown), Message: err.Error()}}
}

// rest calls through the client that is generated from the published document.
type rest struct{ client *restclient.Client }

func (rest) name() string { return "REST" }

func (r rest) call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome {
	t.Helper()
	op := operationOf(req)
	client := *r.client
	if token != "" {
		client.RequestEditors = []restclient.RequestEditorFn{func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		}}
	}
	args, err := op.arguments(&restclient.ClientWithResponses{ClientInterface: &client}, harness.OfOperation(ctx, op.path()), req)
	if err != nil {
		return lost(t, r, err)
	}
	results := op.generated.Func.Call(args)
	if err, _ := results[1].Interface().(error); err != nil {
		return lost(t, r, err)
	}
	parsed := results[0].Elem()
	response := parsed.FieldByName("HTTPResponse").Interface().(*http.Response)
	// The generated type of this status, written again: what it cannot hold is lost.
	field := parsed.FieldByName(fmt.Sprintf("JSON%d", response.StatusCode))
	if !field.IsValid() || field.IsNil() {
		return lost(t, r, fmt.Errorf("the generated client knows no answer of status %d to %s", response.StatusCode, op.method.Name()))
	}
	text, err := json.Marshal(field.Interface())
	if err != nil {
		return lost(t, r, err)
	}
	return ofJSON(t, r, op, response.StatusCode, response.Header, text)
}

// ofJSON reads the outcome of an HTTP answer.
func ofJSON(t testing.TB, from transport, op *operation, status int, header http.Header, body []byte) outcome {
	t.Helper()
	out := outcome{http: status, header: header}
	var into proto.Message
	if status < 300 {
		out.message = op.answer()
		into = out.message
	} else {
		out.refusal = &spb.Status{}
		into = out.refusal
	}
	if err := protojson.Unmarshal(body, into); err != nil {
		return lost(t, from, fmt.Errorf("HTTP %d: %w: %s", status, err, body))
	}
	op.inMessage(out.refusal)
	out.check(t)
	return out
}

// plain calls REST by the HTTP rule of the contract, without a client that
// would keep it from sending what is wrong.
type plain struct {
	client *http.Client
	issuer string
}

func (plain) name() string { return "plain REST" }

func (p plain) call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome {
	t.Helper()
	op := operationOf(req)
	request, err := op.request(ctx, p.issuer, req)
	if err != nil {
		return lost(t, p, err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return p.send(t, op, request)
}

// send sends a request that is made already.
func (p plain) send(t testing.TB, op *operation, request *http.Request) outcome {
	t.Helper()
	response, err := p.client.Do(request.WithContext(harness.OfOperation(request.Context(), op.path())))
	if err != nil {
		return lost(t, p, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return lost(t, p, err)
	}
	return note(op, ofJSON(t, p, op, response.StatusCode, response.Header, body))
}

// protobuf is a transport that carries the bytes of messages.
type protobuf interface {
	transport
	// send calls a method, that may not exist, with bytes that may be no message.
	// The answer is nil when there is a refusal.
	send(t testing.TB, ctx context.Context, token, method string, message []byte) (answer []byte, out outcome)
}

// callBytes calls an operation over a transport of bytes.
func callBytes(t testing.TB, ctx context.Context, over protobuf, token string, req proto.Message) outcome {
	t.Helper()
	op := operationOf(req)
	message, err := proto.Marshal(req)
	if err != nil {
		return lost(t, over, err)
	}
	answer, out := over.send(t, ctx, token, op.path(), message)
	refusal, err := proto.Marshal(out.refusal)
	if err := errors.Join(err, harness.FindSecret(op.path(), answer, refusal)); err != nil {
		return lost(t, over, err)
	}
	if out.refusal == nil {
		out.message = op.answer()
		if err := proto.Unmarshal(answer, out.message); err != nil {
			return lost(t, over, err)
		}
		if unknown := out.message.ProtoReflect().GetUnknown(); len(unknown) > 0 {
			t.Errorf("%s: the answer has unknown fields: %x", over.name(), unknown)
		}
	}
	out.check(t)
	return out
}

// raw is a message in its bytes.
type raw struct{ bytes []byte }

// rawCodec sends and keeps bytes as they are.
type rawCodec struct{}

// Name implements the codecs of grpc-go and connect.
func (rawCodec) Name() string { return "proto" }

// Marshal implements the codecs of grpc-go and connect.
func (rawCodec) Marshal(v any) ([]byte, error) { return v.(*raw).bytes, nil }

// Unmarshal implements the codecs of grpc-go and connect. Connect reads statuses
// with it too, and uses data again.
func (rawCodec) Unmarshal(data []byte, v any) error {
	if message, ok := v.(proto.Message); ok {
		return proto.Unmarshal(data, message)
	}
	v.(*raw).bytes = bytes.Clone(data)
	return nil
}

// rpc calls native gRPC.
type rpc struct{ conn *grpc.ClientConn }

func (rpc) name() string { return "gRPC" }

func (r rpc) call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome {
	t.Helper()
	return callBytes(t, ctx, r, token, req)
}

func (r rpc) send(_ testing.TB, ctx context.Context, token, method string, message []byte) ([]byte, outcome) {
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	var answer raw
	if err := r.conn.Invoke(ctx, method, &raw{message}, &answer, grpc.ForceCodec(rawCodec{})); err != nil {
		return nil, outcome{refusal: status.Convert(err).Proto()}
	}
	return answer.bytes, outcome{}
}

// web calls gRPC-web or Connect, as browsers do, over HTTP/1.1.
type web struct {
	form     string
	client   *http.Client
	issuer   string
	protocol connect.ClientOption
}

func (w web) name() string { return w.form }

func (w web) call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome {
	t.Helper()
	return callBytes(t, ctx, w, token, req)
}

func (w web) send(t testing.TB, ctx context.Context, token, method string, message []byte) ([]byte, outcome) {
	t.Helper()
	call := connect.NewRequest(&raw{message})
	if token != "" {
		call.Header().Set("Authorization", "Bearer "+token)
	}
	answer, err := connect.NewClient[raw, raw](w.client, w.issuer+method, w.protocol, connect.WithCodec(rawCodec{})).CallUnary(ctx, call)
	if err == nil {
		return answer.Msg.bytes, outcome{header: answer.Header()}
	}
	refusal, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil, lost(t, w, err)
	}
	return nil, outcome{refusal: statusOf(refusal), header: refusal.Meta()}
}

// connectJSON calls Connect with messages in JSON.
type connectJSON struct {
	client *http.Client
	issuer string
}

func (connectJSON) name() string { return "Connect JSON" }

func (c connectJSON) call(t testing.TB, ctx context.Context, token string, req proto.Message) outcome {
	t.Helper()
	op := operationOf(req)
	text, err := protojson.Marshal(req)
	if err != nil {
		return lost(t, c, err)
	}
	call := connect.NewRequest(&raw{text})
	if token != "" {
		call.Header().Set("Authorization", "Bearer "+token)
	}
	answer, err := connect.NewClient[raw, raw](c.client, c.issuer+op.path(), connect.WithCodec(rawJSON{})).CallUnary(ctx, call)
	out := outcome{}
	if err == nil {
		out.message, out.header = op.answer(), answer.Header()
		if err := protojson.Unmarshal(answer.Msg.bytes, out.message); err != nil {
			return lost(t, c, err)
		}
		if err := harness.FindSecret(op.path(), answer.Msg.bytes); err != nil {
			return lost(t, c, err)
		}
	} else if refusal, ok := errors.AsType[*connect.Error](err); ok {
		out.refusal, out.header = statusOf(refusal), refusal.Meta()
	} else {
		return lost(t, c, err)
	}
	out.check(t)
	return out
}

// rawJSON is rawCodec for JSON.
type rawJSON struct{ rawCodec }

// Name implements the codecs of connect.
func (rawJSON) Name() string { return "json" }

// textForm turns gRPC-web into its text form and back: everything in base64.
type textForm struct{ base http.RoundTripper }

const (
	binaryType = "application/grpc-web"
	textType   = "application/grpc-web-text"
)

// RoundTrip implements http.RoundTripper.
func (f textForm) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	// Clients may encode piece by piece, each with its padding; so does this one.
	encoded := ""
	for piece := range slices.Chunk(body, max(7, len(body)/100)) {
		encoded += base64.StdEncoding.EncodeToString(piece)
	}
	text := r.Clone(r.Context())
	text.Body, text.ContentLength = io.NopCloser(strings.NewReader(encoded)), int64(len(encoded))
	text.Header.Set("Content-Type", strings.Replace(r.Header.Get("Content-Type"), binaryType, textType, 1))
	text.Header.Set("Accept", textType)
	response, err := f.base.RoundTrip(text)
	if err != nil {
		return nil, err
	}
	contentType := response.Header.Get("Content-Type")
	if !strings.HasPrefix(contentType, textType) {
		return response, nil // a refusal below gRPC-web
	}
	answer, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, response.Body))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("the answer is not base64: %w", err)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(answer)), int64(len(answer))
	response.Header.Set("Content-Type", strings.Replace(contentType, textType, binaryType, 1))
	return response, nil
}
