package resource

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
)

// A field of a message and a column belong together when the field's path,
// joined by underscores, is the column's name, or what is left of the path after
// its first parts: human.profile.given_name is given_name, human.email.address
// is email_address or address. A duration is the column with _nanos behind it.
// Spec.Fields names the exceptions.

// step is one field of a message in a plan.
type step struct {
	field  protoreflect.FieldDescriptor
	column *column // nil: a message whose fields are the steps below
	below  []step
}

// plans are the plans of messages by name.
type plans struct{ sync.Map }

func (t *Table[R]) plan(message protoreflect.MessageDescriptor) []step {
	if known, ok := t.plans.Load(message.FullName()); ok {
		return known.([]step)
	}
	made := t.steps(message, nil, 0)
	t.plans.Store(message.FullName(), made)
	return made
}

const deepest = 4 // a message within a message within …

func (t *Table[R]) steps(message protoreflect.MessageDescriptor, path []string, depth int) []step {
	var steps []step
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		at := append(append([]string(nil), path...), string(field.Name()))
		c := t.find(at)
		switch {
		case c != nil && !field.IsMap() && c.holds(field):
			steps = append(steps, step{field: field, column: c})
		case field.Message() != nil && !field.IsList() && !field.IsMap() && depth < deepest && field.Message().FullName() != detailsName:
			if below := t.steps(field.Message(), at, depth+1); len(below) > 0 {
				steps = append(steps, step{field: field, below: below})
			}
		case field.Message() != nil && field.Message().FullName() == detailsName && !field.IsList():
			steps = append(steps, step{field: field})
		}
	}
	return steps
}

// holds reports whether a column can be the value of a field: a message with
// fields of its own is not a text, though it may be called like one.
func (c *column) holds(field protoreflect.FieldDescriptor) bool {
	return field.Message() == nil || field.IsList() || c.kind != reflect.String && c.kind != reflect.Bool
}

// find returns the column of a path.
func (t *Table[R]) find(path []string) *column {
	for from := range path {
		name := strings.Join(path[from:], "_")
		for _, spelling := range []string{t.Fields[name], name, name + "_nanos"} {
			if c := t.byName[spelling]; c != nil {
				return c
			}
		}
	}
	return nil
}

var detailsName = (&object.Details{}).ProtoReflect().Descriptor().FullName()

// Assign sets the columns of row to the fields that are set in message. What is
// called like no column, such as a member of a oneof that decides something, is
// the service's business.
func (t *Table[R]) Assign(row *R, message proto.Message) {
	t.assign(reflect.ValueOf(row), message.ProtoReflect(), t.plan(message.ProtoReflect().Descriptor()))
}

func (t *Table[R]) assign(row reflect.Value, message protoreflect.Message, steps []step) {
	for i := range steps {
		s := &steps[i]
		switch {
		case !message.Has(s.field):
		case s.column != nil:
			setColumn(s.column.value(row), s.field, message.Get(s.field))
		case s.below != nil:
			t.assign(row, message.Get(s.field).Message(), s.below)
		}
	}
}

// Into fills message from a row and returns it: details, and every field that
// has a column. A member of a oneof is filled when it is set already.
func Into[R any, M proto.Message](t *Table[R], row *R, message M) M {
	m := message.ProtoReflect()
	t.fill(row, reflect.ValueOf(row), m, t.plan(m.Descriptor()))
	return message
}

// All is Into for the rows of a search.
func All[R any, M proto.Message](t *Table[R], rows []R, message func(*R) M) []M {
	found := make([]M, len(rows))
	for i := range rows {
		found[i] = Into(t, &rows[i], message(&rows[i]))
	}
	return found
}

func (t *Table[R]) fill(row *R, v reflect.Value, message protoreflect.Message, steps []step) {
	for i := range steps {
		s := &steps[i]
		oneof := s.field.ContainingOneof()
		switch {
		case s.column == nil && s.below == nil:
			message.Set(s.field, protoreflect.ValueOfMessage(t.Details(row).ProtoReflect()))
		case s.column != nil:
			if value, ok := getColumn(s.column.value(v), s.field, message); ok {
				message.Set(s.field, value)
			}
		case oneof == nil || oneof.IsSynthetic() || message.Has(s.field):
			t.fill(row, v, message.Mutable(s.field).Message(), s.below)
		}
	}
}

// record fills the payload of an event: all of a new row, of a changed one what
// changed.
func (t *Table[R]) record(payload proto.Message, old, row *R) {
	message := payload.ProtoReflect()
	now := reflect.ValueOf(row)
	for _, s := range t.plan(message.Descriptor()) {
		if s.column == nil || message.Has(s.field) {
			continue
		}
		if old != nil && equal(s.column.value(reflect.ValueOf(old)), s.column.value(now)) {
			continue
		}
		if value, ok := getColumn(s.column.value(now), s.field, message); ok {
			message.Set(s.field, value)
		}
	}
}

// differs reports whether a stored column differs.
func (t *Table[R]) differs(old, row *R) bool {
	before, now := reflect.ValueOf(old), reflect.ValueOf(row)
	for i := range t.columns[:t.stored] {
		if c := &t.columns[i]; !equal(c.value(before), c.value(now)) {
			return true
		}
	}
	return false
}

func equal(a, b reflect.Value) bool {
	if a.Type() == reflect.TypeFor[json.RawMessage]() {
		var x, y any // PostgreSQL and we write the same JSON differently
		_, _ = json.Unmarshal(a.Bytes(), &x), json.Unmarshal(b.Bytes(), &y)
		return reflect.DeepEqual(x, y)
	}
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if at, ok := a.Interface().(time.Time); ok {
		other, same := b.Interface().(time.Time)
		return same && at.Equal(other)
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// setColumn sets a column to the value of a field.
func setColumn(to reflect.Value, field protoreflect.FieldDescriptor, value protoreflect.Value) {
	if field.IsList() {
		list := value.List()
		made := reflect.MakeSlice(to.Type(), list.Len(), list.Len())
		for i := range list.Len() {
			scalar(made.Index(i), field, list.Get(i))
		}
		to.Set(made)
		return
	}
	if field.Message() != nil && to.Kind() == reflect.Slice && to.Type() != reflect.TypeFor[json.RawMessage]() {
		inner := field.Message().Fields().Get(0) // a list that can be present and empty
		setColumn(to, inner, value.Message().Get(inner))
		return
	}
	if to.Kind() == reflect.Pointer {
		made := reflect.New(to.Type().Elem())
		scalar(made.Elem(), field, value)
		to.Set(made)
		return
	}
	scalar(to, field, value)
}

func scalar(to reflect.Value, field protoreflect.FieldDescriptor, value protoreflect.Value) {
	switch field.Kind() {
	case protoreflect.StringKind:
		to.SetString(value.String())
	case protoreflect.BoolKind:
		to.SetBool(value.Bool())
	case protoreflect.BytesKind:
		to.SetBytes(value.Bytes())
	case protoreflect.EnumKind:
		to.SetInt(int64(value.Enum()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		to.SetInt(int64(value.Uint()))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		to.SetInt(value.Int())
	case protoreflect.MessageKind:
		switch m := value.Message().Interface().(type) {
		case *durationpb.Duration:
			to.SetInt(int64(m.AsDuration()))
		case *timestamppb.Timestamp:
			to.Set(reflect.ValueOf(m.AsTime().Truncate(time.Microsecond)))
		default:
			text, _ := protojson.Marshal(m) // of a message that was decoded
			to.SetBytes(text)
		}
	default:
		panic(fmt.Sprintf("resource: %s has a kind that no column holds", field.FullName()))
	}
}

// getColumn returns a column as the value of a field; false for NULL.
func getColumn(from reflect.Value, field protoreflect.FieldDescriptor, in protoreflect.Message) (protoreflect.Value, bool) {
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return protoreflect.Value{}, false
		}
		from = from.Elem()
	}
	if field.IsList() {
		list := in.NewField(field)
		for i := range from.Len() {
			value, _ := getColumn(from.Index(i), item{field}, in)
			list.List().Append(value)
		}
		return list, from.Len() > 0
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(from.String()), true
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(from.Bool()), true
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(from.Bytes()), true
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(from.Int())), true
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(from.Int())), true
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(from.Int())), true
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(from.Int())), true
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(from.Int()), true
	}
	message := in.NewField(field)
	switch m := message.Message().Interface().(type) {
	case *durationpb.Duration:
		proto.Merge(m, durationpb.New(time.Duration(from.Int())))
	case *timestamppb.Timestamp:
		proto.Merge(m, timestamppb.New(from.Interface().(time.Time)))
	default:
		if from.Type() != reflect.TypeFor[json.RawMessage]() && from.Kind() == reflect.Slice {
			inner := message.Message()
			value, ok := getColumn(from, inner.Descriptor().Fields().Get(0), inner)
			if ok {
				inner.Set(inner.Descriptor().Fields().Get(0), value)
			}
			return message, true
		}
		if from.Len() == 0 || protojson.Unmarshal(from.Bytes(), m) != nil {
			return protoreflect.Value{}, false
		}
	}
	return message, true
}

// item is a list field seen as the field of one of its elements.
type item struct{ protoreflect.FieldDescriptor }

func (item) IsList() bool { return false }
