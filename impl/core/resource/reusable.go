package resource

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/event"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/store"
)

// Reusable is the table of a reusable resource (document 1, "Reusable resources"): one is
// defined in the system, an instance or an organization, and every context below sees it,
// active or not, says for itself whether it is active, and changes nothing else of it.
type Reusable[R any, M Model[R]] struct {
	table  *Table[R, M]
	policy func(*R) *object.StatePolicy // where it is defined
	said   func(object.StatePolicy) event.Payload
	// alternatives reports whether a context uses one of the rows at a time.
	alternatives bool
}

// NewReusable returns the table of a model. policy is the column with the policy of the
// context that defines a row, said makes the event of what another one says of it.
func NewReusable[R any, M Model[R]](env Env, model M, policy func(*R) *object.StatePolicy, said func(object.StatePolicy) event.Payload) *Reusable[R, M] {
	return &Reusable[R, M]{New(env, model), policy, said, false}
}

// Alternatives has contexts use one of the rows at a time: that an instance uses another one is
// no word against this one, so an organization may choose it (is_effective names these tables).
func (t *Reusable[R, M]) Alternatives() *Reusable[R, M] {
	t.alternatives = true
	return t
}

// In returns the table within a transaction.
func (t *Reusable[R, M]) In(tx pgx.Tx) *Reusable[R, M] {
	bound := *t
	bound.table = t.table.In(tx)
	return &bound
}

// Table returns the table for what generated searches do with it; all else would not ask
// what contexts inherit.
func (t *Reusable[R, M]) Table() *Table[R, M] { return t.table }

// Create stores a new row, defined in the context of the call.
func (t *Reusable[R, M]) Create(ctx context.Context, row *R, payload event.Payload) (*object.Details, error) {
	return t.table.Create(ctx, row, payload)
}

// View is how a context sees a resource.
type View struct {
	Details *object.Details
	Parent  *object.Parent // the context above; nil where the resource is defined
	State   object.EffectiveState
	Policy  object.StatePolicy // of the context itself
	in      policy.Context
}

// Get reads a row by ID, as the context of the call sees it.
func (t *Reusable[R, M]) Get(ctx context.Context, id string, conditions ...Condition[R]) (*R, *View, error) {
	row, in, err := t.see(ctx, t.table.DB.Conn(), Free, id, conditions)
	if err != nil {
		return nil, nil, err
	}
	views, err := t.views(ctx, t.table.DB.Conn(), []R{*row}, func(policy.Place) policy.Context { return in })
	if err != nil {
		return nil, nil, err
	}
	return row, &views[0], nil
}

// see reads a row, and in which context the call sees it.
func (t *Reusable[R, M]) see(ctx context.Context, conn db.DBTX, lock Lock, id string, conditions []Condition[R]) (*R, policy.Context, error) {
	call := policy.CallFrom(ctx)
	row, err := t.table.model.Read(ctx, conn, lock, Key{InstanceID: call.Instance.ID, ID: id})
	if store.NoRow(err) {
		row, err = t.table.model.Read(ctx, conn, lock, Key{ID: id})
	}
	if err != nil && !store.NoRow(err) {
		return nil, policy.Context{}, err
	}
	head := t.table.model.Head(row)
	in, unseen := call.Sees(head.Place) // asked even when there is none
	met := err == nil
	for _, is := range conditions {
		met = met && is(row)
	}
	if !met || errors.Is(unseen, policy.ErrUnseen) {
		return nil, policy.Context{}, t.table.Missing(id)
	}
	return row, in, unseen
}

// Views returns how the context of a search sees rows: those that are defined below it as
// they are seen there.
func (t *Reusable[R, M]) Views(ctx context.Context, rows []R) ([]View, error) {
	in := policy.CallFrom(ctx).Context
	return t.views(ctx, t.table.DB.SearchConn(), rows, func(defined policy.Place) policy.Context {
		if defined.OrgID != "" || in.InstanceID == "" {
			return policy.In(defined.InstanceID, defined.OrgID)
		}
		return in
	})
}

// views reads what contexts say of rows and walks down to where each is seen.
func (t *Reusable[R, M]) views(ctx context.Context, conn db.DBTX, rows []R, seenIn func(policy.Place) policy.Context) ([]View, error) {
	views, ids := make([]View, len(rows)), make([]string, len(rows))
	inherits := policy.Context{}
	for i := range rows {
		head := t.table.model.Head(&rows[i])
		ids[i] = head.ID
		views[i].Details, views[i].in = t.table.Details(&rows[i]), seenIn(head.Place)
		if !definedIn(head.Place, views[i].in) {
			inherits = views[i].in
		}
	}
	var words []db.StatePolicy
	if inherits.InstanceID != "" {
		var err error
		if words, err = db.New().StatePolicies(ctx, conn, db.StatePoliciesParams{
			InstanceID: inherits.InstanceID, OrgID: inherits.OrgID, Kind: t.table.model.Facts().Table, ResourceIds: ids,
		}); err != nil {
			return nil, err
		}
	}
	for i := range rows {
		t.walk(&rows[i], &views[i], words)
	}
	return views, nil
}

func definedIn(at policy.Place, in policy.Context) bool {
	return at.InstanceID == in.InstanceID && at.OrgID == in.OrgID
}

// walk finds the state of a resource in the context of a view, from the one that defines it
// down: the first context below that deactivates it ends it for everything below.
func (t *Reusable[R, M]) walk(row *R, view *View, words []db.StatePolicy) {
	head := t.table.model.Head(row)
	view.Policy = *t.policy(row)
	active := view.Policy != object.StatePolicy_STATE_POLICY_DEACTIVATE
	ended := !active && head.Place.InstanceID != "" && !t.alternatives // what an instance has put off stays off below it
	for _, at := range downTo(view.in, head.Place) {
		above, _ := at.Above()
		view.Parent = &object.Parent{Parent: above.Owner(), State: state(active)}
		view.Policy = object.StatePolicy_STATE_POLICY_INHERIT
		if i := slices.IndexFunc(words, func(w db.StatePolicy) bool {
			return w.OrgID == at.OrgID && w.ResourceID == head.ID && w.ResourceInstanceID == head.Place.InstanceID
		}); i >= 0 {
			view.Policy = words[i].StatePolicy
			if at == view.in {
				view.Details = Details(head.ID, max(head.Sequence, words[i].Sequence), later(head.ChangeDate, words[i].ChangeDate), head.Owner())
			}
		}
		switch {
		case ended:
		case view.Policy == object.StatePolicy_STATE_POLICY_DEACTIVATE:
			active, ended = false, true
		case view.Policy == object.StatePolicy_STATE_POLICY_ACTIVATE:
			active = true
		}
	}
	view.State = state(active)
}

// downTo returns the contexts below a place, down to in.
func downTo(in policy.Context, defined policy.Place) []policy.Context {
	var path []policy.Context
	for !definedIn(defined, in) {
		path = append(path, in)
		above, ok := in.Above()
		if !ok {
			break
		}
		in = above
	}
	slices.Reverse(path)
	return path
}

func state(active bool) object.EffectiveState {
	if active {
		return object.EffectiveState_EFFECTIVE_STATE_ACTIVE
	}
	return object.EffectiveState_EFFECTIVE_STATE_INACTIVE
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Change is a patch of a reusable resource.
type Change[R any] struct {
	// Policy is the new policy of the context, nil when it stays.
	Policy *object.StatePolicy
	// Other is the first field that only the context which defines the resource may change,
	// "" when the patch has none.
	Other string
	// Apply changes the row, where it is defined.
	Apply func(pgx.Tx, *R) error
}

// FirstField names the first field that a message has besides some, "" when there is none.
func FirstField(below string, of proto.Message, besides ...protoreflect.Name) string {
	m := of.ProtoReflect() // of a nil message, which has none
	for i := range m.Descriptor().Fields().Len() {
		if field := m.Descriptor().Fields().Get(i); !slices.Contains(besides, field.Name()) && m.Has(field) {
			return below + "." + field.JSONName()
		}
	}
	return ""
}

// Patch changes a row where it is defined; in a context that inherits it, its policy there,
// and refuses more. When nothing changes nothing is written.
func (t *Reusable[R, M]) Patch(ctx context.Context, id string, payload event.Payload, change Change[R], conditions ...Condition[R]) (*object.Details, error) {
	var details *object.Details
	err := t.table.DB.InTx(ctx, func(tx pgx.Tx) error {
		row, in, err := t.see(ctx, tx, ForLock, id, conditions)
		if err != nil {
			return err
		}
		if definedIn(t.table.model.Head(row).Place, in) {
			details, err = t.define(ctx, tx, row, payload, change)
			return err
		}
		if change.Other != "" {
			return fault.Invalid("INHERITED_READ_ONLY", change.Other, "the %s is inherited: only its state policy can be changed here", t.table.model.Facts().Kind)
		}
		if change.Policy == nil {
			views, err := t.views(ctx, tx, []R{*row}, func(policy.Place) policy.Context { return in })
			if err == nil {
				details = views[0].Details
			}
			return err
		}
		details, err = t.say(ctx, tx, row, in, *change.Policy)
		return err
	})
	return details, t.table.Refusal(err)
}

func (t *Reusable[R, M]) define(ctx context.Context, tx pgx.Tx, row *R, payload event.Payload, change Change[R]) (*object.Details, error) {
	old := *row
	if change.Policy != nil {
		*t.policy(row) = *change.Policy
	}
	if err := change.Apply(tx, row); err != nil {
		return nil, err
	}
	_, err := t.table.Save(ctx, tx, &old, row, payload)
	return t.table.Details(row), err
}

// say has a context say whether a resource that it inherits, and that this transaction has
// locked, is active in it.
func (t *Reusable[R, M]) say(ctx context.Context, tx pgx.Tx, row *R, in policy.Context, word object.StatePolicy) (*object.Details, error) {
	views, err := t.views(ctx, tx, []R{*row}, func(policy.Place) policy.Context { return in })
	if err != nil || views[0].Policy == word {
		return views[0].Details, err
	}
	head, now := t.table.model.Head(row), t.table.Now()
	sequence, err := event.Append(ctx, tx, event.Event{
		InstanceID: in.InstanceID, ObjectID: head.ID, Payload: t.said(word),
		Owner: in.Owner(), Cause: policy.CauseOf(ctx, now),
	})
	if err != nil {
		return nil, err
	}
	return Details(head.ID, sequence, now, head.Owner()), db.New().SetStatePolicy(ctx, tx, db.SetStatePolicyParams{
		InstanceID: in.InstanceID, OrgID: in.OrgID, Kind: t.table.model.Facts().Table, ResourceInstanceID: head.Place.InstanceID, ResourceID: head.ID,
		StatePolicy: word, Sequence: sequence, ChangeDate: now,
	})
}

// Delete deletes a row where it is defined, and what contexts below said of it.
func (t *Reusable[R, M]) Delete(ctx context.Context, id string, payload event.Payload, conditions ...Condition[R]) (*object.Details, error) {
	var details *object.Details
	err := t.table.DB.InTx(ctx, func(tx pgx.Tx) error {
		row, in, err := t.see(ctx, tx, ForTake, id, conditions)
		if err != nil {
			return err
		}
		head := t.table.model.Head(row)
		if !definedIn(head.Place, in) {
			return fault.New(fault.PermissionDenied, "INHERITED_READ_ONLY", "the %s is inherited: it can be deleted where it is defined only", t.table.model.Facts().Kind)
		}
		t.table.model.Touch(row, t.table.Now())
		if err := db.New().DeleteStatePolicies(ctx, tx, db.DeleteStatePoliciesParams{
			Kind: t.table.model.Facts().Table, ResourceInstanceID: head.Place.InstanceID, ResourceID: head.ID,
		}); err != nil {
			return err
		}
		details, err = t.table.deleteRow(ctx, tx, Key{InstanceID: head.Place.InstanceID, ID: head.ID}, row, payload)
		return err
	})
	return details, t.table.Refusal(err)
}

// Effective returns the rows that are active in a context, the oldest first. An empty orgID
// is the instance itself.
func (t *Reusable[R, M]) Effective(ctx context.Context, conn db.DBTX, instanceID, orgID string) ([]R, error) {
	w := &Where{}
	in := policy.In(instanceID, orgID)
	t.table.model.Facts().inherited(w, in)
	w.And(t.active(w, in))
	conditions, args := w.SQL()
	found, _, err := t.table.query(ctx, conn, 0,
		"SELECT found.*, 0::bigint FROM ("+t.table.model.Facts().Select+" WHERE "+conditions+") found ORDER BY found.creation_date, found.id", args)
	return found, err
}

// Filters are the conditions of searches that compare no column.
type Filters[R any, M Model[R]] struct {
	table *Reusable[R, M]
	in    policy.Context
}

// Filters returns those of a search in the context of a call.
func (t *Reusable[R, M]) Filters(ctx context.Context) Filters[R, M] {
	return Filters[R, M]{t, policy.CallFrom(ctx).Context}
}

// ByState keeps what is active in the context, or what is not.
func (f Filters[R, M]) ByState(w *Where, filter *object.StateFilter) {
	active := f.table.active(w, f.in)
	if filter.GetState() != object.EffectiveState_EFFECTIVE_STATE_ACTIVE {
		active = "NOT " + active
	}
	w.And(active)
}

// active is the condition that a row is active in a context; is_effective is walk in SQL.
func (t *Reusable[R, M]) active(w *Where, in policy.Context) string {
	return "is_effective(" + w.Arg(t.table.model.Facts().Table) + ", t.instance_id, t.org_id, t.id, t.state_policy, " + w.Arg(in.InstanceID) + ", " + w.Arg(in.OrgID) + ")"
}

// inherited adds the conditions of what a context defines or inherits. The first argument is
// the instance.
func (f *Facts) inherited(w *Where, in policy.Context) {
	w.And("t.instance_id IN ('', " + w.Arg(in.InstanceID) + ")")
	w.And("(t.org_id IS NULL OR t.org_id = " + w.Arg(in.OrgID) + ")")
}

// seen adds the conditions of what a search in the context of a call sees: what is defined
// there, above and below, of the latter what the caller may read.
func (f *Facts) seen(w *Where, call *policy.Call) {
	in, scope := call.Context, call.Scope()
	switch {
	case in.OrgID != "":
		f.inherited(w, in)
	case in.InstanceID == "": // who reads in the system reads everywhere
		if w.And(w.Arg(in.InstanceID) + "::text = ''"); !scope.All {
			w.And("false")
		}
	default:
		w.And("t.instance_id IN ('', " + w.Arg(in.InstanceID) + ")")
		if !scope.All {
			w.And("(t.org_id IS NULL OR t.org_id = ANY(" + w.Arg(NotNull(scope.Orgs)) + "::text[]))")
		}
	}
}
