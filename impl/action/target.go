package action

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/store"
)

// The target types as they are stored and as they sort.
const (
	webhook         = "rest_webhook"
	requestResponse = "rest_request_response"
)

// CreateTarget registers an endpoint in the caller's instance. It refuses a
// name that is taken.
func (s *Service) CreateTarget(ctx context.Context, req *actionv3.CreateTargetRequest) (*actionv3.CreateTargetResponse, error) {
	t := &db.Target{}
	s.targets.Assign(t, req.GetTarget())
	t.TargetType, t.Url = typeOf(req.GetTarget().GetRestWebhook(), req.GetTarget().GetRestRequestResponse())
	details, err := s.targets.Create(ctx, t, &eventv1.TargetAdded{})
	return &actionv3.CreateTargetResponse{Details: details}, err
}

// PatchTarget changes the fields that are present.
func (s *Service) PatchTarget(ctx context.Context, req *actionv3.PatchTargetRequest) (*actionv3.PatchTargetResponse, error) {
	patch := req.GetTarget()
	details, err := s.targets.Change(ctx, req.GetId(), &eventv1.TargetChanged{}, func(_ pgx.Tx, t *db.Target) error {
		if patch.GetExecutionType() != nil { // one of the two replaces the other
			t.IsAsync, t.InterruptOnError = nil, nil
		}
		s.targets.Assign(t, patch)
		if kind, url := typeOf(patch.GetRestWebhook(), patch.GetRestRequestResponse()); kind != "" {
			t.TargetType, t.Url = kind, url
		}
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
	return &actionv3.GetTargetResponse{Target: new(answer).set(t, policy.CallFrom(ctx).Context.Owner())}, nil
}

// SearchTargets finds the targets that meet all filters.
func (s *Service) SearchTargets(ctx context.Context, req *actionv3.SearchTargetsRequest) (*actionv3.SearchTargetsResponse, error) {
	rows, details, err := s.targets.Search(ctx, req)
	if err != nil {
		return nil, err
	}
	found, answers := make([]*actionv3.GetTarget, len(rows)), make([]answer, len(rows))
	owner := policy.CallFrom(ctx).Context.Owner()
	for i := range rows {
		found[i] = answers[i].set(&rows[i], owner)
	}
	return &actionv3.SearchTargetsResponse{Details: details, SortingColumn: req.GetSortingColumn(), Result: found}, nil
}

// append appends an event of one of the instance's executions.
func (s *Service) append(ctx context.Context, tx pgx.Tx, id string, payload event.Payload, now time.Time) (int64, error) {
	call := policy.CallFrom(ctx)
	return event.Append(ctx, tx, event.Event{
		InstanceID: call.Context.InstanceID, ObjectID: id, Payload: payload,
		Creator: call.Caller.UserID, Owner: call.Context.Owner(), At: now,
	})
}

func refuseMissing(err error, kind, id string) error {
	if store.NoRow(err) {
		return fault.New(fault.NotFound, "NOT_FOUND", "there is no %s %q", kind, id)
	}
	return err
}

// typeOf returns the type and URL of the member that is set; "" for none.
func typeOf(hook *actionv3.RestWebhook, call *actionv3.RestRequestResponse) (kind, url string) {
	switch {
	case hook != nil:
		return webhook, hook.GetUrl()
	case call != nil:
		return requestResponse, call.GetUrl()
	}
	return "", ""
}

// answer is everything GetTarget is made of, in one allocation: a search makes a
// thousand of them.
type answer struct {
	get        actionv3.GetTarget
	details    object.Details
	changeDate timestamppb.Timestamp
	target     actionv3.Target
	timeout    durationpb.Duration
	hook       actionv3.Target_RestWebhook
	hookURL    actionv3.RestWebhook
	call       actionv3.Target_RestRequestResponse
	callURL    actionv3.RestRequestResponse
	async      actionv3.Target_IsAsync
	interrupt  actionv3.Target_InterruptOnError
}

// set makes a the answer for a row, and returns it.
func (a *answer) set(t *db.Target, owner *object.Owner) *actionv3.GetTarget {
	a.changeDate.Seconds, a.changeDate.Nanos = t.ChangeDate.Unix(), int32(t.ChangeDate.Nanosecond())
	a.details.Id, a.details.Sequence, a.details.ChangeDate, a.details.ResourceOwner = t.ID, uint64(t.Sequence), &a.changeDate, owner
	a.timeout.Seconds, a.timeout.Nanos = t.TimeoutNanos/1e9, int32(t.TimeoutNanos%1e9)
	a.target.Name, a.target.Timeout = t.Name, &a.timeout
	if t.TargetType == webhook {
		a.hookURL.Url, a.hook.RestWebhook, a.target.TargetType = t.Url, &a.hookURL, &a.hook
	} else {
		a.callURL.Url, a.call.RestRequestResponse, a.target.TargetType = t.Url, &a.callURL, &a.call
	}
	switch {
	case t.IsAsync != nil:
		a.async.IsAsync, a.target.ExecutionType = *t.IsAsync, &a.async
	case t.InterruptOnError != nil:
		a.interrupt.InterruptOnError, a.target.ExecutionType = *t.InterruptOnError, &a.interrupt
	}
	a.get.Details, a.get.Target = &a.details, &a.target
	return &a.get
}
