package contract

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
)

// wireInput is the bytes of a request message.
type wireInput struct {
	method string
	bytes  []byte
}

// wireCalls returns the calls of an input on each transport of protobuf.
func (s *suite) wireCalls(in *wireInput) (calls []func() outcome) {
	for _, over := range s.transports {
		if over, ok := over.(protobuf); ok {
			calls = append(calls, func() outcome {
				_, out := over.send(s.t, s.t.Context(), s.AdminToken, in.method, in.bytes)
				if out.refusal == nil {
					out.message = &actionv3.GetTargetResponse{} // no answer is expected
				}
				out.check(s.t)
				return out
			})
		}
	}
	return calls
}

// wrongWire are messages that are not what their type says.
func wrongWire() []wrong {
	row := func(name, method string, bytes []byte, reason, field string) wrong {
		return wrong{name: name, wire: &wireInput{method, bytes}, reason: reason, field: field}
	}
	text := func(number protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	message := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	number := func(number protowire.Number, value uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
	}
	whole, err := proto.Marshal(&actionv3.CreateTargetRequest{Target: webhook("wrong")})
	if err != nil {
		panic(err)
	}
	inner, err := proto.Marshal(webhook("wrong"))
	if err != nil {
		panic(err)
	}
	nested := text(1, "a")
	for range 20_000 {
		nested = message(1, nested)
	}
	const (
		read      = actionv3.ServiceActions_GetTarget_FullMethodName
		search    = actionv3.ServiceActions_SearchTargets_FullMethodName
		methods   = actionv3.ServiceActions_ListAvailableExecutionMethods_FullMethodName
		malformed = "MALFORMED_REQUEST"
		unknown   = "UNKNOWN_FIELD"
	)
	large := func(name, method string, bytes []byte) wrong {
		return wrong{name: name, wire: &wireInput{method, bytes}, code: codes.ResourceExhausted, reason: "REQUEST_TOO_LARGE", named: "1048576"}
	}
	return []wrong{
		row("an empty message where fields are required", create, nil, "INVALID_FIELD", "target"),
		row("an unknown field number", read, append(text(1, "a"), number(99, 1)...), unknown, ""),
		row("an unknown field number in a message without fields", methods, number(1, 1), unknown, ""),
		row("an unknown field number below", create, message(1, append(inner, text(77, "a")...)), unknown, "target"),
		row("an unknown field number in a list", search, message(3, append(message(2, text(1, "a")), number(55, 0)...)), unknown, "filters[0]"),
		row("the largest field number", read, append(text(1, "a"), number(protowire.MaxValidNumber-7, 1)...), unknown, ""),
		row("a field of another wire type", read, number(1, 7), unknown, ""),
		row("a truncated tag", read, []byte{0x80}, malformed, ""),
		row("a truncated length", read, []byte{0x0a}, malformed, ""),
		row("a length beyond the end", read, []byte{0x0a, 0x7f, 'a'}, malformed, ""),
		row("a huge length", read, append([]byte{0x0a}, protowire.AppendVarint(nil, 1<<62)...), malformed, ""),
		row("a varint of eleven bytes", read, append([]byte{0x10}, strings.Repeat("\xff", 11)...), malformed, ""),
		row("field number 0", read, []byte{0x00, 0x01}, malformed, ""),
		row("an unknown wire type", read, []byte{0x0f, 0x01}, malformed, ""),
		row("an open group", read, []byte{0x13}, malformed, ""),
		row("the end of a group that was not open", read, []byte{0x14}, malformed, ""),
		row("half a message", create, whole[:len(whole)/2], malformed, ""),
		row("a message that is text", create, []byte(good), malformed, ""),
		row("invalid UTF-8", read, text(1, "a\xff"), malformed, ""),
		row("invalid UTF-8 below", create, message(1, text(1, "\xed\xa0\x80")), malformed, ""),
		row("20,000 messages in one another", search, message(3, nested), malformed, ""),
		large("a message of 3 MiB", read, text(1, strings.Repeat("a", 3<<20))), // above 4 the libraries cut it off,
		large("a message of one byte too many", read, text(1, strings.Repeat("a", 1<<20-3))),
	}
}

// TestBrokenFramesAreRefused sends gRPC-web bodies that are no frame of one
// message. Their refusals are the library's, as every gRPC server has them.
func TestBrokenFramesAreRefused(t *testing.T) {
	s := newSuite(t)
	message, err := proto.Marshal(&actionv3.CreateTargetRequest{Target: webhook("framed")})
	if err != nil {
		t.Fatal(err)
	}
	frame := func(flags byte, length int) string {
		return string(binary.BigEndian.AppendUint32([]byte{flags}, uint32(length))) + string(message)
	}
	whole := frame(0, len(message))
	text := base64.StdEncoding.EncodeToString([]byte(whole))
	for _, test := range []struct{ name, contentType, body string }{
		{"no frame", "application/grpc-web+proto", ""},
		{"a part of a head", "application/grpc-web+proto", whole[:3]},
		{"a head alone", "application/grpc-web+proto", whole[:5]},
		{"a part of a message", "application/grpc-web+proto", whole[:len(whole)-1]},
		{"a length beyond the end", "application/grpc-web+proto", frame(0, len(message)+1)},
		{"a huge length", "application/grpc-web+proto", frame(0, math.MaxInt32)},
		{"two messages", "application/grpc-web+proto", whole + whole},
		{"bytes behind the message", "application/grpc-web+proto", whole + "x"},
		{"a compressed message that is not", "application/grpc-web+proto", frame(1, len(message))},
		{"a trailer", "application/grpc-web+proto", frame(0x80, len(message))},
		{"no text", "application/grpc-web-text+proto", ""},
		{"text that is not base64", "application/grpc-web-text+proto", "%" + text},
		{"text that is not whole", "application/grpc-web-text+proto", text[:len(text)-2]},
		{"text that is URL-safe base64", "application/grpc-web-text+proto", strings.Repeat("-_-_", 10)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.in(t)
			s.writesNothing(func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Issuer+create, strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer "+s.AdminToken)
				request.Header.Set("Content-Type", test.contentType)
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				if code := response.Header.Get("Grpc-Status"); code == "" || code == "0" {
					t.Errorf("got HTTP %d, status %q, want a refusal in the head: %q", response.StatusCode, code, body)
				}
			})
		})
	}
}

// TestSEC230_WhatIsNotServedIsRefused on gRPC; the paths of REST are in
// TestWrongInput.
func TestSEC230_WhatIsNotServedIsRefused(t *testing.T) {
	s := newSuite(t)
	for _, method := range []string{
		"/writ.action.v3alpha.ServiceActions/Nothing", "/writ.action.v3alpha.ServiceActions/createTarget", "/writ.nothing.Service/Get", "/x/y",
	} {
		for _, over := range s.transports {
			if over, ok := over.(protobuf); ok {
				if _, got := over.send(t, t.Context(), s.AdminToken, method, nil); got.refusal == nil || got.code() != codes.Unimplemented {
					t.Errorf("%s over %s: got %s, want Unimplemented", method, over.name(), got)
				}
			}
		}
	}
}

// TestConnectReadsJSONAsStrictlyAsREST sends what protojson would let pass, and what
// it would refuse without saying where. What REST calls name is target.name here.
func TestConnectReadsJSONAsStrictlyAsREST(t *testing.T) {
	all := newSuite(t)
	for _, test := range []struct{ name, body, code, reason, field string }{
		{"an unknown member", `{"target":{"name":"a","colour":"red"}}`, "invalid_argument", "UNKNOWN_FIELD", "target.colour"},
		{"null", `{"target":{"name":null}}`, "invalid_argument", "NULL_VALUE", "target.name"},
		{"a member twice", `{"target":{"name":"a","name":"b"}}`, "invalid_argument", "DUPLICATE_FIELD", "target.name"},
		{"two members of a oneof", `{"target":{"isAsync":true,"interruptOnError":true}}`, "invalid_argument", "ONEOF_CONFLICT", "target.interruptOnError"},
		{"another type", `{"target":{"name":1}}`, "invalid_argument", "WRONG_TYPE", "target.name"},
		{"no JSON", `{"target":`, "invalid_argument", "MALFORMED_JSON", ""},
		{"nothing", ``, "invalid_argument", "BODY_MISSING", ""},
		{"something behind it", good + good, "invalid_argument", "UNKNOWN_FIELD", "name"},
		{"a rule of the contract", `{"target":` + good[:len(good)-len(`"1s"}`)] + `"0s"}}`, "invalid_argument", "INVALID_FIELD", "target.timeout"},
		{"one byte too many", `{"target":` + good + strings.Repeat(" ", 1<<20), "resource_exhausted", "REQUEST_TOO_LARGE", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := all.in(t)
			s.writesNothing(func() {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Issuer+create, strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer "+s.AdminToken)
				request.Header.Set("Content-Type", "application/json")
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				var refusal struct {
					Code    string
					Details []struct {
						Type  string
						Debug struct {
							Reason          string
							FieldViolations []struct{ Field string }
						}
					}
				}
				if err := json.NewDecoder(response.Body).Decode(&refusal); err != nil {
					t.Fatal(err)
				}
				reason, field := "", ""
				for _, detail := range refusal.Details {
					reason += detail.Debug.Reason
					for _, violation := range detail.Debug.FieldViolations {
						field += violation.Field
					}
				}
				if refusal.Code != test.code || reason != test.reason || field != test.field {
					t.Errorf("got %s, %s at %q, want %s, %s at %q", refusal.Code, reason, field, test.code, test.reason, test.field)
				}
			})
		})
	}
}
