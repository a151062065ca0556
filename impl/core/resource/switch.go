package resource

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	object "github.com/writ-id/writ/gen/proto/writ/object/v3alpha"
	"github.com/writ-id/writ/impl/core/policy"
)

// Switch has the context that a call is about say whether a resource is active in it. Of
// resources that are used one at a time, one that it activates takes the place of all that
// are active there: those it deactivates, in the same transaction, with events.
func (t *Reusable[R, M]) Switch(ctx context.Context, id string, word object.StatePolicy, conditions ...Condition[R]) (*object.Details, error) {
	var details *object.Details
	err := t.table.DB.InTx(ctx, func(tx pgx.Tx) error {
		_, in, err := t.see(ctx, tx, Free, id, conditions)
		if err != nil {
			return err
		}
		if err := db.New().LockSwitch(ctx, tx, db.LockSwitchParams{Kind: t.table.model.Facts().Table, InstanceID: in.InstanceID, OrgID: in.OrgID}); err != nil {
			return err
		}
		row, _, err := t.see(ctx, tx, Free, id, conditions)
		if err != nil {
			return err
		}
		if details, err = t.set(ctx, tx, row, in, word); err != nil || word != object.StatePolicy_STATE_POLICY_ACTIVATE {
			return err
		}
		active, err := t.Effective(ctx, tx, in.InstanceID, in.OrgID)
		if err != nil {
			return err
		}
		for i := range active {
			if t.table.model.Head(&active[i]).ID == id {
				continue
			}
			if _, err := t.set(ctx, tx, &active[i], in, object.StatePolicy_STATE_POLICY_DEACTIVATE); err != nil {
				return err
			}
		}
		return nil
	})
	return details, t.table.Refusal(err)
}

// set has a context say it of a row. Only rows that it defines are locked, so that contexts
// that share a row do not wait for each other.
func (t *Reusable[R, M]) set(ctx context.Context, tx pgx.Tx, row *R, in policy.Context, word object.StatePolicy) (*object.Details, error) {
	head := t.table.model.Head(row)
	if !definedIn(head.Place, in) {
		return t.say(ctx, tx, row, in, word)
	}
	row, err := t.table.model.Read(ctx, tx, ForLock, Key{InstanceID: head.Place.InstanceID, ID: head.ID})
	if err != nil {
		return nil, err
	}
	old := *row
	*t.policy(row) = word
	_, err = t.table.Save(ctx, tx, &old, row, t.said(word))
	return t.table.Details(row), err
}
