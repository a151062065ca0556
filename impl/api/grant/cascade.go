package grant

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
)

// holding runs fn in a transaction that keeps roles from being taken away in a
// project.
func (s *Service) holding(ctx context.Context, projectID string, fn func(pgx.Tx) error) error {
	return s.DB.InTx(ctx, func(tx pgx.Tx) error {
		_, err := s.queries.HoldProject(ctx, tx, db.HoldProjectParams{InstanceID: policy.CallFrom(ctx).Context.InstanceID, ID: projectID})
		if store.NoRow(err) {
			return s.projects.Missing(projectID)
		}
		if err != nil {
			return err
		}
		return fn(tx)
	})
}

// locking runs fn in a transaction that alone may take roles away in a project.
func (s *Service) locking(ctx context.Context, projectID string, fn func(pgx.Tx) error) error {
	return s.DB.InTx(ctx, func(tx pgx.Tx) error {
		_, err := s.queries.LockProject(ctx, tx, db.LockProjectParams{InstanceID: policy.CallFrom(ctx).Context.InstanceID, ID: projectID})
		if store.NoRow(err) {
			return s.projects.Missing(projectID)
		}
		if err != nil {
			return err
		}
		return fn(tx)
	})
}

// checkRoles refuses keys that are no roles of a project, and under a project
// grant those that it lacks. The project is held.
func (s *Service) checkRoles(ctx context.Context, tx pgx.Tx, projectID string, keys []string, under *db.ProjectGrant, field string) error {
	known, err := s.queries.RoleKeys(ctx, tx, db.RoleKeysParams{
		InstanceID: policy.CallFrom(ctx).Context.InstanceID, ProjectID: projectID, Keys: keys,
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case !slices.Contains(known, key):
			return fault.New(fault.NotFound, "ROLE_NOT_FOUND", "the project has no role %q", key).On(at)
		case under != nil && !slices.Contains(under.RoleKeys, key):
			return fault.New(fault.FailedPrecondition, "ROLE_NOT_GRANTED", "the project grant does not have the role %q", key).On(at)
		}
	}
	return nil
}

// takeRole takes a role that is about to be deleted out of all grants.
func (s *Service) takeRole(ctx context.Context, tx pgx.Tx, projectID, key string) error {
	call, now := policy.CallFrom(ctx), s.Now()
	err := s.queries.TakeFromProjectGrants(ctx, tx, db.TakeFromProjectGrantsParams{
		InstanceID: call.Context.InstanceID, ProjectID: projectID, Taken: []string{key}, Actor: call.Caller.UserID, Now: now,
	})
	if err != nil {
		return err
	}
	return s.takeFromUsers(ctx, tx, projectID, nil, []string{key}, now)
}

// takeFromUsers takes roles out of the user grants of a project, or of those
// under one project grant.
func (s *Service) takeFromUsers(ctx context.Context, tx pgx.Tx, projectID string, projectGrantID *string, taken []string, now time.Time) error {
	call := policy.CallFrom(ctx)
	if err := event.Deletes(ctx, tx, policy.CauseOf(ctx, now)); err != nil {
		return err
	}
	err := s.queries.RemoveEmptiedUserGrants(ctx, tx, db.RemoveEmptiedUserGrantsParams{
		InstanceID: call.Context.InstanceID, ProjectID: projectID, ProjectGrantID: projectGrantID, Taken: taken,
	})
	if err != nil {
		return err
	}
	return s.queries.TakeFromUserGrants(ctx, tx, db.TakeFromUserGrantsParams{
		InstanceID: call.Context.InstanceID, ProjectID: projectID, ProjectGrantID: projectGrantID, Taken: taken, Actor: call.Caller.UserID, Now: now,
	})
}
