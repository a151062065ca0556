package event

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/wire"
)

// Payload is a message of the catalogue.
type Payload interface {
	proto.Message
	wire.Appender
}

// Event is something that happened to one object.
type Event struct {
	InstanceID string // "" for the system
	ObjectID   string
	Payload    Payload
	Owner      *object.Owner
	Cause
}

// Type returns the name of the payload's event. It panics if the contract does
// not call the message an event: a defect no input can cause.
func Type(payload Payload) string { return kindOf(payload).GetType() }

// Aggregate returns the kind of object that the payload's event belongs to.
func Aggregate(payload Payload) string { return kindOf(payload).GetAggregate() }

// JSON returns the payload as it is stored.
func JSON(payload Payload) json.RawMessage { return payload.AppendJSON(nil) }

// Append appends e within tx and returns its sequence.
func Append(ctx context.Context, tx db.DBTX, e Event) (int64, error) {
	kind := kindOf(e.Payload)
	sequence, err := db.New().AppendEvent(ctx, tx, db.AppendEventParams{
		InstanceID:    e.InstanceID,
		AggregateType: kind.GetAggregate(),
		AggregateID:   e.ObjectID,
		EventType:     kind.GetType(),
		Payload:       JSON(e.Payload),
		Creator:       e.Creator,
		OwnerType:     int16(e.Owner.GetType()),
		OwnerID:       e.Owner.GetId(),
		Now:           e.At,
		ClientAddress: e.ClientAddress,
		Traceparent:   e.Traceparent,
	})
	if err != nil {
		return 0, fmt.Errorf("append %s: %w", kind.GetType(), err)
	}
	return sequence, nil
}

// AppendAll adds events of several requests in one statement; their sequences have their
// order.
func AppendAll(ctx context.Context, tx db.DBTX, events []Event) error {
	var p db.AppendEventsParams
	p.Grow(len(events))
	for _, e := range events {
		kind := kindOf(e.Payload)
		p.Add(db.AppendEventsEntry{
			InstanceID: e.InstanceID, AggregateType: kind.GetAggregate(), AggregateID: e.ObjectID, EventType: kind.GetType(), Payload: string(JSON(e.Payload)),
			Creator: e.Creator, OwnerType: int16(e.Owner.GetType()), OwnerID: e.Owner.GetId(), CreatedAt: e.At, ClientAddress: e.ClientAddress, Traceparent: e.Traceparent,
		})
	}
	if err := db.New().AppendEvents(ctx, tx, p); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	return nil
}

// Deletes says why rows are deleted in tx, for the events that triggers append of what goes
// along (sql/migrations/*_removals.sql), which take no argument.
func Deletes(ctx context.Context, tx db.DBTX, why Cause) error {
	return db.New().SetActor(ctx, tx, db.SetActorParams{
		Actor: why.Creator, Now: why.At.Format(time.RFC3339Nano), ClientAddress: why.ClientAddress, Traceparent: why.Traceparent,
	})
}

// Record is an event as append_event takes it, for statements that append it while they
// change what it tells of.
type Record struct {
	InstanceID, AggregateType, AggregateID, EventType string

	Payload   json.RawMessage
	OwnerType int16
	OwnerID   string
	Cause
}

// Record returns e as it is stored.
func (e *Event) Record() Record {
	kind := kindOf(e.Payload)
	return Record{
		e.InstanceID, kind.GetAggregate(), e.ObjectID, kind.GetType(), JSON(e.Payload), int16(e.Owner.GetType()), e.Owner.GetId(), e.Cause,
	}
}

func kindOf(payload Payload) interface {
	GetType() string
	GetAggregate() string
} {
	kind, ok := Known.kinds[payload.ProtoReflect().Descriptor().FullName()]
	if !ok {
		panic(fmt.Sprintf("event: %T is not an event of the contract", payload))
	}
	return kind
}
