package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// outcome is what a call came to, the same on every transport: an answer or a
// refusal.
type outcome struct {
	message proto.Message
	refusal *spb.Status
	http    int    // the status of REST, 0 elsewhere
	header  header // of REST and gRPC-web
}

type header interface{ Get(string) string }

// String returns the outcome for people.
func (o outcome) String() string {
	if o.refusal == nil {
		return protojson.Format(o.message)
	}
	return fmt.Sprintf("HTTP %d, %s: %s", o.http, o.code(), protojson.Format(o.refusal))
}

func (o outcome) code() codes.Code { return codes.Code(o.refusal.GetCode()) }

// detail returns the first detail of a refusal that is of the type.
func detail[T proto.Message](o outcome) (found T) {
	for _, packed := range o.refusal.GetDetails() {
		if message, err := packed.UnmarshalNew(); err == nil {
			if d, ok := message.(T); ok {
				return d
			}
		}
	}
	return found
}

func (o outcome) reason() string { return detail[*errdetails.ErrorInfo](o).GetReason() }

// field returns the first field that a refusal blames.
func (o outcome) field() string {
	for _, violation := range detail[*errdetails.BadRequest](o).GetFieldViolations() {
		return violation.GetField()
	}
	return ""
}

// namesFields reports whether each field that a refusal blames is one of the request, as its
// fields are called in JSON, or of what REST has for its body. It returns the first that is none.
func (o outcome) namesFields(request protoreflect.MessageDescriptor, body string) (string, bool) {
	switch o.reason() {
	case "UNKNOWN_FIELD", "UNKNOWN_PARAMETER", "MALFORMED_REQUEST": // they name what was sent
		return "", true
	}
	for _, violation := range detail[*errdetails.BadRequest](o).GetFieldViolations() {
		path := violation.GetField()
		field := request.Fields().ByName(protoreflect.Name(body))
		switch {
		case path == "", path == "body" && field != nil, hasField(request, path):
		case field != nil && field.Message() != nil && hasField(field.Message(), strings.TrimPrefix(trimIndex(path), ".")):
		case strings.HasPrefix(path, "x-writ-"): // a header
		default:
			return path, false
		}
	}
	return "", true
}

// trimIndex returns a path without the index that it begins with.
func trimIndex(path string) string {
	if strings.HasPrefix(path, "[") {
		_, path, _ = strings.Cut(path, "]")
	}
	return path
}

// hasField reports whether a message has the field that a path leads to. What is in free data
// has whatever fields it has.
func hasField(in protoreflect.MessageDescriptor, path string) bool {
	for path != "" {
		if in == nil {
			return false
		}
		if strings.HasPrefix(string(in.FullName()), "google.protobuf.") {
			return true
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		name := path[:end]
		field := in.Fields().ByJSONName(name)
		if field == nil {
			field = in.Fields().ByName(protoreflect.Name(name)) // as it was sent
		}
		if field == nil {
			return false
		}
		if in, path = field.Message(), path[end:]; field.IsMap() {
			in = field.MapValue().Message()
		}
		path = strings.TrimPrefix(trimIndex(path), ".")
	}
	return true
}

// check fails the test if a refusal has not the shape of the contract, or is one
// that no request may cause.
func (o outcome) check(t testing.TB) {
	t.Helper()
	if o.refusal == nil {
		return
	}
	info := detail[*errdetails.ErrorInfo](o)
	if info.GetReason() == "" || info.GetDomain() != "writ" || o.refusal.GetMessage() == "" {
		t.Errorf("a refusal needs a message and an ErrorInfo with reason and domain: %s", o)
	}
	if want, known := httpStatus[o.code()]; o.http != 0 && o.http != want && (known || o.http < 500) && !isPathOrBody(o.http) {
		t.Errorf("got HTTP %d for code %s, want %d", o.http, o.code(), want)
	}
	switch o.code() {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		t.Errorf("the server failed: %s", o)
	}
}

// httpStatus is how the contract translates codes to HTTP.
var httpStatus = map[codes.Code]int{
	codes.InvalidArgument: 400, codes.FailedPrecondition: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403,
	codes.NotFound: 404, codes.AlreadyExists: 409, codes.ResourceExhausted: 413, codes.Unavailable: 503,
}

// isPathOrBody reports statuses that only HTTP knows.
func isPathOrBody(status int) bool { return status == 405 || status == 415 }

// statusOf returns the error of a connect client as a status.
func statusOf(err *connect.Error) *spb.Status {
	out := &spb.Status{Code: int32(err.Code()), Message: err.Message()}
	for _, d := range err.Details() {
		out.Details = append(out.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return out
}

// tree returns a message as the maps and lists of its JSON.
func tree(m proto.Message) any {
	var value any
	text, err := protojson.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		panic(err) // a message that was decoded can be encoded
	}
	return value
}
