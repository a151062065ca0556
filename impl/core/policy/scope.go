package policy

import (
	"context"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	policyv1 "github.com/writ-id/writ/gen/proto/writ/policy/v1"
	"github.com/writ-id/writ/impl/core/fault"
)

// Context is the step of the hierarchy a call applies to.
type Context struct {
	Level      policyv1.Level
	InstanceID string // empty on the level of the system
	OrgID      string // set on the level of an organization
	Named      bool   // by the header of that name, in calls of operations that inherit
}

// Owner returns the context as the owner of what is created in it.
func (c Context) Owner() *object.Owner {
	switch c.Level {
	case policyv1.Level_LEVEL_SYSTEM:
		return &object.Owner{Type: object.OwnerType_OWNER_TYPE_SYSTEM}
	case policyv1.Level_LEVEL_ORG:
		return &object.Owner{Type: object.OwnerType_OWNER_TYPE_ORG, Id: c.OrgID}
	default:
		return &object.Owner{Type: object.OwnerType_OWNER_TYPE_INSTANCE, Id: c.InstanceID}
	}
}

// place returns where roles have to be held to act in the context.
func (c Context) place() Place {
	return Place{InstanceID: c.InstanceID, OrgID: c.OrgID}
}

// Place is where an object is: below its instance in an organization, a project
// or the grant of a project, as far as it has them. Roles of each of them hold
// for the object. UserID is the user it belongs to, for operations that users
// may do to their own. The zero Place is the system.
type Place struct {
	InstanceID, OrgID, ProjectID, ProjectGrantID, UserID string
}

// grant is a set of roles on one object of the hierarchy.
type grant struct {
	level    policyv1.Level
	objectID string
	roles    []string
}

// covers reports whether roles held by the grant hold at a place.
func (g *grant) covers(at Place) bool {
	switch g.level {
	case policyv1.Level_LEVEL_SYSTEM:
		return true
	case policyv1.Level_LEVEL_INSTANCE:
		return at.InstanceID != "" && g.objectID == at.InstanceID
	case policyv1.Level_LEVEL_ORG:
		return at.OrgID != "" && g.objectID == at.OrgID
	case policyv1.Level_LEVEL_PROJECT:
		return at.ProjectID != "" && g.objectID == at.ProjectID
	case policyv1.Level_LEVEL_PROJECT_GRANT:
		return at.ProjectGrantID != "" && g.objectID == at.ProjectGrantID
	}
	return false
}

// may reports whether the caller holds the permission at a place.
func (c *Caller) may(roles *Roles, permission string, at Place) bool {
	for i := range c.grants {
		if g := &c.grants[i]; g.covers(at) && roles.grants(g.roles, permission) {
			return true
		}
	}
	return false
}

// isHome reports whether the caller may act for itself: not by an application of another
// organization that nobody trusts.
func (c *Caller) isHome() bool { return c.within == "" || c.within == c.OrgID }

// Scope is everywhere in an instance that a caller holds the permission of an
// operation.
type Scope struct {
	All           bool // in the whole instance
	Orgs          []string
	Projects      []string
	ProjectGrants []string
	UserID        string // what belongs to this user
}

// scope returns where the caller holds the permission on an instance.
func (c *Caller) scope(roles *Roles, op *Operation, instanceID string) *Scope {
	if op.Permission == "" && !op.self || c.may(roles, op.Permission, Place{InstanceID: instanceID}) {
		return &Scope{All: true}
	}
	s := &Scope{}
	if op.self && c.InstanceID == instanceID && c.isHome() { // IDs of users are unique in their instance
		s.UserID = c.UserID
	}
	for _, g := range c.grants {
		// Grants below the instance are on objects of the caller's own: in the system, and in
		// other instances, they are nothing.
		if c.InstanceID != instanceID || !roles.grants(g.roles, op.Permission) {
			continue
		}
		switch g.level {
		case policyv1.Level_LEVEL_ORG:
			s.Orgs = append(s.Orgs, g.objectID)
		case policyv1.Level_LEVEL_PROJECT:
			s.Projects = append(s.Projects, g.objectID)
		case policyv1.Level_LEVEL_PROJECT_GRANT:
			s.ProjectGrants = append(s.ProjectGrants, g.objectID)
		}
	}
	return s
}

func (s *Scope) empty() bool {
	return !s.All && s.UserID == "" && len(s.Orgs)+len(s.Projects)+len(s.ProjectGrants) == 0
}

// has reports whether a place is in the scope.
func (s *Scope) has(at Place) bool {
	in := func(id string, list []string) bool {
		for _, one := range list {
			if id == one && id != "" {
				return true
			}
		}
		return false
	}
	return s.All || s.UserID != "" && s.UserID == at.UserID ||
		in(at.OrgID, s.Orgs) || in(at.ProjectID, s.Projects) || in(at.ProjectGrantID, s.ProjectGrants)
}

// Reaches reports whether the caller may do this to an object at a place. An
// operation that reaches objects has to ask, or it fails (SEC-232); package
// resource asks for every row it reads.
func (c *Call) Reaches(at Place) bool {
	c.asked.Store(true)
	return c.scope.has(at)
}

// Require refuses the call when the caller may not do this at a place that the
// request names.
func (c *Call) Require(at Place) error {
	if c.Reaches(at) {
		return nil
	}
	return c.Operation.Denied()
}

// Scope returns where the objects are that the call may see. A search has to
// keep to it.
func (c *Call) Scope() *Scope {
	c.asked.Store(true)
	return c.scope
}

// MayGrant refuses roles that give more at a place than the caller holds there
// (SEC-235), and names that are no roles of the level.
func (c *Call) MayGrant(names []string, level policyv1.Level, at Place, field string) error {
	for _, name := range names {
		if c.roles.Level(name) != level {
			return fault.Invalid("UNKNOWN_ROLE", field, "%q is not a role of this level; there are %v", name, c.roles.Names(level))
		}
		if c.Holds("system.membership.write", Place{}) {
			continue // who runs the system appoints the owners of its instances
		}
		for _, pattern := range c.roles.roles[name].patterns {
			if !c.Caller.may(c.roles, pattern, at) {
				return fault.New(fault.PermissionDenied, "ROLE_TOO_HIGH", "the caller does not hold %s, which the role %s gives", pattern, name).On(field)
			}
		}
	}
	return nil
}

// Holds reports whether the caller holds another permission at a place.
func (c *Call) Holds(permission string, at Place) bool {
	return c.Caller.root || c.Caller.may(c.roles, permission, at)
}

// MayBecome refuses to change a user, or what is theirs, who holds roles that the caller
// could not give: who gives them credentials can act as them, and who takes a factor,
// the name or the state away disarms them (SEC-235).
func (c *Call) MayBecome(ctx context.Context, tx db.DBTX, instanceID, userID string) error {
	if c.Caller.root {
		return nil
	}
	if c.Caller.acting { // a borrowed identity must not become a lasting one (SEC-104)
		return fault.New(fault.PermissionDenied, "IMPERSONATED", "users cannot be changed in the name of somebody else")
	}
	if userID == c.Caller.UserID && instanceID == c.Caller.InstanceID {
		return nil
	}
	memberships, err := db.New().MembershipPlaces(ctx, tx, db.MembershipPlacesParams{InstanceID: instanceID, UserID: userID})
	if err != nil {
		return err
	}
	for _, m := range memberships {
		at := Place{InstanceID: instanceID, OrgID: m.OrgID, ProjectID: m.ProjectID, ProjectGrantID: m.ProjectGrantID}
		if c.MayGrant(m.Roles, policyv1.Level(m.Level), at, "") != nil {
			return fault.New(fault.PermissionDenied, "USER_HOLDS_MORE", "the user holds roles that the caller could not give")
		}
	}
	return nil
}
