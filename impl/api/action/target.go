package action

import (
	"context"
	"time"

	"github.com/writ-id/writ/gen/storage"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/store"
)

// CreateTarget registers an endpoint in the caller's instance, with a key of its own. It
// refuses a name that is taken.
func (s *Service) CreateTarget(ctx context.Context, req *actionv3.CreateTargetRequest) (*actionv3.CreateTargetResponse, error) {
	t := &db.Target{InstanceID: policy.CallFrom(ctx).Context.InstanceID, ID: s.NewID()}
	storage.AssignTarget(t, req.GetTarget())
	key, err := s.newKey(t)
	if err != nil {
		return nil, err
	}
	details, err := s.targets.Create(ctx, t, &eventv1.TargetAdded{})
	return &actionv3.CreateTargetResponse{Details: details, SigningKey: key}, err
}

// PatchTarget changes the fields that are present.
func (s *Service) PatchTarget(ctx context.Context, req *actionv3.PatchTargetRequest) (*actionv3.PatchTargetResponse, error) {
	details, err := s.targets.Change(ctx, req.GetId(), &eventv1.TargetChanged{}, func(_ pgx.Tx, t *db.Target) error {
		storage.AssignPatchTarget(t, req.GetTarget())
		return nil
	})
	return &actionv3.PatchTargetResponse{Details: details}, err
}

// DeleteTarget deletes a target and takes it out of every execution.
func (s *Service) DeleteTarget(ctx context.Context, req *actionv3.DeleteTargetRequest) (*actionv3.DeleteTargetResponse, error) {
	details, err := s.targets.Delete(ctx, req.GetId(), &eventv1.TargetRemoved{}, func(tx pgx.Tx, t *db.Target) error {
		calling, err := s.queries.ExecutionsOfTarget(ctx, tx, db.ExecutionsOfTargetParams{InstanceID: t.InstanceID, TargetID: t.ID})
		if err != nil {
			return err
		}
		if _, err := s.queries.LockExecutions(ctx, tx, db.LockExecutionsParams{InstanceID: t.InstanceID, Ids: calling}); err != nil {
			return err
		}
		if err := s.queries.RemoveTargetFromExecutions(ctx, tx, db.RemoveTargetFromExecutionsParams{InstanceID: t.InstanceID, TargetID: t.ID}); err != nil {
			return err
		}
		return s.recordExecutions(ctx, tx, calling, t.ChangeDate)
	})
	return &actionv3.DeleteTargetResponse{Details: details}, err
}

// GetTarget reads one target of the caller's instance.
func (s *Service) GetTarget(ctx context.Context, req *actionv3.GetTargetRequest) (*actionv3.GetTargetResponse, error) {
	t, err := s.targets.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &actionv3.GetTargetResponse{Target: storage.NewGetTarget(t)}, nil
}

// SearchTargets finds the targets that meet all filters.
func (s *Service) SearchTargets(ctx context.Context, req *actionv3.SearchTargetsRequest) (*actionv3.SearchTargetsResponse, error) {
	rows, details, err := storage.SearchTargets(ctx, s.targets, req)
	return &actionv3.SearchTargetsResponse{
		Details: details, SortingColumn: req.GetSortingColumn(), Result: resource.All(rows, storage.NewGetTarget),
	}, err
}

// append appends an event of one of the instance's executions.
func (s *Service) append(ctx context.Context, tx pgx.Tx, id string, payload event.Payload, now time.Time) (int64, error) {
	call := policy.CallFrom(ctx)
	return event.Append(ctx, tx, event.Event{
		InstanceID: call.Context.InstanceID, ObjectID: id, Payload: payload,
		Owner: call.Context.Owner(), Cause: policy.CauseOf(ctx, now),
	})
}

func refuseMissing(err error, kind, id string) error {
	if store.NoRow(err) {
		return fault.New(fault.NotFound, "NOT_FOUND", "there is no %s %q", kind, id)
	}
	return err
}
