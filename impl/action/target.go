package action

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/event"
	"github.com/writ-id/writ/impl/fault"
	"github.com/writ-id/writ/impl/policy"
	"github.com/writ-id/writ/impl/resource"
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
	call, id, now := policy.CallFrom(ctx), s.NewID(), s.Now()
	t := rowOf(req.GetTarget())
	added := &eventv1.TargetAdded{
		Name: t.Name, TargetType: t.TargetType, Url: t.Url, Timeout: req.GetTarget().GetTimeout(),
		IsAsync: t.IsAsync, InterruptOnError: t.InterruptOnError,
	}
	sequence, err := s.queries.CreateTarget(ctx, s.DB.Pool, db.CreateTargetParams{
		InstanceID: call.Context.InstanceID, ID: id,
		Name: t.Name, NameFolded: t.NameFolded, TargetType: t.TargetType, Url: t.Url, TimeoutNanos: t.TimeoutNanos,
		IsAsync: t.IsAsync, InterruptOnError: t.InterruptOnError,
		EventType: event.Type(added), Payload: event.JSON(added), Creator: call.Caller.UserID, Now: now,
	})
	if err != nil {
		return nil, refuseTakenName(err, t.Name)
	}
	return &actionv3.CreateTargetResponse{Details: resource.Details(id, sequence, now, call.Context.Owner())}, nil
}

// PatchTarget changes the fields that are present. When nothing changes nothing
// is written, and the details are those of the last change.
func (s *Service) PatchTarget(ctx context.Context, req *actionv3.PatchTargetRequest) (*actionv3.PatchTargetResponse, error) {
	call, now := policy.CallFrom(ctx), s.Now()
	var t db.Target
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if t, err = s.lockTarget(ctx, tx, call, req.GetId()); err != nil {
			return err
		}
		changed := applyPatch(&t, req.GetTarget())
		if proto.Size(changed) == 0 {
			return nil
		}
		t.ChangeDate = now
		if t.Sequence, err = s.append(ctx, tx, t.ID, changed, now); err != nil {
			return err
		}
		return s.queries.UpdateTarget(ctx, tx, db.UpdateTargetParams{
			InstanceID: t.InstanceID, ID: t.ID,
			Name: t.Name, NameFolded: t.NameFolded, TargetType: t.TargetType, Url: t.Url, TimeoutNanos: t.TimeoutNanos,
			IsAsync: t.IsAsync, InterruptOnError: t.InterruptOnError, Sequence: t.Sequence, ChangeDate: t.ChangeDate,
		})
	})
	if err != nil {
		return nil, refuseTakenName(err, req.GetTarget().GetName())
	}
	return &actionv3.PatchTargetResponse{Details: resource.Details(t.ID, t.Sequence, t.ChangeDate, call.Context.Owner())}, nil
}

// DeleteTarget deletes a target and takes it out of every execution.
func (s *Service) DeleteTarget(ctx context.Context, req *actionv3.DeleteTargetRequest) (*actionv3.DeleteTargetResponse, error) {
	call, now := policy.CallFrom(ctx), s.Now()
	instanceID := call.Context.InstanceID
	var sequence int64
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := s.lockTarget(ctx, tx, call, req.GetId()); err != nil {
			return err
		}
		calling, err := s.queries.ExecutionsOfTarget(ctx, tx, db.ExecutionsOfTargetParams{InstanceID: instanceID, TargetID: req.GetId()})
		if err != nil {
			return err
		}
		if _, err := s.queries.LockExecutions(ctx, tx, db.LockExecutionsParams{InstanceID: instanceID, Ids: calling}); err != nil {
			return err
		}
		if err := s.queries.RemoveTargetFromExecutions(ctx, tx, db.RemoveTargetFromExecutionsParams{InstanceID: instanceID, TargetID: req.GetId()}); err != nil {
			return err
		}
		if err := s.recordExecutions(ctx, tx, calling, now); err != nil {
			return err
		}
		if sequence, err = s.append(ctx, tx, req.GetId(), &eventv1.TargetRemoved{}, now); err != nil {
			return err
		}
		return s.queries.DeleteTarget(ctx, tx, db.DeleteTargetParams{InstanceID: instanceID, ID: req.GetId()})
	})
	if err != nil {
		return nil, err
	}
	return &actionv3.DeleteTargetResponse{Details: resource.Details(req.GetId(), sequence, now, call.Context.Owner())}, nil
}

// GetTarget reads one target of the caller's instance.
func (s *Service) GetTarget(ctx context.Context, req *actionv3.GetTargetRequest) (*actionv3.GetTargetResponse, error) {
	call := policy.CallFrom(ctx)
	t, err := s.queries.GetTarget(ctx, s.DB.Pool, db.GetTargetParams{InstanceID: call.Context.InstanceID, ID: req.GetId()})
	if err != nil {
		return nil, refuseMissing(err, "target", req.GetId())
	}
	row := db.SearchTargetsRow{
		ID: t.ID, Name: t.Name, TargetType: t.TargetType, Url: t.Url, TimeoutNanos: t.TimeoutNanos,
		IsAsync: t.IsAsync, InterruptOnError: t.InterruptOnError, Sequence: t.Sequence, ChangeDate: t.ChangeDate,
	}
	return &actionv3.GetTargetResponse{Target: new(answer).set(&row, call.Context.Owner())}, nil
}

// lockTarget reads a target and keeps others from changing it.
func (s *Service) lockTarget(ctx context.Context, tx pgx.Tx, call *policy.Call, id string) (db.Target, error) {
	t, err := s.queries.LockTarget(ctx, tx, db.LockTargetParams{InstanceID: call.Context.InstanceID, ID: id})
	if err != nil {
		return t, refuseMissing(err, "target", id)
	}
	return t, nil
}

// append appends an event of one of the instance's targets or executions.
func (s *Service) append(ctx context.Context, tx pgx.Tx, id string, payload event.Payload, now time.Time) (int64, error) {
	call := policy.CallFrom(ctx)
	return event.Append(ctx, tx, event.Event{
		InstanceID: call.Context.InstanceID, ObjectID: id, Payload: payload,
		Creator: call.Caller.UserID, Owner: call.Context.Owner(), At: now,
	})
}

func refuseTakenName(err error, name string) error {
	if store.Violates(err, "targets_name_key") {
		return fault.New(fault.AlreadyExists, "TARGET_NAME_TAKEN", "a target named %q exists", name).On("target.name")
	}
	return err
}

func refuseMissing(err error, kind, id string) error {
	if store.NoRow(err) {
		return fault.New(fault.NotFound, "NOT_FOUND", "there is no %s %q", kind, id)
	}
	return err
}

// rowOf returns the columns of a target as it was sent.
func rowOf(t *actionv3.Target) db.Target {
	row := db.Target{Name: t.GetName(), NameFolded: resource.Fold(t.GetName()), TimeoutNanos: int64(t.GetTimeout().AsDuration())}
	row.TargetType, row.Url = typeOf(t.GetRestWebhook(), t.GetRestRequestResponse())
	switch execution := t.GetExecutionType().(type) {
	case *actionv3.Target_IsAsync:
		row.IsAsync = &execution.IsAsync
	case *actionv3.Target_InterruptOnError:
		row.InterruptOnError = &execution.InterruptOnError
	}
	return row
}

// applyPatch applies what is present to the columns and returns what changed.
func applyPatch(t *db.Target, patch *actionv3.PatchTarget) *eventv1.TargetChanged {
	changed := &eventv1.TargetChanged{}
	if patch.Name != nil && *patch.Name != t.Name {
		t.Name, t.NameFolded = *patch.Name, resource.Fold(*patch.Name)
		changed.Name = patch.Name
	}
	if kind, url := typeOf(patch.GetRestWebhook(), patch.GetRestRequestResponse()); kind != "" {
		if kind != t.TargetType {
			t.TargetType, changed.TargetType = kind, &kind
		}
		if url != t.Url {
			t.Url, changed.Url = url, &url
		}
	}
	if timeout := patch.GetTimeout(); timeout != nil && int64(timeout.AsDuration()) != t.TimeoutNanos {
		t.TimeoutNanos, changed.Timeout = int64(timeout.AsDuration()), timeout
	}
	switch execution := patch.GetExecutionType().(type) {
	case *actionv3.PatchTarget_IsAsync:
		if t.IsAsync == nil || *t.IsAsync != execution.IsAsync {
			t.IsAsync, t.InterruptOnError, changed.IsAsync = &execution.IsAsync, nil, &execution.IsAsync
		}
	case *actionv3.PatchTarget_InterruptOnError:
		if t.InterruptOnError == nil || *t.InterruptOnError != execution.InterruptOnError {
			t.InterruptOnError, t.IsAsync, changed.InterruptOnError = &execution.InterruptOnError, nil, &execution.InterruptOnError
		}
	}
	return changed
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
func (a *answer) set(t *db.SearchTargetsRow, owner *object.Owner) *actionv3.GetTarget {
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

// SearchTargets finds the targets that meet all filters.
func (s *Service) SearchTargets(ctx context.Context, req *actionv3.SearchTargetsRequest) (*actionv3.SearchTargetsResponse, error) {
	call := policy.CallFrom(ctx)
	var ids []string // nil: any
	var names resource.TextFilters
	for _, filter := range req.GetFilters() {
		switch f := filter.GetFilter().(type) {
		case *actionv3.TargetSearchFilter_Name:
			names.Add(f.Name.GetName(), f.Name.GetMethod())
		case *actionv3.TargetSearchFilter_InIds:
			ids = resource.Intersect(ids, f.InIds.GetIds())
		}
	}
	rows, details, err := resource.Search(ctx, s.DB, call.Context.InstanceID, req.GetQuery(),
		func(ctx context.Context, tx db.DBTX, page resource.Page) ([]db.SearchTargetsRow, error) {
			return s.queries.SearchTargets(ctx, tx, db.SearchTargetsParams{
				InstanceID: call.Context.InstanceID, Unfiltered: len(req.GetFilters()) == 0,
				Ids: ids, NameLike: names.Like, FoldedLike: names.Folded,
				MoreNameLikes: resource.NotNull(names.MoreLikes), MoreFoldedLikes: resource.NotNull(names.MoreFoldeds),
				Sorting: sortingColumns[req.GetSortingColumn()], Ascending: page.Asc,
				PageLimit: page.Limit, PageOffset: page.Offset,
			})
		}, func(row *db.SearchTargetsRow) int64 { return row.Total })
	if err != nil {
		return nil, err
	}
	found, answers := make([]*actionv3.GetTarget, len(rows)), make([]answer, len(rows))
	owner := call.Context.Owner()
	for i := range rows {
		found[i] = answers[i].set(&rows[i], owner)
	}
	return &actionv3.SearchTargetsResponse{Details: details, SortingColumn: req.GetSortingColumn(), Result: found}, nil
}

// sortingColumns are the sort keys of the query SearchTargets; by ID alone is
// its tie-break alone.
var sortingColumns = map[actionv3.TargetFieldName]string{
	actionv3.TargetFieldName_TARGET_FIELD_NAME_UNSPECIFIED:        "creation_date",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_ID:                 "id",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_CREATION_DATE:      "creation_date",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_CHANGE_DATE:        "change_date",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_NAME:               "name",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_TARGET_TYPE:        "target_type",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_URL:                "url",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_TIMEOUT:            "timeout",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_ASYNC:              "async",
	actionv3.TargetFieldName_TARGET_FIELD_NAME_INTERRUPT_ON_ERROR: "interrupt_on_error",
}
