package policy

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/store"
)

// ContextHeader names the context of a call of an operation that inherits, whose request
// has no ctx: system, instance (that of the host), or org/ID.
const ContextHeader = "writ-context"

// named returns the context that the header names, if it does.
func (c *Chain) named(ctx context.Context, text string, instance *Instance) (in Context, err error) {
	switch org, ofOrg := strings.CutPrefix(text, "org/"); {
	case text == "":
		return In(instance.ID, ""), nil
	case text == "system":
		in = In("", "")
	case text == "instance":
		in = In(instance.ID, "")
	case ofOrg:
		found, err := db.New().OrgByID(ctx, c.DB.Pool, db.OrgByIDParams{InstanceID: instance.ID, ID: org})
		if store.NoRow(err) {
			err = errContextNotFound
		}
		if err != nil {
			return Context{}, err
		}
		in = In(instance.ID, found)
	default:
		return Context{}, fault.Invalid("INVALID_CONTEXT", ContextHeader, "the header is system, instance or org/ID")
	}
	in.Named = true
	return in, nil
}

// ErrUnseen says that a call sees nothing of what is defined at a place.
var ErrUnseen = errors.New("policy: it is out of the call's sight")

var errManyContexts = fault.Invalid("CONTEXT_REQUIRED", ContextHeader, "the caller may do this in several organizations; name one of them")

// Sees returns the context that a call about a reusable resource is about, by the place
// that defines it: that place, where the caller may do this there; else the highest
// context below it in which they may; or the one that the request names, if that inherits
// it. ErrUnseen when there is none.
func (c *Call) Sees(defined Place) (Context, error) {
	c.asked.Store(true)
	own, this := In(defined.InstanceID, defined.OrgID), c.Operation.Permission
	if c.Context.Named {
		switch in := c.Context; {
		case !c.Holds(this, in.place()):
			return Context{}, ErrUnseen
		case own.below(in): // what holds there holds further down
			return own, nil
		case in.below(own):
			return in, nil
		}
		return Context{}, ErrUnseen
	}
	if c.Holds(this, defined) {
		return own, nil
	}
	// Where nothing is named, that is the instance of the host and what is in it.
	here := Place{InstanceID: c.Instance.ID}
	if defined.OrgID != "" || defined.InstanceID != "" && defined.InstanceID != here.InstanceID {
		return Context{}, ErrUnseen
	}
	if defined.InstanceID == "" && c.Holds(this, here) {
		return In(here.InstanceID, ""), nil
	}
	switch orgs := c.scope.Orgs; {
	case slices.Contains(orgs, c.Caller.OrgID):
		return In(here.InstanceID, c.Caller.OrgID), nil
	case len(orgs) == 1:
		return In(here.InstanceID, orgs[0]), nil
	case len(orgs) > 1:
		return Context{}, errManyContexts
	}
	return Context{}, ErrUnseen
}

// below reports whether c is a context or lies below it.
func (c Context) below(other Context) bool {
	return (other.InstanceID == "" || other.InstanceID == c.InstanceID) && (other.OrgID == "" || other.OrgID == c.OrgID)
}

// Above returns the context above c, of which the system has none.
func (c Context) Above() (above Context, ok bool) {
	switch {
	case c.OrgID != "":
		return In(c.InstanceID, ""), true
	case c.InstanceID != "":
		return In("", ""), true
	}
	return Context{}, false
}
