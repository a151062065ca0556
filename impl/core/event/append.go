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
	// EventKind is generated for each message that the contract calls an event.
	EventKind() (eventType, aggregate string)
}

// Event is something that happened to one object.
type Event struct {
	InstanceID string // "" for the system
	ObjectID   string
	Payload    Payload
	Owner      *object.Owner
	Cause
}

// Type returns the name of the payload's event.
func Type(payload Payload) string { return kindOf(payload).eventType }

// Aggregate returns the kind of object that the payload's event belongs to.
func Aggregate(payload Payload) string { return kindOf(payload).aggregate }

// JSON returns the payload as it is stored.
func JSON(payload Payload) json.RawMessage { return payload.AppendJSON(nil) }

// Append appends e within tx and returns its sequence.
func Append(ctx context.Context, tx db.DBTX, e Event) (int64, error) {
	kind := kindOf(e.Payload)
	sequence, err := db.New().AppendEvent(ctx, tx, db.AppendEventParams{
		InstanceID:    e.InstanceID,
		AggregateType: kind.aggregate,
		AggregateID:   e.ObjectID,
		EventType:     kind.eventType,
		Payload:       JSON(e.Payload),
		Creator:       e.Creator,
		OwnerType:     int16(e.Owner.GetType()),
		OwnerID:       e.Owner.GetId(),
		Now:           e.At,
		ClientAddress: e.ClientAddress,
		Traceparent:   e.Traceparent,
	})
	if err != nil {
		return 0, fmt.Errorf("append %s: %w", kind.eventType, err)
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
			InstanceID: e.InstanceID, AggregateType: kind.aggregate, AggregateID: e.ObjectID, EventType: kind.eventType, Payload: string(JSON(e.Payload)),
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
		e.InstanceID, kind.aggregate, e.ObjectID, kind.eventType, JSON(e.Payload), int16(e.Owner.GetType()), e.Owner.GetId(), e.Cause,
	}
}

// kind is an event's type, and that of the object it is about.
type kind struct{ eventType, aggregate string }

func kindOf(payload Payload) kind {
	eventType, aggregate := payload.EventKind()
	return kind{eventType, aggregate}
}
