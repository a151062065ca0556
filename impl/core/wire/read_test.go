package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/wire"
)

// TestDecodeNamesTheField gives the decoder one mistake at a time.
func TestDecodeNamesTheField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, body, reason, field string }{
		{"empty", ``, "BODY_MISSING", ""},
		{"only spaces", " \n", "BODY_MISSING", ""},
		{"null", `null`, "NULL_VALUE", "target"},
		{"a null member", `{"name":null}`, "NULL_VALUE", "target.name"},
		{"a nested null", `{"restWebhook":{"url":null}}`, "NULL_VALUE", "target.restWebhook.url"},
		{"a list", `[]`, "WRONG_TYPE", "target"},
		{"a text", `"x"`, "WRONG_TYPE", "target"},
		{"an unknown member", `{"titel":"x"}`, "UNKNOWN_FIELD", "target.titel"},
		{"an unknown nested member", `{"restWebhook":{"uri":"x"}}`, "UNKNOWN_FIELD", "target.restWebhook.uri"},
		{"a number for a text", `{"name":5}`, "WRONG_TYPE", "target.name"},
		{"a text for a bool", `{"isAsync":"true"}`, "WRONG_TYPE", "target.isAsync"},
		{"a number for a duration", `{"timeout":10}`, "WRONG_TYPE", "target.timeout"},
		{"a bad duration", `{"timeout":"10"}`, "INVALID_VALUE", "target.timeout"},
		{"the same member twice", `{"name":"a","name":"b"}`, "DUPLICATE_FIELD", "target.name"},
		{"both spellings of a member", `{"isAsync":true,"is_async":true}`, "DUPLICATE_FIELD", "target.is_async"},
		{"two members of a oneof", `{"isAsync":true,"interruptOnError":true}`, "ONEOF_CONFLICT", "target.interruptOnError"},
		{"bytes after the value", `{"name":"a"} {}`, "MALFORMED_REQUEST", "target"},
		{"not JSON", `{"name":"a"`, "MALFORMED_JSON", "target"},
		{"invalid UTF-8", "{\"name\":\"\xff\"}", "INVALID_UTF8", ""},
		{"too deep", strings.Repeat("[", 10_000), "TOO_DEEP", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := wire.NewReader([]byte(test.body), "target").Read(&actionv3.Target{})
			refusal, ok := errors.AsType[*wire.Refusal](err)
			if !ok {
				t.Fatalf("got %v, want a refusal", err)
			}
			if refusal.Reason != test.reason || refusal.Field != test.field {
				t.Errorf("got %s %q, want %s %q", refusal.Reason, refusal.Field, test.reason, test.field)
			}
		})
	}
}

func TestDecodeTakesWhatTheMappingTakes(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"name":"null","restWebhook":{"url":"https://a"},"timeout":"1.5s","isAsync":false}`,
		`{"name":"\"n\"","rest_webhook":{"url":"a"},"is_async":true}`,
		` {} `,
	} {
		if err := wire.NewReader([]byte(body), "target").Read(&actionv3.Target{}); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	filters, err := wire.ReadList[actionv3.TargetSearchFilter](wire.NewReader([]byte(`[{"inIds":{"ids":["a"]}},{"name":{"name":"n"}}]`), "filters"))
	if err != nil || len(filters) != 2 {
		t.Errorf("got %d filters and %v, want 2 and no error", len(filters), err)
	}
}

// FuzzDecode looks for bodies that panic, that fail without a refusal, or that
// decode to something which does not decode again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"name":"x","timeout":"1s"}`, `{"name":null}`, `[1,{"a":[]}]`, "{\"\xff\":1}", `{"restWebhook":{"url":"\u0000\ud800"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := wire.ReadList[actionv3.ExecutionSearchFilter](wire.NewReader(body, "filters")); err != nil {
			if _, ok := errors.AsType[*wire.Refusal](err); !ok {
				t.Fatalf("%q: %v is not a refusal", body, err)
			}
		}
		target := &actionv3.Target{}
		err := wire.NewReader(body, "target").Read(target)
		if err == nil {
			if err := wire.NewReader(wire.AppendMessage(nil, target), "target").Read(&actionv3.Target{}); err != nil {
				t.Fatalf("%q decodes, but what it decodes to does not: %v", body, err)
			}
			reference := &actionv3.Target{}
			if err := protojson.Unmarshal(body, reference); err != nil || !proto.Equal(reference, target) {
				t.Fatalf("%q: protojson gives %v and %v, not %v", body, reference, err, target)
			}
			return
		}
		if _, ok := errors.AsType[*wire.Refusal](err); !ok {
			t.Fatalf("%q: got %v, want a refusal", body, err)
		}
	})
}

// TestReadJSONIsTheMapping holds what is generated beside protojson: of what any message
// of a request is written as, in every spelling that the mapping has, it reads the same.
func TestReadJSONIsTheMapping(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	spellings := []protojson.MarshalOptions{{}, {EmitDefaultValues: true}, {UseProtoNames: true, Multiline: true}, {UseEnumNumbers: true}}
	messages := 0
	protoregistry.GlobalTypes.RangeMessages(func(kind protoreflect.MessageType) bool {
		if _, ok := kind.New().Interface().(wire.Decoder); !ok {
			return true
		}
		messages++
		for range 50 {
			want := kind.New()
			fill(random, want, 0)
			for _, spelling := range spellings {
				text, err := spelling.Marshal(want.Interface())
				if err != nil {
					t.Fatal(err)
				}
				got := kind.New().Interface()
				err = wire.NewReader(text, "").Read(got.(wire.Decoder))
				if refusal, ok := errors.AsType[*wire.Refusal](err); ok && refusal.Reason == "INVALID_ENUM" {
					continue // the random one is a number of no value
				}
				if err != nil || !proto.Equal(got, want.Interface()) {
					t.Fatalf("%s\n%s\n got %v and %v\nwant %v", kind.Descriptor().FullName(), text, got, err, want.Interface())
				}
			}
		}
		return true
	})
	if messages < 50 {
		t.Errorf("only %d messages are read; the contract has more", messages)
	}
}

// A number may be written in every way that JSON has, and as a text.
func TestNumbersAreThoseOfTheMapping(t *testing.T) {
	t.Parallel()
	for _, number := range []string{
		"1", "0", "-0", "-1", "1.0", "1.5", "1e0", "10e-1", "1E1", "1e-1", "0.1e1", "100e-2", "0e5", "0.0", "-0.0", "1e400", "1e999999999", "1e-999999999", "0e999999999",
		"4294967295", "4294967296", "42949672950e-1", "00", "01", "-", "+1", ".5", "1.", "0x1", "1_0", strings.Repeat("1", 45), "1" + strings.Repeat("0", 30) + "e-30",
	} {
		for _, text := range []string{number, strconv.Quote(number), strconv.Quote(" " + number)} {
			body := []byte(`{"limit":` + text + `}`)
			want := &object.ListQuery{}
			wanted := protojson.Unmarshal(body, want) == nil
			got := &object.ListQuery{}
			err := wire.NewReader(body, "").Read(got)
			if (err == nil) != wanted || wanted && got.Limit != want.Limit {
				t.Errorf("%s: got %d and %v, want %d %v", body, got.Limit, err, want.Limit, wanted)
			}
		}
	}
}

func TestBytesAreThoseOfTheMapping(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"AQ==", "AQ", "_-8=", "/+8=", "_+8=", "A", "*", "", "AQ===", "A Q==", "AQ==\n"} {
		quoted, _ := json.Marshal(text)
		body := []byte(`{"metadata":{"value":` + string(quoted) + `}}`)
		got, want := &userv3.SetUserMetadataRequest{}, &userv3.SetUserMetadataRequest{}
		wanted := protojson.Unmarshal(body, want) == nil
		if err := wire.NewReader(body, "").Read(got); (err == nil) != wanted || wanted && !proto.Equal(got, want) {
			t.Errorf("%q: got %v and %v, want %v %v", text, got, err, want, wanted)
		}
	}
}

// none is where gRPC registers services that nobody calls.
type none struct{}

func (none) RegisterService(*grpc.ServiceDesc, any) {}

func TestCheckQuery(t *testing.T) {
	t.Parallel()
	routes := map[string]wire.Serve{}
	actionv3.MountServiceActions(&wire.Transports{
		GRPC: none{}, Web: func(string, http.Handler) {}, REST: func(route *wire.Route, serve wire.Serve) { routes[route.Method] = serve },
	}, actionv3.UnimplementedServiceActionsServer{}, func(_ context.Context, req any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		return &actionv3.SearchTargetsResponse{}, nil
	})
	for _, test := range []struct{ name, query, reason, field string }{
		{"known", "query.limit=5&query.offset=0&query.asc=true&sortingColumn=TARGET_FIELD_NAME_NAME", "", ""},
		{"snake case", "sorting_column=TARGET_FIELD_NAME_NAME", "", ""},
		{"unknown", "limit=5", "UNKNOWN_PARAMETER", "limit"},
		{"unknown below a known", "query.limits=5", "UNKNOWN_PARAMETER", "query.limits"},
		{"a message", "query=5", "UNKNOWN_PARAMETER", "query"},
		{"what is in the body", "filters=x", "UNKNOWN_PARAMETER", "filters"},
		{"below what is in the body", "filters.name=x", "UNKNOWN_PARAMETER", "filters.name"},
		{"twice", "query.limit=5&query.limit=5", "REPEATED_PARAMETER", "query.limit"},
		{"negative", "query.limit=-1", "OUT_OF_RANGE", "query.limit"},
		{"overflowing", "query.offset=18446744073709551616", "OUT_OF_RANGE", "query.offset"},
		{"endless", "query.offset=" + strings.Repeat("9", 10_000), "WRONG_TYPE", "query.offset"},
		{"not a number", "query.limit=five", "WRONG_TYPE", "query.limit"},
		{"not a bool", "query.asc=1", "WRONG_TYPE", "query.asc"},
		{"an unknown enum name", "sortingColumn=NAME", "INVALID_ENUM", "sortingColumn"},
		{"an enum number", "sortingColumn=4", "", ""}, // as in a body
		{"a number of no value", "sortingColumn=99", "INVALID_ENUM", "sortingColumn"},
		{"an endless enum number", "sortingColumn=" + strings.Repeat("4", 100), "INVALID_ENUM", "sortingColumn"},
		{"a broken escape", "query.limit=%zz", "MALFORMED_QUERY", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			r.URL.RawQuery = test.query
			_, err := routes[actionv3.ServiceActions_SearchTargets_FullMethodName](t.Context(), &wire.Input{Request: r, Body: func() ([]byte, error) { return []byte("[]"), nil }})
			reason, field := "", ""
			if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
				reason, field = refusal.Reason, refusal.Field
				if !refusal.InQuery {
					t.Errorf("%v is not of the query", refusal)
				}
			}
			if reason != test.reason || field != test.field {
				t.Errorf("got %s %q, want %s %q", reason, field, test.reason, test.field)
			}
		})
	}
}

func BenchmarkCreateTarget(b *testing.B) {
	body := []byte(`{"name":"audit","restWebhook":{"url":"https://hooks.example/audit"},"timeout":"10s","isAsync":true}`)
	b.Run("ReadJSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := wire.NewReader(body, "target").Read(&actionv3.Target{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := protojson.Unmarshal(body, &actionv3.Target{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
