package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/contracts/generate/wire"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/policy"
)

// jsonMarshaler is the gateway's marshaler for application/json: answers by the
// generated AppendJSON, requests strictly by the proto JSON mapping.
type jsonMarshaler struct{}

var _ runtime.Marshaler = jsonMarshaler{}

// ContentType implements runtime.Marshaler.
func (jsonMarshaler) ContentType(any) string { return "application/json" }

// Marshal implements runtime.Marshaler.
func (jsonMarshaler) Marshal(v any) ([]byte, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return json.Marshal(v)
	}
	// Written into a buffer that has grown before, then copied at its size: an
	// answer of 100 items would otherwise grow, and copy, seven times.
	buffer := buffers.Get().(*[]byte)
	*buffer = wire.AppendMessage((*buffer)[:0], message)
	data := bytes.Clone(*buffer)
	if cap(*buffer) <= maxBuffer {
		buffers.Put(buffer)
	}
	return data, nil
}

// maxBuffer keeps one huge answer from being remembered for good.
const maxBuffer = 1 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Unmarshal implements runtime.Marshaler.
func (jsonMarshaler) Unmarshal(data []byte, v any) error { return decode(data, v, "") }

// NewEncoder implements runtime.Marshaler.
func (m jsonMarshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := m.Marshal(v)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
}

// NewDecoder implements runtime.Marshaler. The gateway turns what a decoder
// returns into text, so the refusal is kept with the body for the error handler.
func (jsonMarshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, ok := r.(*requestBody)
		if !ok {
			return errors.New("server: the body was not prepared")
		}
		data, err := io.ReadAll(body.ReadCloser)
		if err == nil {
			err = decode(data, v, body.field)
		}
		if err == nil {
			err = body.refusePath(data)
		}
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			err = policy.TooLarge()
		}
		if err != nil {
			body.refusal = faultOf(err)
		}
		return err
	})
}

// requestBody is the body of a REST request, with what is known of it.
type requestBody struct {
	io.ReadCloser
	field   string                         // the request's field that it is, in JSON spelling; "" for the whole request
	inPath  []protoreflect.FieldDescriptor // the fields of a whole request that are not in it
	refusal *fault.Error                   // why it could not be decoded
}

// refusePath refuses the members of a decoded body that the path decides: the
// gateway would silently prefer the path.
func (b *requestBody) refusePath(data []byte) error {
	if len(b.inPath) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for _, field := range b.inPath {
		for _, name := range []string{field.JSONName(), field.TextName()} {
			if _, there := members[name]; there {
				return fault.Invalid("UNKNOWN_FIELD", name, "there is no such field; it is in the path")
			}
		}
	}
	return nil
}

// decode decodes a body into v: a message, or a pointer to a field that is a
// message or a list of messages.
func decode(data []byte, v any, field string) error {
	into := reflect.ValueOf(v).Elem()
	if into.Kind() == reflect.Slice {
		return decodeList(data, into, field)
	}
	message, ok := v.(proto.Message)
	if !ok {
		into.Set(reflect.New(into.Type().Elem()))
		message = into.Interface().(proto.Message)
	}
	refusal := scanJSON(data)
	if refusal == nil {
		err := protojson.Unmarshal(data, message)
		if err == nil {
			return nil
		}
		return explain(data, message.ProtoReflect().Descriptor(), field, err)
	}
	if refusal.Reason == "NULL_VALUE" { // it can be pinned to a member
		return explain(data, message.ProtoReflect().Descriptor(), field, refusal)
	}
	return refusal
}

// elementOf returns a new element of a list of messages.
func elementOf(list reflect.Value) proto.Message {
	return reflect.New(list.Type().Elem().Elem()).Interface().(proto.Message)
}

func decodeList(data []byte, list reflect.Value, field string) error {
	if refusal := scanJSON(data); refusal != nil {
		if refusal.Reason == "NULL_VALUE" {
			return explainList(data, elementOf(list), field, refusal)
		}
		return refusal
	}
	var raw []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&raw); err != nil || decoder.More() {
		return fault.Invalid("MALFORMED_REQUEST", field, "the body must be one JSON array")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fault.Invalid("MALFORMED_REQUEST", field, "there is something after the JSON array")
	}
	messages := reflect.MakeSlice(list.Type(), 0, len(raw))
	for _, item := range raw {
		message := elementOf(list)
		if err := protojson.Unmarshal(item, message); err != nil {
			return explainList(data, message, field, err)
		}
		messages = reflect.Append(messages, reflect.ValueOf(message))
	}
	list.Set(messages)
	return nil
}
