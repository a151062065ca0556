package wire_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	_ "github.com/writ-id/writ/gen/proto/writ/event/v1"
	_ "github.com/writ-id/writ/gen/proto/writ/feature/v2"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/wire"
)

// TestAppendJSONWritesWhatProtojsonWrites fills every message of the contract at
// random and compares the generated marshaler with the library's.
func TestAppendJSONWritesWhatProtojsonWrites(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	options := protojson.MarshalOptions{EmitDefaultValues: true}
	messages, raw := 0, 0
	protoregistry.GlobalTypes.RangeMessages(func(kind protoreflect.MessageType) bool {
		if !strings.HasPrefix(string(kind.Descriptor().FullName()), "writ.") || kind.Descriptor().IsMapEntry() {
			return true
		}
		if hasRaw(kind.Descriptor()) {
			raw++
			return true
		}
		messages++
		for range 50 {
			message := kind.New()
			fill(random, message, 0)
			want, err := options.Marshal(message.Interface())
			if err != nil {
				t.Fatalf("protojson: %v", err)
			}
			if got, want := string(wire.AppendMessage(nil, message.Interface())), string(wire.Compact(want)); got != want {
				t.Fatalf("%s\n got %s\nwant %s", kind.Descriptor().FullName(), got, want)
			}
		}
		return true
	})
	if raw != 3 {
		t.Errorf("%d messages hold JSON as it is; what targets get are 3", raw)
	}
	if messages < 50 {
		t.Errorf("only %d messages were compared; the contract has more", messages)
	}
}

// hasRaw reports whether a field of a message is JSON, which protojson does not know.
func hasRaw(message protoreflect.MessageDescriptor) bool {
	for i := range message.Fields().Len() {
		if proto.GetExtension(message.Fields().Get(i).Options(), policyv1.E_Json).(bool) {
			return true
		}
	}
	return false
}

func TestWhatIsJSONIsWrittenAsItIs(t *testing.T) {
	got := string((&actionv3.RequestPayload{FullMethod: "m", Request: []byte(`{"a":[1]}`)}).AppendJSON(nil))
	if want := `{"fullMethod":"m","instanceID":"","orgID":"","projectID":"","userID":"","request":{"a":[1]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string((&actionv3.RequestPayload{}).AppendJSON(nil)); !json.Valid([]byte(got)) {
		t.Errorf("without a request: %s", got)
	}
}

func fill(random *rand.Rand, message protoreflect.Message, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if random.IntN(3) == 0 || depth > 4 {
			continue
		}
		switch {
		case field.IsMap():
			for _, key := range []string{"b", "a", "ü"} {
				message.Mutable(field).Map().Set(protoreflect.ValueOfString(key).MapKey(), scalar(random, field.MapValue()))
			}
		case field.IsList():
			for range random.IntN(3) {
				list := message.Mutable(field).List()
				if field.Message() != nil {
					element := list.NewElement()
					fillMessage(random, element.Message(), depth)
					list.Append(element)
				} else {
					list.Append(scalar(random, field))
				}
			}
		case field.Message() != nil:
			fillMessage(random, message.Mutable(field).Message(), depth)
		default:
			message.Set(field, scalar(random, field))
		}
	}
}

func fillMessage(random *rand.Rand, message protoreflect.Message, depth int) {
	switch m := message.Interface().(type) {
	case *timestamppb.Timestamp:
		proto.Merge(m, timestamppb.New(time.Unix(random.Int64N(4e9), []int64{0, 5e6, 5e3, 7}[random.IntN(4)])))
	case *durationpb.Duration:
		proto.Merge(m, durationpb.New(time.Duration(random.Int64N(1e12)-5e11)))
	case *structpb.Value:
		proto.Merge(m, structpb.NewStringValue(texts[random.IntN(len(texts))]))
	default:
		if message.Descriptor().ParentFile().Package() != "google.protobuf" {
			fill(random, message, depth+1)
		}
	}
}

var texts = []string{"", "plain", "q\"u\\o", "tab\tnew\nline\r\b\f\x01\x1f\x7f", "Straße 日本 \u2028", "<script>&"}

func scalar(random *rand.Rand, field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(texts[random.IntN(len(texts))])
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(random.IntN(2) == 0)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(texts[random.IntN(len(texts))]))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(random.Uint32()))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(random.IntN(12))) // unknown numbers too
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(random.Uint32())
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(random.Uint64())
	}
	panic("no value for " + field.Kind().String())
}

func TestAppendStringEscapesInvalidUTF8(t *testing.T) {
	if got, want := string(wire.AppendString(nil, "a\xffb")), "\"a\ufffdb\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func BenchmarkSearchAnswer(b *testing.B) {
	answer := &actionv3.SearchTargetsResponse{}
	for range 100 {
		answer.Result = append(answer.Result, &actionv3.GetTarget{Target: &actionv3.Target{
			Name: "a target", TargetType: &actionv3.Target_RestWebhook{RestWebhook: &actionv3.RestWebhook{Url: "https://hooks.example/a"}},
			Timeout: durationpb.New(10 * time.Second),
		}})
	}
	b.Run("AppendJSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wire.AppendMessage(make([]byte, 0, 512), answer)
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (protojson.MarshalOptions{EmitDefaultValues: true}).Marshal(answer); err != nil {
				b.Fatal(err)
			}
		}
	})
}
