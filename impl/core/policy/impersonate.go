package policy

import (
	"context"

	"github.com/writ-id/writ/gen/db"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
)

// The permissions to act in the name of users, and of users who hold roles.
const (
	impersonation      = "impersonation"
	adminImpersonation = "admin.impersonation"
)

// MayImpersonate reports whether an actor may act in the name of a user: with the
// permission where the user is; and in the name of one who holds roles only with the
// other permission, and when the actor could give each of these roles (SEC-103). Of the
// actor's roles count those that the application of its token has from it (SEC-235).
func (r *Roles) MayImpersonate(ctx context.Context, conn db.DBTX, by Identity, target Place) (bool, error) {
	q := db.New()
	held, err := q.MembershipPlaces(ctx, conn, db.MembershipPlacesParams{InstanceID: target.InstanceID, UserID: by.UserID})
	if err != nil {
		return false, err
	}
	actor := &Caller{UserID: by.UserID, InstanceID: target.InstanceID, within: by.Within, handed: by.Handed}
	actor.hold(held)
	if !actor.may(r, impersonation, target) {
		return false, nil
	}
	holds, err := q.MembershipPlaces(ctx, conn, db.MembershipPlacesParams{InstanceID: target.InstanceID, UserID: target.UserID})
	if err != nil || len(holds) == 0 {
		return err == nil, err
	}
	if !actor.may(r, adminImpersonation, target) {
		return false, nil
	}
	call := &Call{Caller: actor, roles: r}
	for _, m := range holds {
		at := Place{InstanceID: target.InstanceID, OrgID: m.OrgID, ProjectID: m.ProjectID, ProjectGrantID: m.ProjectGrantID}
		if !call.gives(m.Roles, policyv1.Level(m.Level), at) {
			return false, nil
		}
	}
	return true, nil
}

// gives reports whether the caller could give roles.
func (c *Call) gives(names []string, level policyv1.Level, at Place) bool {
	return c.MayGrant(names, level, at, "") == nil
}
