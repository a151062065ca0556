// Package delivery shows what event executions sent to their targets, and has it sent
// again. Package core/delivery sends.
package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/delivery"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// Service implements the API of deliveries. It is safe for concurrent use.
type Service struct {
	actionv3.UnsafeServiceDeliveriesServer // a new RPC must fail to compile here

	resource.Env
	queries    *db.Queries
	deliveries *resource.Table[db.Delivery, storage.Deliveries]
}

var _ actionv3.ServiceDeliveriesServer = (*Service)(nil)

// New returns a Service over env.
func New(env resource.Env) *Service {
	return &Service{Env: env, queries: db.New(), deliveries: resource.New(env, storage.Deliveries{})}
}

// filters are those that do not compare a column.
type filters struct{}

// ByObject implements storage.SearchDeliveriesFilters.
func (filters) ByObject(w *resource.Where, f *actionv3.DeliveryObjectFilter) {
	w.Equal("t.object_id", f.GetId())
	if f.Type != nil {
		w.Equal("t.object_type", f.GetType())
	}
}

// ByReplayable implements storage.SearchDeliveriesFilters.
func (filters) ByReplayable(w *resource.Where, f *object.BoolFilter) {
	if f.GetValue() {
		w.And("t.state <> 1")
	} else {
		w.And("t.state = 1")
	}
}

// SearchDeliveries finds the deliveries that meet all filters.
func (s *Service) SearchDeliveries(ctx context.Context, req *actionv3.SearchDeliveriesRequest) (*actionv3.SearchDeliveriesResponse, error) {
	rows, details, err := storage.SearchDeliveries(ctx, s.deliveries, req, filters{})
	return &actionv3.SearchDeliveriesResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, storage.NewGetDelivery),
	}, err
}

// GetDelivery reads one with its request and attempts.
func (s *Service) GetDelivery(ctx context.Context, req *actionv3.GetDeliveryRequest) (*actionv3.GetDeliveryResponse, error) {
	row, err := s.deliveries.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	attempts, err := s.queries.AttemptsOfDelivery(ctx, s.DB.Conn(), db.AttemptsOfDeliveryParams{InstanceID: row.InstanceID, Delivery: row.ID})
	if err != nil {
		return nil, err
	}
	sent := &actionv3.DeliveryRequest{Body: row.Body}
	res := &actionv3.GetDeliveryResponse{Delivery: storage.NewGetDelivery(row), Request: sent}
	for _, a := range attempts {
		sent.Headers = nil
		if err := json.Unmarshal(a.Headers, &sent.Headers); err != nil {
			return nil, fmt.Errorf("delivery %s: %w", row.ID, err)
		}
		res.Attempts = append(res.Attempts, &actionv3.DeliveryAttempt{
			Number: uint32(a.Number), Date: timestamppb.New(a.Date), Duration: durationpb.New(time.Duration(a.TookNanos)),
			Status: uint32(a.Status), Answer: a.Answer, Error: a.Error,
		})
	}
	return res, nil
}

// ReplayDelivery has a delivery sent again.
func (s *Service) ReplayDelivery(ctx context.Context, req *actionv3.ReplayDeliveryRequest) (*actionv3.ReplayDeliveryResponse, error) {
	row, err := s.deliveries.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	lane := delivery.Lane{InstanceID: row.InstanceID, Target: row.Target, ObjectType: row.ObjectType, ObjectID: row.ObjectID}
	var details *object.Details
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		now := s.Now()
		if err := s.holdTargets(ctx, tx, map[delivery.Key]bool{{InstanceID: row.InstanceID, Target: row.Target}: true}, now); err != nil {
			return err
		}
		free, err := s.free(ctx, tx, []delivery.Lane{lane})
		if err != nil {
			return err
		}
		row, err := s.deliveries.Lock(ctx, tx, row.ID)
		if err != nil {
			return err
		}
		if row.State == actionv3.DeliveryState_DELIVERY_STATE_PENDING {
			return fault.New(fault.FailedPrecondition, "DELIVERY_PENDING", "the delivery %q is still to be sent", row.ID)
		}
		old := *row
		if row.Follows != nil {
			if row.IsHeld, err = s.queries.IsToBeSent(ctx, tx, db.IsToBeSentParams{InstanceID: row.InstanceID, ID: *row.Follows}); err != nil {
				return err
			}
		}
		row.NextAttempt = nil
		if !row.IsHeld && row.State == actionv3.DeliveryState_DELIVERY_STATE_FAILED {
			row.NextAttempt = &now
		}
		row.State, row.DeadReason = actionv3.DeliveryState_DELIVERY_STATE_PENDING, actionv3.DeadReason_DEAD_REASON_UNSPECIFIED
		row.Attempts, row.QueuedDate = 0, now
		_, err = s.deliveries.Save(ctx, tx, &old, row, &eventv1.DeliveryReplayed{})
		details = s.deliveries.Details(row)
		if err != nil {
			return err
		}
		if err := release(ctx, tx, free, now); err != nil {
			return err
		}
		return s.queries.NotifyDeliveries(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return &actionv3.ReplayDeliveryResponse{Details: details}, nil
}

// mostReplayed is how many deliveries one call has sent again.
const mostReplayed = 10_000

// ReplayDeliveries has those sent again that meet all filters, in one transaction.
func (s *Service) ReplayDeliveries(ctx context.Context, req *actionv3.ReplayDeliveriesRequest) (*actionv3.ReplayDeliveriesResponse, error) {
	find := &actionv3.SearchDeliveriesRequest{
		Query: &object.ListQuery{Limit: 1, Asc: true},
		Filters: append(slices.Clone(req.GetFilters()), &actionv3.DeliverySearchFilter{
			Filter: &actionv3.DeliverySearchFilter_Replayable{Replayable: &object.BoolFilter{Value: true}},
		}),
	}
	_, details, err := storage.SearchDeliveries(ctx, s.deliveries, find, filters{})
	if err != nil || req.GetDryRun() || details.GetTotalResult() == 0 {
		return &actionv3.ReplayDeliveriesResponse{Count: details.GetTotalResult()}, err
	}
	if details.GetTotalResult() > mostReplayed {
		return nil, fault.New(fault.FailedPrecondition, "TOO_MANY_DELIVERIES", "%d deliveries meet these filters; replay at most %d at a time", details.GetTotalResult(), mostReplayed)
	}
	find.Query.Limit = mostReplayed
	rows, _, err := storage.SearchDeliveries(ctx, s.deliveries, find, filters{})
	if err != nil {
		return nil, err
	}
	call, now := policy.CallFrom(ctx), s.Now()
	var ids []string
	var lanes []delivery.Lane
	seen, queues := map[delivery.Lane]bool{}, map[delivery.Key]bool{}
	for i := range rows {
		row := &rows[i]
		ids = append(ids, row.ID)
		queues[delivery.Key{InstanceID: row.InstanceID, Target: row.Target}] = true
		if lane := (delivery.Lane{InstanceID: row.InstanceID, Target: row.Target, ObjectType: row.ObjectType, ObjectID: row.ObjectID}); !seen[lane] {
			seen[lane] = true
			lanes = append(lanes, lane)
		}
	}
	var count int64
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if err := s.holdTargets(ctx, tx, queues, now); err != nil {
			return err
		}
		free, err := s.free(ctx, tx, lanes)
		if err != nil {
			return err
		}
		if count, err = s.queries.ReplayDeliveries(ctx, tx, db.ReplayDeliveriesParams{Now: now, InstanceID: call.Context.InstanceID, Ids: ids}); err != nil {
			return err
		}
		if err := release(ctx, tx, free, now); err != nil {
			return err
		}
		if _, err := event.Append(ctx, tx, event.Event{
			InstanceID: call.Context.InstanceID, ObjectID: call.Context.InstanceID, Payload: &eventv1.DeliveriesReplayed{Count: uint64(count)},
			Owner: call.Context.Owner(), Cause: policy.CauseOf(ctx, now),
		}); err != nil {
			return err
		}
		return s.queries.NotifyDeliveries(ctx, tx)
	})
	return &actionv3.ReplayDeliveriesResponse{Count: uint64(count)}, err
}

// holdTargets locks queues and makes them due. It refuses targets that are gone.
func (s *Service) holdTargets(ctx context.Context, tx pgx.Tx, queues map[delivery.Key]bool, now time.Time) error {
	instanceID := policy.CallFrom(ctx).Context.InstanceID
	var targets []string
	for key := range queues {
		targets = append(targets, key.Target)
	}
	existing, err := s.queries.ExistingTargets(ctx, tx, db.ExistingTargetsParams{InstanceID: instanceID, Ids: targets})
	if err != nil {
		return err
	}
	for _, target := range targets {
		if !slices.Contains(existing, target) {
			return fault.New(fault.FailedPrecondition, "TARGET_DELETED", "the target %q is deleted", target)
		}
	}
	return delivery.AddToQueues(ctx, tx, now, queues)
}

// release makes the oldest due that is to be sent in lanes where nothing was.
func release(ctx context.Context, tx pgx.Tx, free []delivery.Lane, now time.Time) error {
	var due delivery.Lanes
	for _, lane := range free {
		due.Add(lane)
	}
	return due.Release(ctx, tx, now)
}

// free returns the lanes in which nothing is still to be sent but what is held.
func (s *Service) free(ctx context.Context, tx pgx.Tx, lanes []delivery.Lane) ([]delivery.Lane, error) {
	var p db.FreeLanesParams
	for i, lane := range lanes {
		p.Add(db.FreeLanesEntry{InstanceID: lane.InstanceID, Target: lane.Target, ObjectType: lane.ObjectType, ObjectID: lane.ObjectID, Nr: int32(i)})
	}
	nrs, err := s.queries.FreeLanes(ctx, tx, p)
	free := make([]delivery.Lane, 0, len(nrs))
	for _, nr := range nrs {
		free = append(free, lanes[nr])
	}
	return free, err
}
