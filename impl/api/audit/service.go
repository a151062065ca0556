// Package audit answers what happened: it searches the events of an instance, and lets
// clients follow them without missing one.
//
// Service implements contracts/proto/writ/event/v3alpha. It writes nothing; events are
// appended by who causes them (package event).
package audit

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	eventv3 "github.com/writ-id/writ/gen/proto/writ/event/v3alpha"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// Service implements the events API. It is safe for concurrent use.
type Service struct {
	eventv3.UnsafeServiceEventsServer

	resource.Env
	queries *db.Queries
}

var _ eventv3.ServiceEventsServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service { return &Service{Env: env, queries: db.New()} }

// SearchEvents finds the events that meet all filters, or those after another one.
func (s *Service) SearchEvents(ctx context.Context, req *eventv3.SearchEventsRequest) (*eventv3.SearchEventsResponse, error) {
	call := policy.CallFrom(ctx)
	f := newFilter(call, req.GetFilters())
	limit := int64(req.GetQuery().GetLimit())
	if limit == 0 {
		limit = int64(call.SearchLimits.OrDefault().Default)
	}
	if err := s.DB.Searches.Enter(ctx, call.Context.InstanceID); err != nil {
		return nil, err
	}
	defer s.DB.Searches.Leave(call.Context.InstanceID)
	newest, err := s.newest(ctx, call.Context.InstanceID)
	if err != nil {
		return nil, err
	}
	var found []db.Event
	var details *eventv3.EventListDetails
	if req.After == nil {
		found, details, err = s.page(ctx, f, req.GetQuery(), newest.Below, limit)
	} else {
		found, details, err = s.follow(ctx, f, clamp(req.GetAfter()), newest.Below, limit)
	}
	if err != nil {
		return nil, err
	}
	details.AppliedLimit, details.ProcessedSequence, details.InstanceId = uint32(limit), uint64(newest.Sequence), call.Context.InstanceID
	return &eventv3.SearchEventsResponse{Details: details, Result: resource.All(found, show)}, nil
}

// newest returns the newest event of an instance, and where those end that nothing can come
// before any more.
func (s *Service) newest(ctx context.Context, instanceID string) (newest db.EndOfEventsRow, err error) {
	for again := true; ; again = false {
		newest, err = s.queries.EndOfEvents(ctx, s.DB.SearchConn(), instanceID)
		if store.NoRow(err) {
			return newest, nil
		}
		if err != nil || !newest.IsComing || !again {
			return newest, err
		}
		if err := s.queries.PassTransaction(ctx, s.DB.SearchConn()); err != nil {
			return newest, err
		}
	}
}

// show returns an event as it is answered.
func show(e *db.Event) *eventv3.GetEvent {
	return &eventv3.GetEvent{
		Sequence: uint64(e.Sequence), Type: e.EventType, AggregateType: e.AggregateType, AggregateId: e.AggregateID,
		Payload: resource.Struct(e.Payload), Creator: e.Creator,
		ResourceOwner: &object.Owner{Type: object.OwnerType(e.OwnerType), Id: e.OwnerID},
		CreationDate:  timestamppb.New(e.CreatedAt), ClientAddress: e.ClientAddress, Traceparent: e.Traceparent,
	}
}
