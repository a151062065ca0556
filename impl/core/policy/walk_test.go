package policy

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	schemav3 "github.com/writ-id/writ/gen/proto/writ/schema/v3alpha"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/wire"
)

// nested returns an object within an object, so many of them.
func nested(depth int) *structpb.Struct {
	value := structpb.NewNumberValue(1)
	for range depth - 1 {
		value = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": value}})
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"a": value}}
}

// allocated returns how many bytes do allocates, the least of some times, as others allocate
// beside it.
func allocated(do func()) uint64 {
	least := ^uint64(0)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// TestSEC291_DepthIsBoundOnEveryWire reads the same nested object in each form.
func TestSEC291_DepthIsBoundOnEveryWire(t *testing.T) { //nolint:paralleltest // it counts allocations
	v, err := NewValidator(allOperations(t))
	if err != nil {
		t.Fatal(err)
	}
	request := func(depth int) *schemav3.CreateUserSchemaRequest {
		return &schemav3.CreateUserSchemaRequest{UserSchema: &schemav3.UserSchema{Type: "t", Schema: nested(depth)}}
	}
	const around = 2 // the request and its schema
	forms := map[string]func(proto.Message) error{
		"binary": func(m proto.Message) error {
			text, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			read := m.ProtoReflect().New().Interface()
			if err := wire.Unmarshal(text, read); err != nil {
				return err
			}
			return v.Check(read)
		},
		"JSON": func(m proto.Message) error {
			read := m.ProtoReflect().New().Interface()
			if err := wire.NewReader(m.(wire.Appender).AppendJSON(nil), "").Read(read.(wire.Decoder)); err != nil {
				return err
			}
			return v.Check(read)
		},
	}
	for form, read := range forms {
		if err := read(request(wire.MaxDepth - around)); err != nil {
			t.Errorf("%s: as deep as may be: %v", form, err)
		}
		for _, depth := range []int{wire.MaxDepth - around + 1, wire.MaxDepth + 5, 4000} {
			err := read(request(depth))
			reason := ""
			if refusal, ok := errors.AsType[*fault.Error](err); ok {
				reason = refusal.Reason
			} else if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
				reason = refusal.Reason
			}
			if reason != "TOO_DEEP" {
				t.Errorf("%s, %d deep: got %v", form, depth, err)
			}
		}
	}
	// What is refused for its depth costs no more to read than what is not.
	deep, err := proto.Marshal(request(8000))
	if err != nil {
		t.Fatal(err)
	}
	if got := allocated(func() { _ = wire.Unmarshal(deep, &schemav3.CreateUserSchemaRequest{}) }); got > 4*uint64(len(deep)) {
		t.Errorf("%d bytes that nest too deep make %d", len(deep), got)
	}
}

// TestSEC291_ManyEmptyValuesAreNotDecoded sends a MiB of empty elements in each form, of which each
// would come to a message.
func TestSEC291_ManyEmptyValuesAreNotDecoded(t *testing.T) { //nolint:paralleltest // it counts allocations
	filters := func(n int) *actionv3.SearchTargetsRequest {
		req := &actionv3.SearchTargetsRequest{}
		for range n {
			req.Filters = append(req.Filters, &actionv3.TargetSearchFilter{})
		}
		return req
	}
	binary, err := proto.Marshal(filters(MaxRequestBytes / 2))
	if err != nil {
		t.Fatal(err)
	}
	text := filters(MaxRequestBytes / 3).AppendJSON(nil)
	answer := []byte(`{"a":[` + strings.Repeat("0,", MaxRequestBytes/2) + `0]}`)
	within, err := proto.Marshal(&actionv3.SearchTargetsRequest{Filters: filters(wire.MaxValues - 1).GetFilters()})
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Unmarshal(within, &actionv3.SearchTargetsRequest{}); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	for name, read := range map[string]func() error{
		"binary": func() error { return wire.Unmarshal(binary, &actionv3.SearchTargetsRequest{}) },
		"JSON":   func() error { return wire.NewReader(text, "").Read(&actionv3.SearchTargetsRequest{}) },
		"answer": func() error { return wire.UnmarshalJSON(answer, &structpb.Struct{}, protojson.UnmarshalOptions{}) },
	} {
		err := read()
		if refusal, ok := errors.AsType[*wire.Refusal](err); !ok || refusal.Reason != "TOO_MANY_VALUES" {
			t.Errorf("%s: got %v", name, err)
		}
		if got := allocated(func() { _ = read() }); got > 64<<10 {
			t.Errorf("%s: refusing allocates %d bytes", name, got)
		}
	}
}

// TestSEC291_RequestsAreReadInLinearTime counts what is allocated for requests that are
// twice as large each: as deep and as wide as may be, good and bad.
func TestSEC291_RequestsAreReadInLinearTime(t *testing.T) { //nolint:paralleltest // it counts allocations
	v, err := NewValidator(allOperations(t))
	if err != nil {
		t.Fatal(err)
	}
	wide := func(n int, value func(int) *structpb.Value) proto.Message {
		fields := map[string]*structpb.Value{}
		for i := range n {
			fields[fmt.Sprint(i)] = value(i)
		}
		return &schemav3.CreateUserSchemaRequest{UserSchema: &schemav3.UserSchema{Type: "t", Schema: &structpb.Struct{Fields: fields}}}
	}
	for name, make := range map[string]func(n int) proto.Message{
		"wide and deep": func(n int) proto.Message {
			return wide(n, func(int) *structpb.Value { return structpb.NewStructValue(nested(50)) })
		},
		"long names": func(n int) proto.Message {
			return wide(n, func(i int) *structpb.Value {
				return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{strings.Repeat("n", 1000): structpb.NewNumberValue(float64(i))}})
			})
		},
		"many elements that break a rule": func(n int) proto.Message {
			req := &actionv3.SearchTargetsRequest{}
			for range n * 50 {
				req.Filters = append(req.Filters, &actionv3.TargetSearchFilter{})
			}
			return req
		},
		"many texts that break a rule": func(n int) proto.Message {
			return &actionv3.PutExecutionRequest{Execution: &actionv3.Execution{Targets: make([]string, n*50)}}
		},
	} {
		cost := func(n int) uint64 {
			message := make(n)
			return allocated(func() { _ = v.Check(message) })
		}
		small, large := cost(200), cost(1600)
		if large > 12*small+1<<20 {
			t.Errorf("%s: eight times as much makes %d bytes of %d", name, large, small)
		}
		size := proto.Size(make(1600))
		if large > 60*uint64(size)+1<<20 {
			t.Errorf("%s: to check %d bytes makes %d", name, size, large)
		}
		t.Logf("%s: %d bytes, to check %d", name, size, large)
	}
}
