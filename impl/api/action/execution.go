package action

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	actionv3 "github.com/writ-id/writ/gen/proto/writ/action/v3alpha"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
)

// PutExecution creates the execution of a condition or replaces its targets and
// includes; it answers 201 or 200. When nothing changes nothing is written.
func (s *Service) PutExecution(ctx context.Context, req *actionv3.PutExecutionRequest) (*actionv3.PutExecutionResponse, error) {
	call, now := policy.CallFrom(ctx), s.Now()
	instanceID, execution := call.Context.InstanceID, req.GetExecution()
	if err := s.checkExists("execution.condition", execution.GetCondition()); err != nil {
		return nil, err
	}
	id := executionID(execution.GetCondition())
	targets, includes := execution.GetTargets(), execution.GetIncludes()
	var put db.PutExecutionRow
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if err := s.checkTargets(ctx, tx, targets); err != nil {
			return err
		}
		if err := s.checkIncludes(ctx, tx, id, targets, includes); err != nil {
			return err
		}
		put, err = s.queries.PutExecution(ctx, tx, db.PutExecutionParams{
			InstanceID: instanceID, ID: id, ConditionType: typeOfExecution(id), Now: now,
		})
		if err != nil {
			return err
		}
		if !put.Created {
			old, err := s.queries.ExecutionElements(ctx, tx, db.ExecutionElementsParams{InstanceID: instanceID, ID: id})
			if err != nil || slices.Equal(old.Targets, targets) && slices.Equal(old.Includes, includes) {
				return err
			}
		}
		if err := s.replaceElements(ctx, tx, id, targets, includes); err != nil {
			return err
		}
		put.ChangeDate = now
		put.Sequence, err = s.recordExecution(ctx, tx, id, &eventv1.ExecutionSet{Targets: targets, Includes: includes}, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Invalidate() // so that it runs at once
	if !put.Created {
		call.AnswerStatus(http.StatusOK)
	}
	return &actionv3.PutExecutionResponse{Details: resource.Details(id, put.Sequence, put.ChangeDate, call.Context.Owner())}, nil
}

// checkTargets refuses targets that do not exist and keeps the others from
// being deleted until the transaction ends.
func (s *Service) checkTargets(ctx context.Context, tx pgx.Tx, targets []string) error {
	if len(targets) == 0 {
		return nil
	}
	existing, err := s.queries.LockTargets(ctx, tx, db.LockTargetsParams{
		InstanceID: policy.CallFrom(ctx).Context.InstanceID, Ids: targets,
	})
	if err != nil {
		return err
	}
	for i, target := range targets {
		if !slices.Contains(existing, target) {
			return fault.New(fault.NotFound, "TARGET_NOT_FOUND", "there is no target %q", target).On(fmt.Sprintf("execution.targets[%d]", i))
		}
	}
	return nil
}

func (s *Service) replaceElements(ctx context.Context, tx pgx.Tx, id string, targets, includes []string) error {
	instanceID := policy.CallFrom(ctx).Context.InstanceID
	if err := s.queries.ClearExecutionTargets(ctx, tx, db.ClearExecutionTargetsParams{InstanceID: instanceID, ID: id}); err != nil {
		return err
	}
	if err := s.queries.ClearExecutionIncludes(ctx, tx, db.ClearExecutionIncludesParams{InstanceID: instanceID, ID: id}); err != nil {
		return err
	}
	if len(targets) > 0 {
		if err := s.queries.AddExecutionTargets(ctx, tx, db.AddExecutionTargetsParams{InstanceID: instanceID, ID: id, Targets: targets}); err != nil {
			return err
		}
	}
	if len(includes) > 0 {
		return s.queries.AddExecutionIncludes(ctx, tx, db.AddExecutionIncludesParams{InstanceID: instanceID, ID: id, Includes: includes})
	}
	return nil
}

// recordExecution appends the event of a changed execution and dates it.
func (s *Service) recordExecution(ctx context.Context, tx pgx.Tx, id string, set *eventv1.ExecutionSet, now time.Time) (int64, error) {
	sequence, err := s.append(ctx, tx, id, set, now)
	if err != nil {
		return 0, err
	}
	if err := s.queries.NotifyChange(ctx, tx); err != nil {
		return 0, err
	}
	return sequence, s.queries.TouchExecution(ctx, tx, db.TouchExecutionParams{
		InstanceID: policy.CallFrom(ctx).Context.InstanceID, ID: id, Sequence: sequence, ChangeDate: now,
	})
}

// recordExecutions does so for executions that lost a target or an include.
func (s *Service) recordExecutions(ctx context.Context, tx pgx.Tx, ids []string, now time.Time) error {
	for _, id := range ids {
		left, err := s.queries.ExecutionElements(ctx, tx, db.ExecutionElementsParams{
			InstanceID: policy.CallFrom(ctx).Context.InstanceID, ID: id,
		})
		if err != nil {
			return err
		}
		if _, err := s.recordExecution(ctx, tx, id, &eventv1.ExecutionSet{Targets: left.Targets, Includes: left.Includes}, now); err != nil {
			return err
		}
	}
	return nil
}

// DeleteExecution deletes an execution and takes it out of those including it.
func (s *Service) DeleteExecution(ctx context.Context, req *actionv3.DeleteExecutionRequest) (*actionv3.DeleteExecutionResponse, error) {
	call, now, id := policy.CallFrom(ctx), s.Now(), req.GetId()
	instanceID := call.Context.InstanceID
	var sequence int64
	err := s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if err := s.queries.LockIncludes(ctx, tx, instanceID); err != nil {
			return err
		}
		including, err := s.queries.ExecutionsIncluding(ctx, tx, db.ExecutionsIncludingParams{InstanceID: instanceID, IncludeID: id})
		if err != nil {
			return err
		}
		locked, err := s.queries.LockExecutions(ctx, tx, db.LockExecutionsParams{InstanceID: instanceID, Ids: append(including, id)})
		if err != nil {
			return err
		}
		if !slices.Contains(locked, id) {
			return refuseMissing(pgx.ErrNoRows, "execution", id)
		}
		if err := s.queries.RemoveIncludeFromExecutions(ctx, tx, db.RemoveIncludeFromExecutionsParams{InstanceID: instanceID, IncludeID: id}); err != nil {
			return err
		}
		if err := s.recordExecutions(ctx, tx, including, now); err != nil {
			return err
		}
		if sequence, err = s.append(ctx, tx, id, &eventv1.ExecutionRemoved{}, now); err != nil {
			return err
		}
		if err := s.queries.NotifyChange(ctx, tx); err != nil {
			return err
		}
		return s.queries.DeleteExecution(ctx, tx, db.DeleteExecutionParams{InstanceID: instanceID, ID: id})
	})
	if err != nil {
		return nil, err
	}
	s.Invalidate()
	return &actionv3.DeleteExecutionResponse{Details: resource.Details(id, sequence, now, call.Context.Owner())}, nil
}

// SearchExecutions finds the executions that meet all filters.
func (s *Service) SearchExecutions(ctx context.Context, req *actionv3.SearchExecutionsRequest) (*actionv3.SearchExecutionsResponse, error) {
	call := policy.CallFrom(ctx)
	find := db.SearchExecutionsParams{
		InstanceID: call.Context.InstanceID, Unfiltered: len(req.GetFilters()) == 0, Targets: []string{}, Includes: []string{},
	}
	for _, filter := range req.GetFilters() {
		switch f := filter.GetFilter().(type) {
		case *actionv3.ExecutionSearchFilter_InConditions:
			var ids []string
			for _, condition := range f.InConditions.GetConditions() {
				ids = append(ids, executionID(condition))
			}
			find.Ids = resource.Intersect(find.Ids, ids)
		case *actionv3.ExecutionSearchFilter_ExecutionType:
			kind := conditionTypes[f.ExecutionType.GetType()]
			if find.ConditionType != nil && *find.ConditionType != kind {
				find.Ids = []string{} // of two types at once there are none
			}
			find.ConditionType = &kind
		case *actionv3.ExecutionSearchFilter_Target:
			find.Targets = addUnique(find.Targets, f.Target.GetId())
		case *actionv3.ExecutionSearchFilter_Include:
			find.Includes = addUnique(find.Includes, f.Include.GetInclude())
		}
	}
	rows, details, err := resource.Search(ctx, s.DB, call.Context.InstanceID, req.GetQuery(),
		func(ctx context.Context, tx db.DBTX, page resource.Page) ([]db.SearchExecutionsRow, int64, error) {
			find.Ascending, find.PageLimit, find.PageOffset = page.Asc, page.Limit, page.Offset
			rows, err := s.queries.SearchExecutions(ctx, tx, find)
			if len(rows) == 0 {
				return rows, 0, err
			}
			return rows, rows[0].Total, err
		})
	if err != nil {
		return nil, err
	}
	found := make([]*actionv3.GetExecution, len(rows))
	owner := call.Context.Owner()
	for i := range rows {
		row := &rows[i]
		found[i] = &actionv3.GetExecution{
			Details:   resource.Details(row.ID, row.Sequence, row.ChangeDate, owner),
			Execution: &actionv3.Execution{Condition: conditionOf(row.ID), Targets: row.Targets, Includes: row.Includes},
		}
	}
	return &actionv3.SearchExecutionsResponse{Details: details, Result: found}, nil
}

func addUnique(list []string, id string) []string {
	if slices.Contains(list, id) {
		return list
	}
	return append(list, id)
}

// ListAvailableExecutionFunctions lists what function conditions can name.
func (s *Service) ListAvailableExecutionFunctions(context.Context, *actionv3.ListAvailableExecutionFunctionsRequest) (*actionv3.ListAvailableExecutionFunctionsResponse, error) {
	return &actionv3.ListAvailableExecutionFunctionsResponse{Functions: event.Known.Functions()}, nil
}

// ListAvailableExecutionMethods lists what method conditions can name.
func (s *Service) ListAvailableExecutionMethods(context.Context, *actionv3.ListAvailableExecutionMethodsRequest) (*actionv3.ListAvailableExecutionMethodsResponse, error) {
	return &actionv3.ListAvailableExecutionMethodsResponse{Methods: s.operations.ExtensibleMethods()}, nil
}

// ListAvailableExecutionServices lists what service conditions can name.
func (s *Service) ListAvailableExecutionServices(context.Context, *actionv3.ListAvailableExecutionServicesRequest) (*actionv3.ListAvailableExecutionServicesResponse, error) {
	return &actionv3.ListAvailableExecutionServicesResponse{Services: s.operations.ExtensibleServices()}, nil
}
