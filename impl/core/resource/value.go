package resource

import (
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// What the generated code of package storage moves values between messages and rows with.

// Text returns a column of text, "" for NULL.
func Text(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}

// Copied returns another pointer to the same value.
func Copied[T any](value *T) *T {
	if value == nil {
		return nil
	}
	copied := *value
	return &copied
}

// Same compares columns that may be NULL.
func Same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// SameTime is Same for times.
func SameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// SameJSON compares what two texts mean: PostgreSQL and we write the same JSON differently.
func SameJSON(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	left, right := canonical(a), canonical(b)
	return left != nil && string(left) == string(right)
}

// canonical writes JSON in the one order and spacing that Go has.
func canonical(text json.RawMessage) []byte {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return nil
	}
	made, _ := json.Marshal(value) // of what was JSON
	return made
}

// NotNull returns list as an array parameter that is empty rather than NULL.
func NotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Numbers turns enumerations into the numbers they are stored as, and back.
func Numbers[To, From ~int16 | ~int32](list []From) []To {
	made := make([]To, len(list))
	for i, one := range list {
		made[i] = To(one)
	}
	return made
}

// JSON returns an object as it is stored.
func JSON(object *structpb.Struct) json.RawMessage {
	text, _ := protojson.Marshal(object) // of a message that was decoded
	return text
}

// Struct returns a stored object; nil for none.
func Struct(text json.RawMessage) *structpb.Struct {
	object := &structpb.Struct{}
	if len(text) == 0 || protojson.Unmarshal(text, object) != nil {
		return nil
	}
	return object
}

// Duration makes in, or a new message for nil, a duration.
func Duration(in *durationpb.Duration, nanos int64) *durationpb.Duration {
	if in == nil {
		in = &durationpb.Duration{}
	}
	in.Seconds, in.Nanos = nanos/1e9, int32(nanos%1e9)
	return in
}

// Timestamp makes in, or a new message for nil, a time.
func Timestamp(in *timestamppb.Timestamp, at time.Time) *timestamppb.Timestamp {
	if in == nil {
		in = &timestamppb.Timestamp{}
	}
	in.Seconds, in.Nanos = at.Unix(), int32(at.Nanosecond())
	return in
}

// DetailsBlock is everything a details record is made of, to be part of an allocation.
type DetailsBlock struct {
	details object.Details
	date    timestamppb.Timestamp
	owner   object.Owner
}

// Set makes b the details of a row.
func (b *DetailsBlock) Set(h Head) *object.Details {
	b.owner.Type, b.owner.Id = h.owner()
	b.details.Id, b.details.Sequence = h.ID, uint64(h.Sequence)
	b.details.ChangeDate, b.details.ResourceOwner = Timestamp(&b.date, h.ChangeDate), &b.owner
	return &b.details
}

// All returns the answers that show rows.
func All[R, M any](rows []R, show func(*R) *M) []*M {
	shown := make([]*M, len(rows))
	for i := range rows {
		shown[i] = show(&rows[i])
	}
	return shown
}
