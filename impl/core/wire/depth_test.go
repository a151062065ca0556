package wire

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// FuzzCount counts the messages of a text before it is decoded, and those that come of it: at most
// twice as many, as the entry of a map makes the value that it leaves out.
func FuzzCount(f *testing.F) {
	for _, value := range []map[string]any{{}, {"a": 1}, {"a": []any{1, "b", map[string]any{"c": nil}}}} {
		of, err := structpb.NewStruct(value)
		if err != nil {
			f.Fatal(err)
		}
		text, err := proto.Marshal(of)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("\n\x00")) // an entry with neither
	f.Fuzz(func(t *testing.T, text []byte) {
		of, left := &structpb.Struct{}, MaxValues
		count(text, of.ProtoReflect().Descriptor(), maxMessages, &left)
		if Unmarshal(text, of) != nil || left < 0 {
			return
		}
		if got := messages(of); got > 2*(MaxValues-left) {
			t.Errorf("%d messages came of what was counted as %d", got, MaxValues-left)
		}
	})
}

func messages(of *structpb.Struct) (n int) {
	var value func(*structpb.Value)
	value = func(v *structpb.Value) {
		n++
		for _, one := range v.GetListValue().GetValues() {
			value(one)
		}
		if within := v.GetStructValue(); within != nil {
			n += 1 + messages(within)
		}
		if v.GetListValue() != nil {
			n++
		}
	}
	for _, one := range of.GetFields() {
		n++ // the entry
		value(one)
	}
	return n
}
