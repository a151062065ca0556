package server_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	schemav3 "github.com/writ-id/writ/gen/proto/writ/schema/v3alpha"
)

// deepSchema is a CreateUserSchemaRequest in the binary form whose schema nests so deep.
func deepSchema(depth int) []byte {
	// From the inside: a Struct with one member, the Value of which is the Struct before.
	member := func(b []byte, number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
	}
	object := []byte{}
	for range depth {
		value := member(nil, 5, object)                     // struct_value
		object = member(nil, 1, member([]byte{}, 2, value)) // fields, an entry without a key
	}
	schema := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "t")
	return member(nil, 2, member(schema, 2, object))
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

var _ encoding.CodecV2 = rawCodec{}

// TestSEC291_ADeepMessageCostsWhatItSends sends a deeply nested message by each wire: it is
// refused alike, and the whole process allocates no more for it than for one that is as long
// and flat.
func TestSEC291_ADeepMessageCostsWhatItSends(t *testing.T) { //nolint:paralleltest // it counts allocations
	c := newCluster(t, 1)
	if got := c.call(0, "a.example", c.token("a", "owner"), http.MethodPut, features, `{"userSchema":true}`); got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	const method = schemav3.ServiceUserSchemas_CreateUserSchema_FullMethodName
	post := func(contentType string, body []byte) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.nodes[0]+method, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "a.example"
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Authorization", "Bearer "+c.token("a", "owner"))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return string(text) + res.Header.Get("Grpc-Message") + res.Trailer.Get("Grpc-Message")
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(c.nodes[0], "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("a.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wires := map[string]func([]byte) string{
		"Connect": func(message []byte) string { return post("application/proto", message) },
		"gRPC-web": func(message []byte) string {
			return post("application/grpc-web+proto", append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)) //nolint:gosec // it is short
		},
		"gRPC": func(message []byte) string {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.token("a", "owner"))
			err := conn.Invoke(ctx, method, message, &struct{}{}, grpc.ForceCodecV2(rawCodec{}))
			if err == nil {
				return ""
			}
			return err.Error()
		},
	}
	deep := deepSchema(3300)
	flat := protowire.AppendTag(nil, 2, protowire.BytesType)
	flat = protowire.AppendBytes(flat, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strings.Repeat("x", len(deep)-8)))
	for name, send := range wires {
		t.Run(name, func(t *testing.T) {
			cost := func(message []byte, want string) uint64 {
				least := ^uint64(0)
				for range 5 {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					got := send(message)
					runtime.ReadMemStats(&after)
					least = min(least, after.TotalAlloc-before.TotalAlloc)
					if !strings.Contains(got, want) {
						t.Fatalf("got %q, want %s", got, want)
					}
				}
				return least
			}
			of, control := cost(deep, "nests deeper than 64"), cost(flat, "userSchema.type")
			if of > control+1<<20 {
				t.Errorf("%d bytes that nest make %d, as many that do not %d", len(deep), of, control)
			}
		})
	}
}

// TestSEC291_TheAnswerOfATargetNestsNoDeeper has a target answer what no request may be.
func TestSEC291_TheAnswerOfATargetNestsNoDeeper(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.Must("owner", http.MethodPut, features, `{"userSchema":true}`)
	answer := `{"userSchema":{"type":"t","schema":` + strings.Repeat(`{"a":`, 4000) + "1" + strings.Repeat("}", 4000) + `}}`
	r := w.receiver("deep", interrupting, ok(answer))
	w.on(`{"request":{"method":"`+schemav3.ServiceUserSchemas_CreateUserSchema_FullMethodName+`"}}`, r)
	got := w.Do("owner", http.MethodPost, "/resources/v3alpha/user_schemas", `{"type":"t","schema":{"type":"object"}}`)
	if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "EXECUTION_FAILED") || len(r.calls()) != 1 {
		t.Errorf("got %d %s after %d calls", got.Status, got.Body, len(r.calls()))
	}
}
